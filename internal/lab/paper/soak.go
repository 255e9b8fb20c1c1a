// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"fmt"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/method"
	"minne/internal/lab/result"
)

// A day of the greatest load: section 3.3 of the paper about the low-power router.

// Rows of soak.
const (
	soakHours = "duration at full rate"
	soakRate  = "rate forwarded"
	soakDrift = "change of that rate from beginning to end"
	soakHangs = "intervals in which nothing was forwarded"
)

var soaked = device.Spec{Kind: device.Minne}

// Soak is the name of the experiment that takes Options.Duration.
const Soak = "soak"

var soak = Preset{
	Name:      Soak,
	Short:     "24 hours of full rate without any degradation",
	Source:    "On the Design of Affordable and Green High-Performance Routers for Community Networks, section 3.3",
	QuickTime: "1 min", Time: "24 h (--duration)",
	Comparable: "whether the rate stays what it was, and whether the router hangs: the generator offers all it can the whole time, as pktgen did. " +
		"What the router can't forward of that is lost all along, then as now, and is no sign of trouble.",
	Not: "a shorter time with 24 hours: what grows slowly is found only by a long run, so give it the day. Heat, power and cards are not tested by namespaces. " +
		"The paper does not describe its traffic; here one flow of 64 B in each direction.",
	rows: []result.PaperRow{
		number(of(soaked, soakHours), "h", 24),
		said(of(soaked, soakRate), "kpps", "full speed"),
		said(of(soaked, soakDrift), "%", "the same performance throughout the test"),
		said(of(soaked, soakHangs), "", "no hangs or malfunctions"),
	},
	run: runSoak,
}

func runSoak(ctx context.Context, e *experiment) error {
	p, err := e.plan([]device.Spec{soaked}, one(words("one-flow bidirectional")), measure.Method{Name: fmt.Sprintf("soak for %v", e.pace.soak), Run: e.soakOne})
	if err != nil {
		return err
	}
	return p.Run(ctx, e.session)
}

// soakOne soaks a target and enters how it stands after every trial.
func (e *experiment) soakOne(ctx context.Context, t *measure.Target) error {
	t.Rig.Timed(false)
	at := -1
	keep := func(s result.Soak) {
		s.Series = append(s.Series[:0:0], s.Series...) // the method goes on with its own
		e.session.Update(func(r *result.Result) {
			if at < 0 {
				at = len(r.Soak)
				r.Soak = append(r.Soak, s)
			}
			r.Soak[at] = s
		})
		e.soakRows(s)
	}
	found, err := method.Soak(ctx, t.Tester, method.SoakOptions{
		Subject: t.Subject, Load: t.MaxLoad, Duration: e.pace.soak, Update: keep, Progress: t.Session.Progress,
	})
	if len(found.Series) > 0 {
		keep(found)
	}
	return err
}

// soakRows enters what a series says.
func (e *experiment) soakRows(s result.Soak) {
	last := s.Series[len(s.Series)-1]
	received, hangs := uint64(0), 0.0
	for _, p := range s.Series {
		received += p.Received
		if p.Received == 0 {
			hangs++
		}
	}
	e.found(of(soaked, soakHours), exactly(last.At.Hours()))
	e.found(of(soaked, soakRate), exactly(float64(received)/last.At.Seconds()*toKilo))
	e.found(of(soaked, soakHangs), exactly(hangs))
	if s.DriftLow == 0 && s.DriftHigh == 0 {
		e.missing(of(soaked, soakDrift), s.Verdict)
		return
	}
	// Not per hour: of a run of minutes that would be a forecast.
	percent := 100 * last.At.Hours()
	e.found(of(soaked, soakDrift), result.Interval{Median: percent * s.Drift, Low: percent * s.DriftLow, High: percent * s.DriftHigh})
}
