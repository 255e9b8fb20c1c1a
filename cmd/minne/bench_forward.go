// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/kernel"
)

// Rounds of a comparison: enough for a narrow interval, or for a glance.
const (
	fullRounds  = 40
	quickRounds = 8
)

func newBenchForwardCommand(a *app) *cobra.Command {
	var asJSON, quick bool
	c := &cobra.Command{
		Use:   "forward",
		Short: "Compare the fast path's packets per second with the kernel's",
		Long: `Compare the packets per second of the fast path with those of the kernel, on one core,
in a closed loop of generator, router and sink. Trials of both alternate. The ratio is
printed with its 95 % interval, next to the ratio of the kernel to itself: a difference
inside that interval is noise of this machine.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v4, v6, err := fulltable.Load()
			if err != nil {
				return err
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o := closedloop.ForwardOptions{Binary: binary, Table: append(v4, v6...), Rounds: fullRounds, Load: kernel.BulkRoutes, Progress: a.err}
			if quick {
				o.Rounds = quickRounds
			}
			result, err := closedloop.Forward(c.Context(), o)
			if err != nil {
				return err
			}
			return a.print(asJSON, result, result.WriteTable)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.Flags().BoolVar(&quick, "quick", false, "fewer rounds: wider intervals")
	return c
}
