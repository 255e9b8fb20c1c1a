// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/failover"
)

func newLabFailoverCommand(a *app) *cobra.Command {
	var asJSON bool
	var names []string
	prefixes := failover.DefaultPrefixes
	c := &cobra.Command{
		Use:   "failover",
		Short: "Measure what is lost when an uplink dies, in several ways",
		Long: `Build a router with two ISPs that tell it a table by BGP, let ISP A fall out of use and
come back, and say for how long each of 20 destinations could not be reached (100 packets
per second to each, both ways): silence (the ISP drops all packets), link (its link goes
down), bgp (its BGP daemon is killed), off (minne uplink isp-a off, and on), flap (the link
goes down 5 times within 10 s). Packets to the world are the router's decision; packets to
the desk that of the ISPs, which are BIRD. Needs root and the package bird2; takes some
minutes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			kinds, err := failover.ParseKinds(names)
			if err != nil {
				return usageError{err}
			}
			if prefixes < failover.LeastPrefixes || prefixes > failover.MostPrefixes {
				return usageError{fmt.Errorf("--prefixes %d: expected %d to %d", prefixes, failover.LeastPrefixes, failover.MostPrefixes)}
			}
			if os.Geteuid() != 0 {
				return errors.New("the network is made of network namespaces, which only root may make: run this as root")
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			r, err := failover.Run(c.Context(), binary, prefixes, kinds, func(text string) { fmt.Fprintln(a.err, text+" …") })
			if err != nil {
				return err
			}
			return a.print(asJSON, r, r.WriteTable)
		},
	}
	c.Flags().IntVar(&prefixes, "prefixes", prefixes, "size of the `table`, a quarter of it IPv6")
	c.Flags().StringSliceVar(&names, "kinds", nil, "the kinds of death: silence,link,bgp,off,flap (default all)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return c
}
