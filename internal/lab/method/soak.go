// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"strings"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// mostPoints bounds a series, whatever its length: beyond, neighbours become one point.
const mostPoints = 2000

// SoakOptions say what a device does for hours.
type SoakOptions struct {
	Subject  result.Subject
	Load     float64       // frames per second; 0 is as fast as the tester can
	Duration time.Duration // 0 is 24 h
	// Trial is how long one of the trials is that the soak consists of; 0 is 5 s, or
	// what makes 2000 trials of the duration when that is more, or 20 when that is less.
	Trial    time.Duration
	Update   func(result.Soak) // told after every trial how it stands, with a series that is the next trial's again; may be nil
	Progress Progress
}

// Soak offers one load for a long time and says whether the device tires.
//
// It is a row of trials, between which the device is empty for a moment (0.1 to 0.3 s),
// so that every frame is accounted for while it lasts, and a device that begins to
// forward wrongly is found out within seconds. No trial is repeated: frames that
// were lost while the machine was disturbed are counted, and told apart in the verdict.
func Soak(ctx context.Context, b trial.Bench, o SoakOptions) (result.Soak, error) {
	total := or(o.Duration, 24*time.Hour)
	one := or(o.Trial, max(min(5*time.Second, total/20), total/mostPoints))
	s := soak{soak: result.Soak{Subject: o.Subject, Load: o.Load}}
	p := newPace(o.Progress, total)
	trial.For(b, "soak")
	var err error
	for begun := time.Duration(0); begun < total; begun += one {
		p.next(s.text())
		var r trial.Result
		if r, err = b.Attempt(ctx, trial.Load{Rate: o.Load, Duration: min(one, total-begun)}); err != nil {
			break
		}
		p.past(one)
		s.add(r)
		if o.Update != nil {
			s.evaluate()
			o.Update(s.soak)
		}
	}
	s.evaluate()
	return s.soak, err
}

// soak is how it stands.
type soak struct {
	soak  result.Soak
	rates []rate // as many as points
	per   int    // trials to a point
	part  int    // trials in the last point, 0 when it is full

	trials, lossy, disturbed int
	intended, excused        uint64 // excused: lost in disturbed trials
	at                       time.Duration
}

// add takes in a trial.
func (s *soak) add(r trial.Result) {
	s.at += r.Elapsed
	s.trials++
	s.intended += r.Intended
	s.soak.Lost += r.Lost()
	if r.Lost() > 0 {
		s.lossy++
	}
	if r.Void != "" {
		s.disturbed++
		s.excused += r.Lost()
	}
	point := trial.Point{At: s.at, Sent: r.Sent, Received: r.Received, Latency: r.Latency.Quantile(0.5)}
	now := rate{hours: (s.at - r.Elapsed/2).Hours(), value: forwarded(r)}
	if s.part == 0 && len(s.rates) == mostPoints {
		s.halve()
	}
	if last := len(s.rates) - 1; s.part > 0 {
		s.soak.Series[last] = merge(s.soak.Series[last], point)
		s.rates[last] = s.rates[last].merge(now, float64(s.part), 1)
	} else {
		s.soak.Series = append(s.soak.Series, point)
		s.rates = append(s.rates, now)
	}
	s.part = (s.part + 1) % max(1, s.per)
}

// forwarded is the rate that a trial tells of the device: at a given rate, the share of the
// frames sent that came back, times that rate, so that a tester that sends a
// little less is not the device's drift.
func forwarded(r trial.Result) float64 {
	if r.Rate == 0 || r.Sent == 0 {
		return r.ForwardingRate()
	}
	return r.Rate * float64(r.Received) / float64(r.Sent)
}

// halve makes one point of every two.
func (s *soak) halve() {
	n := len(s.rates) / 2
	points, rates := make([]trial.Point, n), make([]rate, n)
	for i := range n {
		points[i] = merge(s.soak.Series[2*i], s.soak.Series[2*i+1])
		rates[i] = s.rates[2*i].merge(s.rates[2*i+1], 1, 1)
	}
	s.soak.Series, s.rates = points, rates
	s.per = 2 * max(1, s.per)
}

func merge(a, b trial.Point) trial.Point {
	out := trial.Point{At: b.At, Sent: a.Sent + b.Sent, Received: a.Received + b.Received}
	if out.Received > 0 {
		weight := float64(a.Received) / float64(out.Received)
		out.Latency = time.Duration(weight*float64(a.Latency) + (1-weight)*float64(b.Latency))
	}
	return out
}

// evaluate says what the series means so far.
func (s *soak) evaluate() {
	d := findDrift(s.rates)
	s.soak.Drift, s.soak.DriftLow, s.soak.DriftHigh = d.perHour, d.low, d.high
	unexcused := s.soak.Lost - s.excused
	s.soak.Steady = d.known && !d.real && unexcused == 0
	var says []string
	switch {
	case !d.known:
		says = append(says, fmt.Sprintf("too short to detect drift: %d intervals, expected %d or more", len(s.rates), leastRates))
	case d.real && d.perHour < 0:
		says = append(says, fmt.Sprintf("forwards less and less: %+.3g %% per hour (95 %%: %+.3g to %+.3g %%)", d.perHour*100, d.low*100, d.high*100))
	case d.real:
		says = append(says, fmt.Sprintf("forwards more and more: %+.3g %% per hour (95 %%: %+.3g to %+.3g %%)", d.perHour*100, d.low*100, d.high*100))
	default:
		says = append(says, fmt.Sprintf("no drift beyond noise (95 %%: %+.3g to %+.3g %% per hour)", d.low*100, d.high*100))
	}
	if s.soak.Lost == 0 {
		says = append(says, fmt.Sprintf("no loss in %d frames", s.intended))
	} else {
		says = append(says, fmt.Sprintf("%d of %d frames lost, in %d of %d intervals", s.soak.Lost, s.intended, s.lossy, s.trials))
	}
	if s.disturbed > 0 {
		says = append(says, fmt.Sprintf("the machine disturbed %d intervals, in which %d of those were lost", s.disturbed, s.excused))
	}
	s.soak.Verdict = strings.Join(says, "; ")
}

// text is what people see meanwhile.
func (s *soak) text() string {
	return fmt.Sprintf("soak for %v so far, %d of %d frames lost", s.at.Round(time.Second), s.soak.Lost, s.intended)
}
