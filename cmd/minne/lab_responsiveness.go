// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/responsiveness"
)

func newLabResponsivenessCommand(a *app) *cobra.Command {
	var asJSON bool
	seconds := 10
	c := &cobra.Command{
		Use:   "responsiveness",
		Short: "Measure a shaped line as users feel it: delay under load, fair shares",
		Long: `Measure a line of 12 Mbit/s that Minne shapes, while two hosts behind NAT fill it, one
with one TCP connection and one with 64: how long answers take meanwhile (round trips, and
round trips per minute as in the IETF's draft "Responsiveness under Working Conditions",
by datagrams instead of HTTP), and Jain's index of the hosts' shares (1: the same, 0.5: one
has all). The router is in User-Mode Linux, whose kernel has cake. Needs root, User-Mode
Linux (scripts/fetch-uml.sh) and iptables-legacy.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return errors.New("hosts and router are in network namespaces, which only root may make: run this as root")
			}
			if seconds < 1 || seconds > 3600 {
				return usageError{fmt.Errorf("--seconds %d: expected 1 to 3600", seconds)}
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			r, err := responsiveness.Run(c.Context(), binary, seconds, time.Second, func(text string) { fmt.Fprintln(a.err, text+" …") })
			if err != nil {
				return err
			}
			return a.print(asJSON, r, r.WriteTable)
		},
	}
	c.Flags().IntVar(&seconds, "seconds", seconds, "`seconds` of each direction")
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return c
}
