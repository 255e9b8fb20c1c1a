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
		Short: "Measure the CPU time that a device needs for a packet",
		Long: `Measure how many nanoseconds of one CPU a device needs to forward a packet. Generator,
device and sink take turns on one core, and the time without the device is subtracted.
Rounds with and without the device alternate within milliseconds. The figure has its 95 %
interval, next to the difference of two equal measurements in the same rounds (A/A), which
is noise. Without arguments the kernel and Minne are measured. One CPU is enough.

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
		Short: "Compare two devices: is B faster than A, slower, or equal within the noise",
		Long: `Compare two devices on one CPU: kernel and fast path, two configurations, two binaries,
two table structures. Three devices run: A, B and a second A; their trials alternate
within milliseconds. B is faster (or slower) only when the whole 95 % interval of its
ratio to A is beyond the difference of the two equal devices in the same rounds. Two
ratios are printed: packets per second, and cost alone without generator and sink.

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
