// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/measure"
	"minne/internal/lab/method"
)

// rated adds the flag --rate to a method that builds on a throughput, and searches for one when it is not given.
type rated struct {
	goalFlags
	rate float64
}

func (r *rated) register(c *cobra.Command, goal string) {
	r.goalFlags.register(c, goal)
	c.Flags().Float64Var(&r.rate, "rate", 0, "the device's throughput in `frames/s` where it is known; otherwise a search comes first")
}

// before is what comes before the method.
func (r *rated) before() ([]measure.Method, error) {
	if r.rate > 0 {
		return []measure.Method{measure.Known(r.rate)}, nil
	}
	return r.search()
}

func newLabLossCommand(a *app) *cobra.Command {
	return measurement{
		name: "loss", title: "Frame loss",
		short: "Measure loss against load (RFC 2544 section 26.3)",
		long: `Offer the maximum load and then lower it until two loads in a row lose nothing, and
print the loss at each load.`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var o method.LossCurveOptions
			c.Flags().DurationVar(&o.Duration, "trial", time.Minute, "`time` of each trial; the standard requires 60 s")
			c.Flags().Float64Var(&o.Step, "step", 0.1, "step between two loads, as a `share` of the maximum load")
			c.Flags().BoolVar(&o.Full, "full", false, "continue down to the lowest load")
			return func() ([]measure.Method, error) {
				if o.Step <= 0 || o.Step > 0.5 {
					return nil, usageError{fmt.Errorf("--step %g: expected more than 0 and at most 0.5", o.Step)}
				}
				return []measure.Method{measure.Loss(o)}, nil
			}
		},
	}.command(a)
}

func newLabBackToBackCommand(a *app) *cobra.Command {
	return measurement{
		name: "back-to-back", title: "Back-to-back frames",
		short: "Measure how long a burst a device takes without loss (RFC 9004)",
		long: `Search for the longest burst at line rate without loss, many times, and print how long
the device's buffers last.`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var r rated
			var o method.BackToBackOptions
			r.register(c, "ndr")
			c.Flags().IntVar(&o.Repeat, "repeat", 50, "`number` of searches; the standard requires 50")
			return func() ([]measure.Method, error) {
				if r.quickly(c, "repeat") {
					o.Repeat = 5
				}
				before, err := r.before()
				return append(before, measure.BackToBack(o)), err
			}
		},
	}.command(a)
}

func newLabLatencyCommand(a *app) *cobra.Command {
	return measurement{
		name: "latency", title: "Latency",
		short: "Measure delay at 0, 10, 50 and 90 % of the PDR",
		long: `Measure the delay of frames through devices at several loads, with percentiles, and the
delay of the tester itself (RFC 2544 section 26.2, RFC 8219).`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var r rated
			var o method.LatencyOptions
			r.register(c, "pdr")
			c.Flags().DurationVar(&o.Duration, "duration", 6*time.Second, "`time` of a trial")
			c.Flags().IntVar(&o.Repeat, "repeat", 20, "`number` of trials at each load; the standard requires 20")
			return func() ([]measure.Method, error) {
				if r.quickly(c, "duration") {
					o.Duration = time.Second
				}
				if r.quickly(c, "repeat") {
					o.Repeat = 5
				}
				before, err := r.before()
				return append(before, measure.Latency(o)), err
			}
		},
	}.command(a)
}

func newLabMRRCommand(a *app) *cobra.Command {
	return measurement{
		name: "mrr", title: "Maximum receive rate",
		short: "Measure the forwarding rate at maximum load",
		long:  `Offer the maximum load several times and print how much of it comes back (maximum receive rate of FD.io CSIT).`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var o method.MRROptions
			c.Flags().DurationVar(&o.Duration, "trial", time.Second, "`time` of a trial")
			c.Flags().IntVar(&o.Repeat, "repeat", 10, "`number` of trials")
			return func() ([]measure.Method, error) { return []measure.Method{measure.MRR(o)}, nil }
		},
	}.command(a)
}

func newLabSoakCommand(a *app) *cobra.Command {
	return measurement{
		name: "soak", title: "Soak",
		short: "Offer one load for hours and check for drift and loss",
		long: `Offer one load for a long time, and show whether the device's rate drifts, and what it
lost.`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var r rated
			var o method.SoakOptions
			share := 0.9
			r.register(c, "ndr")
			c.Flags().DurationVar(&o.Duration, "duration", 24*time.Hour, "`time` of the whole soak")
			c.Flags().Float64Var(&share, "share", share, "`share` of the throughput to offer; 0 is as fast as the tester can")
			return func() ([]measure.Method, error) {
				if share == 0 {
					return []measure.Method{measure.Soak(o, 0)}, nil
				}
				before, err := r.before()
				return append(before, measure.Soak(o, share)), err
			}
		},
	}.command(a)
}

// events are what can happen to a device while it forwards.
var events = map[string]func(ctx context.Context, t *measure.Target) error{
	"daemon-restart": func(ctx context.Context, t *measure.Target) error { return t.Rig.Device().Restart(ctx) },
	"device-reset":   func(ctx context.Context, t *measure.Target) error { return t.Rig.Device().Reset(ctx) },
}

func newLabRecoveryCommand(a *app) *cobra.Command {
	return measurement{
		name: "recovery", title: "Recovery",
		short: "Measure for how long forwarding stops (RFC 2544 sections 26.5 and 26.6, RFC 6201)",
		long: `Measure how long a device loses frames after an overload (overload), after its daemon
was killed and restarted (daemon-restart), or after the whole device was removed and
built again (device-reset).`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var r rated
			var names []string
			over, reset := method.OverloadOptions{}, method.ResetOptions{Rate: 100_000}
			r.register(c, "ndr")
			c.Flags().StringSliceVar(&names, "event", []string{"overload"}, "`events`: overload, daemon-restart, device-reset")
			c.Flags().DurationVar(&over.For, "overload", time.Minute, "`time` of the overload; the standard requires 60 s")
			c.Flags().DurationVar(&reset.After, "after", 10*time.Second, "`time` of traffic after an event, longer than any outage")
			c.Flags().IntVar(&over.Repeat, "repeat", 3, "`number` of times")
			return func() ([]measure.Method, error) {
				if r.quickly(c, "overload") {
					over.For = 5 * time.Second
				}
				methods, err := r.before()
				reset.Repeat = over.Repeat
				for _, name := range names {
					event, known := events[name]
					switch {
					case name == "overload":
						methods = append(methods, measure.Overload(over))
					case known:
						o := reset
						o.Name = name
						methods = append(methods, measure.Reset(o, event))
					default:
						return nil, usageError{fmt.Errorf("event %q: expected overload, daemon-restart or device-reset", name)}
					}
				}
				return methods, err
			}
		},
	}.command(a)
}
