// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"minne/internal/daemon/show"
)

func newShowOSPFCommand(a *app) *cobra.Command { return ospfCommand(a, "ospf", "") }

func newShowOSPF6Command(a *app) *cobra.Command { return ospfCommand(a, "ospf6", "3") }

// ospfCommand looks at one version of OSPF, at both for "".
func ospfCommand(a *app, use, version string) *cobra.Command {
	which := map[string]string{"": "OSPFv2 and OSPFv3", "3": "OSPFv3"}[version]
	c := &cobra.Command{Use: use, Short: "Look at " + which}
	neighbor := ospfView(a, version, "neighbor", "Show the neighbours of "+which, "ospf", show.OSPFNeighbors)
	neighbor.Aliases = []string{"neighbors"}
	iface := ospfView(a, version, "interface", "Show where "+which+" runs: costs, timers, neighbours", "ospf/interfaces", show.OSPFInterfaces)
	iface.Aliases = []string{"interfaces"}
	c.AddCommand(neighbor, iface, ospfView(a, version, "database", "Show the link-state database of "+which, "ospf/database", show.OSPFDatabase))
	return c
}

func ospfView[A any](a *app, version, use, short, view string, print func(io.Writer, A) error) *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showView(a, c, view, url.Values{"version": {version}, "limit": {strconv.Itoa(limit)}}, asJSON, print)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	if use == "database" {
		c.Flags().IntVar(&limit, "limit", 1000, "`number` of entries at most; 0 for all")
	}
	return c
}
