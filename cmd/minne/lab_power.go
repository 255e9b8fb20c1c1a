// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/energy"
	"minne/internal/lab/measure"
)

func newLabPowerCommand(a *app) *cobra.Command {
	return measurement{
		name: "power", title: "Power",
		short: "Measure watts and CPU time idle and under load",
		long: `Measure what power the machine takes idle and at shares of its throughput: watts,
joule per packet and per gigabit, and the CPU time per packet. For the power sources see
"minne lab energy"; without one, only CPU time is measured.`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var r rated
			var e energyFlags
			var each time.Duration
			shares := []float64{0, 0.1, 0.5, 1}
			r.register(c, "ndr")
			e.add(c)
			c.Flags().DurationVar(&each, "duration", 30*time.Second, "`time` at each load")
			c.Flags().Float64SliceVar(&shares, "shares", shares, "`shares` of the throughput; 0 is idle")
			c.Flags().Lookup("shares").DefValue = "0,0.1,0.5,1" // as it is typed, not as %f prints it
			return func() ([]measure.Method, error) {
				for _, s := range shares {
					if s < 0 || s > 1 {
						return nil, usageError{fmt.Errorf("--shares %g: expected 0 to 1", s)}
					}
				}
				source, err := e.choose(energy.Find(os.DirFS("/")))
				if err != nil {
					return nil, err
				}
				if r.quickly(c, "duration") {
					each = 5 * time.Second
				}
				before, err := r.before()
				return append(before, measure.Power(source, shares, each)), err
			}
		},
	}.command(a)
}
