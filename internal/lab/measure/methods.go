// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"

	"minne/internal/lab/method"
	"minne/internal/lab/result"
)

// Loss measures loss against load.
func Loss(o method.LossCurveOptions) Method {
	return Method{Name: "loss curve", Run: func(ctx context.Context, t *Target) error {
		t.Rig.Timed(false)
		o.Subject, o.MaxLoad, o.Progress = t.Subject, t.MaxLoad, t.progress
		found, err := method.LossCurve(ctx, t.Tester, o)
		if len(found.Points) > 0 {
			t.Session.Update(func(r *result.Result) { r.Loss = append(r.Loss, found) })
		}
		return err
	}}
}

// BackToBack measures the longest burst without loss, at the greatest rate.
func BackToBack(o method.BackToBackOptions) Method {
	return Method{Name: "back-to-back frames", Run: func(ctx context.Context, t *Target) error {
		t.Rig.Timed(false)
		o.Subject, o.MaxRate, o.Throughput, o.Progress = t.Subject, t.MaxLoad, t.NDR, t.progress
		found, err := method.BackToBack(ctx, t.Tester, o)
		if len(found.Bursts) > 0 {
			t.Session.Update(func(r *result.Result) { r.BackToBack = append(r.BackToBack, found) })
		}
		return err
	}}
}

// errNoRate is a method that builds on a throughput that was not found.
var errNoRate = errors.New("the search found no load that the device forwards, so there is none to measure at")

// Latency measures delay at shares of the PDR, which a search before it has found.
func Latency(o method.LatencyOptions) Method {
	return Method{Name: "latency", Run: func(ctx context.Context, t *Target) error {
		if t.PDR == 0 {
			return errNoRate
		}
		alone, err := t.cable.tester(ctx, t.traffic)
		if err != nil {
			return fmt.Errorf("the tester alone: %w", err)
		}
		if alone == nil {
			t.Session.Note("The tester's own share of the latencies is not known between network cards: measure once with a cable in place of the device.")
		}
		t.Rig.Timed(true)
		o.Subject, o.PDR, o.Alone, o.Progress = t.Subject, t.PDR, alone, t.progress
		found, err := method.Latency(ctx, t.Tester, o)
		if len(found.Loads) > 0 {
			t.Session.Update(func(r *result.Result) {
				r.Latency = append(r.Latency, found)
				r.Tester.BiasNS = found.BiasNS
				if alone != nil {
					r.Tester.BiasNS99 = float64(t.cable.delays.Quantile(0.99))
				}
			})
		}
		return err
	}}
}

// Optional passes over a method for which nothing is known to measure at, and says so in the report.
func Optional(m Method) Method {
	run := m.Run
	m.Run = func(ctx context.Context, t *Target) error {
		err := run(ctx, t)
		if errors.Is(err, errNoRate) {
			t.Session.Note(fmt.Sprintf("%s, %s: no %s: %v.", t.Subject.Device, t.what(), m.Name, err))
			return nil
		}
		return err
	}
	return m
}

// Overload measures how long the device takes to recover from too much load.
func Overload(o method.OverloadOptions) Method {
	return Method{Name: "recovery from overload", Run: func(ctx context.Context, t *Target) error {
		if t.NDR == 0 {
			return errNoRate
		}
		t.Rig.Timed(false)
		o.Subject, o.Throughput, o.MaxLoad, o.Progress = t.Subject, t.NDR, t.MaxLoad, t.progress
		found, err := method.Overload(ctx, t.Tester, o)
		if len(found.Each) > 0 {
			t.Session.Update(func(r *result.Result) { r.Recovery = append(r.Recovery, found) })
		}
		return err
	}}
}

// Reset measures for how long an event of the device stops forwarding. The rate is
// half of the NDR when a search has found one.
func Reset(o method.ResetOptions, event func(ctx context.Context, t *Target) error) Method {
	return Method{Name: o.Name, Run: func(ctx context.Context, t *Target) error {
		t.Rig.Timed(true)
		o.Subject, o.Progress = t.Subject, t.progress
		if t.NDR > 0 {
			o.Rate = min(o.Rate, t.NDR/2)
		}
		o.Event = func(ctx context.Context) error { return event(ctx, t) }
		found, err := method.Reset(ctx, t.Tester, o)
		if len(found) > 0 {
			t.Session.Update(func(r *result.Result) { r.Recovery = append(r.Recovery, found...) })
		}
		return err
	}}
}

// Soak offers one load for a long time. share is of the NDR when a search has found
// one; 0 is as fast as the tester can.
func Soak(o method.SoakOptions, share float64) Method {
	return Method{Name: "soak", Run: func(ctx context.Context, t *Target) error {
		if share > 0 && t.NDR == 0 {
			return errNoRate
		}
		t.Rig.Timed(true)
		o.Subject, o.Load, o.Progress = t.Subject, share*t.NDR, t.progress
		at := -1
		keep := func(s result.Soak) {
			t.Session.Update(func(r *result.Result) {
				if at < 0 {
					at = len(r.Soak)
					r.Soak = append(r.Soak, result.Soak{})
				}
				s.Series = append(s.Series[:0:0], s.Series...)
				r.Soak[at] = s
			})
		}
		o.Update = keep
		found, err := method.Soak(ctx, t.Tester, o)
		if len(found.Series) > 0 {
			keep(found)
		}
		return err
	}}
}

// MRR measures the rate at the greatest load.
func MRR(o method.MRROptions) Method {
	return Method{Name: "maximum receive rate", Run: func(ctx context.Context, t *Target) error {
		t.Rig.Timed(false)
		o.Subject, o.Load, o.Progress = t.Subject, t.MaxLoad, t.progress
		found, err := method.MRR(ctx, t.Tester, o)
		if len(found.Rates) > 0 {
			t.Session.Update(func(r *result.Result) { r.MRR = append(r.MRR, found) })
		}
		return err
	}}
}
