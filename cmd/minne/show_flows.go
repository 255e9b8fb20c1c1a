// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/flows"
)

func newShowFlowsCommand(a *app) *cobra.Command {
	var asJSON bool
	var by, sort string
	var top int
	c := &cobra.Command{
		Use:   "flows [FILTER…]",
		Short: "Show connections, hosts or zones by what they transfer",
		Long: `Show the connections that go through the router and to it, those of the kernel and those
that the fast path forwards in one table: packets and bytes are the sums of both. Without
a filter, the twenty that have transferred most.

The filter is words that must all match:
src PREFIX, dst PREFIX (who opened the connection, who answers; on either side of a
translation), host PREFIX (either), port N, proto tcp|udp|icmp|N, zone NAME, state WORD
(established, time-wait, … of TCP; unreplied, replied, assured of others), fast-path, kernel,
label LABEL (of the section labels).`,
		ValidArgs: []string{"src", "dst", "host", "port", "proto", "zone", "state", "label", flows.PathFast, flows.PathKernel},
		RunE: func(c *cobra.Command, words []string) error {
			query, err := flows.Words(words)
			if err != nil {
				return usageError{err}
			}
			query.Set("by", by)
			query.Set("sort", sort)
			query.Set("top", strconv.Itoa(top))
			if _, err := flows.Parse(query); err != nil {
				return usageError{err}
			}
			return showView(a, c, "flows", query, asJSON, show.Flows)
		},
	}
	c.Flags().StringVar(&by, "by", flows.ByFlow, "a row for each `what`: flow, host or zone (from one zone to another)")
	c.Flags().StringVar(&sort, "sort", flows.SortBytes, "`order` of the rows: bytes, rate (takes a second) or connections (of hosts and zones)")
	c.Flags().IntVar(&top, "top", flows.DefaultTop, "`number` of rows at most, up to 10000")
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	c.AddCommand(newShowFlowsSummaryCommand(a))
	return c
}

func newShowFlowsSummaryCommand(a *app) *cobra.Command {
	return viewCommand(a, "summary", "Show how many connections there are, of which kinds, and how full the tables are",
		"flows/summary", show.FlowsSummary)
}
