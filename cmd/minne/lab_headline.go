// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/device"
	"minne/internal/lab/headline"
	"minne/internal/subsystem/kernel"
)

// Rounds of each comparison of the headline.
const (
	headlineRounds      = 60
	headlineQuickRounds = 16
)

func newLabHeadlineCommand(a *app) *cobra.Command {
	var asJSON, quick bool
	var only []string
	c := &cobra.Command{
		Use:   "headline",
		Short: "Measure the headline figures of this program on this machine",
		Long: `Measure the figures that compare two versions of this program: the fast path against
the kernel with one route and with the full Internet table, the cost of a packet and of a
lookup, and the speed that remains with a firewall and with NAT. Every figure has its
95 % interval and the interval of the same measurement against itself (A/A). A figure
that cannot be measured on this machine is listed with the reason. Needs root, the go
command (for the table), 3 GB of memory, and some minutes; --quick takes less than seven.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("the headline is measured in network namespaces, which only root may make: run this as root")
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o := headline.Options{
				Means: device.Means{Binary: binary, Load: kernel.BulkRoutes}, Rounds: headlineRounds,
				Only:     only,
				Progress: func(text string) { fmt.Fprintln(a.err, text+" …") },
			}
			if quick {
				o.Rounds = headlineQuickRounds
			}
			h, err := headline.Measure(c.Context(), o)
			return errors.Join(err, a.print(asJSON, h, h.WriteTable))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	c.Flags().BoolVar(&quick, "quick", false, "fewer rounds: wider intervals")
	c.Flags().StringSliceVar(&only, "only", nil, "the figures to measure, by ID or its beginning: policy,nat")
	return c
}
