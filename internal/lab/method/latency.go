// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minne/internal/lab/histogram"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// LatencyOptions say at which loads delay is measured.
type LatencyOptions struct {
	Subject  result.Subject
	PDR      float64       // frames per second; shares refer to it
	Shares   []float64     // of PDR; none is 0, 0.1, 0.5 and 0.9. 0 stands for LeastLoad
	Least    float64       // load of the share 0, frames per second; 0 is 1000
	Duration time.Duration // of a trial; 0 is 6 s
	Repeat   int           // trials of each load; 0 is 20 (RFC 2544 section 26.2)
	// Alone is the same tester with a cable in the device's place. It measures what
	// the tester itself adds to every figure. nil: not measured, the report says so.
	Alone    trial.Tester
	Progress Progress
}

// errNoLatency is a tester whose frames carry no time stamps.
var errNoLatency = errors.New("frames came back, but none with a time stamp: is the tester timed?")

// Latency measures delay at shares of the partial drop rate.
//
// RFC 2544 section 26.2 stamps one frame of a stream of 120 s and repeats that 20
// times; RFC 8219 section 7.2 stamps 500 frames or more and reports median and
// 99.9th percentile. Here every frame is stamped, so 20 trials of 6 s have a million
// times as many samples in the same 120 s. They are put into one histogram for each
// load, whose percentiles are those of all frames.
//
// Loads take turns, and so do the device and the tester alone, so that a change of the
// machine in the course of the measurement meets all of them. The tester's own delay
// is reported beside the figures and not taken off: percentiles can't be subtracted.
// Trials that the machine disturbed are left out unless a load has no other.
func Latency(ctx context.Context, t trial.Tester, o LatencyOptions) (result.Latency, error) {
	loads := newDelays(o)
	for _, d := range loads {
		if err := positive("latency", "the PDR", d.rate); err != nil {
			return delays(o, nil), err
		}
	}
	repeat, duration := or(o.Repeat, 20), or(o.Duration, 6*time.Second)
	total := time.Duration(repeat*len(loads)) * duration
	if o.Alone != nil {
		total *= 2
	}
	p := newPace(o.Progress, total)
	for i := range repeat {
		for _, d := range loads {
			p.next(fmt.Sprintf("latency at %s, round %d of %d", d.name(), i+1, repeat))
			if err := d.try(ctx, t, &d.device, duration); err != nil {
				return delays(o, loads), err
			}
			p.past(duration)
			if o.Alone == nil {
				continue
			}
			p.next(fmt.Sprintf("latency of the tester alone at %s, round %d of %d", d.name(), i+1, repeat))
			if err := d.try(ctx, o.Alone, &d.alone, duration); err != nil {
				return delays(o, loads), fmt.Errorf("tester alone: %w", err)
			}
			p.past(duration)
		}
	}
	return delays(o, loads), nil
}

// delay is what is known of one load.
type delay struct {
	share, rate   float64
	device, alone samples
}

// samples are the delays of all trials of one load.
type samples struct {
	intended, lost  uint64
	clean, spoilt   histogram.Histogram
	trials, trusted int
}

func newDelays(o LatencyOptions) (out []*delay) {
	shares := o.Shares
	if len(shares) == 0 {
		shares = []float64{0, 0.1, 0.5, 0.9}
	}
	for _, share := range shares {
		rate := share * o.PDR
		if share == 0 {
			rate = or(o.Least, 1000)
		}
		out = append(out, &delay{share: share, rate: rate})
	}
	return out
}

func (d *delay) name() string {
	if d.share == 0 {
		return "the least load"
	}
	return fmt.Sprintf("%.0f %% of PDR", d.share*100)
}

// try adds a trial of this load to the samples.
func (d *delay) try(ctx context.Context, t trial.Tester, into *samples, duration time.Duration) error {
	trial.For(t, "latency at "+d.name())
	r, err := t.Try(ctx, trial.Load{Rate: d.rate, Duration: duration})
	if err != nil {
		return err
	}
	if r.Received > 0 && r.Latency.Count() == 0 {
		return errNoLatency
	}
	into.trials++
	into.intended += r.Intended
	into.lost += r.Lost()
	if r.Void != "" {
		into.spoilt.Add(&r.Latency)
		return nil
	}
	into.trusted++
	into.clean.Add(&r.Latency)
	return nil
}

// all returns the delays that count.
func (s *samples) all() *histogram.Histogram {
	if s.trusted == 0 {
		return &s.spoilt
	}
	return &s.clean
}

// delays sums up all loads that had a trial.
func delays(o LatencyOptions, loads []*delay) result.Latency {
	out := result.Latency{Subject: o.Subject, PDR: o.PDR}
	var bias histogram.Histogram
	for _, d := range loads {
		if d.device.trials == 0 {
			continue
		}
		h := d.device.all()
		bias.Add(d.alone.all())
		out.Loads = append(out.Loads, result.LatencyPoint{
			Share: d.share, Offered: d.rate, Loss: float64(d.device.lost) / float64(max(1, d.device.intended)),
			Min: h.Min(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), P999: h.Quantile(0.999), Max: h.Max(),
			Bias: d.alone.all().Quantile(0.5), Spectrum: *h,
		})
	}
	out.BiasNS = float64(bias.Quantile(0.5))
	return out
}
