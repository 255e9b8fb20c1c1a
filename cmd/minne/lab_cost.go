// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/device"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
)

// closedFlags are what measurements in the closed loop have in common.
type closedFlags struct {
	measureFlags
	rounds int
}

func (f *closedFlags) register(c *cobra.Command) {
	f.registerTraffic(c)
	f.registerReport(c)
	c.Flags().IntVar(&f.rounds, "rounds", 30, "`number` of interleaved rounds; the interval narrows with its square root")
}

// plan is the measurement that the flags describe.
func (f *closedFlags) plan() (p closedloop.Plan, err error) {
	if f.rounds < closedloop.LeastRounds {
		return p, usageError{fmt.Errorf("--rounds %d: expected at least %d", f.rounds, closedloop.LeastRounds)}
	}
	p.Rounds = f.rounds
	if p.Traffic, err = f.patterns(); err != nil {
		return p, err
	}
	for _, t := range p.Traffic {
		if err := closedloop.Supports(t); err != nil {
			return p, usageError{err}
		}
	}
	if p.Table, err = table(p.Traffic); err != nil {
		return p, err
	}
	p.Means.Load = kernel.BulkRoutes
	p.Means.Binary, err = os.Executable()
	return p, err
}

func newLabCostCommand(a *app) *cobra.Command {
	var f closedFlags
	c := &cobra.Command{
		Use:   "cost [DEVICE...]",
		Short: "Measure the processor time that a device takes for a packet",
		Long: `Measure how many nanoseconds of one processor a device takes to forward a packet:
generator, device and sink take turns on one core, and the time without the
device is taken off. Rounds of with, without, with alternate within milliseconds;
the figure comes with its 95 % interval, and beside it stands what two equal
measurements of the same rounds differ by (A/A): that much is noise. Without
devices the kernel and Minne are measured. One processor is enough.

Devices: ` + device.Grammar,
		RunE: func(c *cobra.Command, args []string) error {
			specs, err := devices(args, "kernel", "minne")
			if err != nil {
				return err
			}
			p, err := f.plan()
			if err != nil {
				return err
			}
			return f.session(c.Context(), a, "Cost of a packet", "cost", func(ctx context.Context, s *session.Session) error {
				return p.Cost(ctx, s, specs)
			})
		},
	}
	f.register(c)
	return c
}

func newLabCompareCommand(a *app) *cobra.Command {
	var f closedFlags
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Say whether device B forwards faster than device A, slower, or neither beyond noise",
		Long: `Compare two devices on one processor: kernel and fast path, two configurations, two
binaries, two table structures. Three devices stand side by side, A, B and once
more A; trials of all alternate within milliseconds. B is faster (or slower) only
when the whole 95 % interval of its ratio to A is beyond everything by which the
two equal devices differ in the same rounds. Both the ratio of packets per second
is printed and that of the cost alone, without generator and sink.

Devices: ` + device.Grammar,
		Example: `  minne lab compare kernel minne --table full --traffic rdos
  minne lab compare minne minne,binary=./minne-new --rounds 60
  minne lab compare minne,config=old.yaml minne,config=new.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{errors.New("expected two devices, A and B, such as: minne lab compare kernel minne")}
			}
			specs, err := devices(args)
			if err != nil {
				return err
			}
			p, err := f.plan()
			if err != nil {
				return err
			}
			return f.session(c.Context(), a, specs[1].String()+" against "+specs[0].String(), "compare", func(ctx context.Context, s *session.Session) error {
				return p.Compare(ctx, s, specs[0], specs[1])
			})
		},
	}
	f.register(c)
	return c
}
