// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/subsystem/routing"
)

func newShowBGPCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "bgp [PREFIX | ADDRESS]",
		Short: "Look at BGP: sessions, or all paths to a prefix",
		Long: `Show all paths that BGP knows to a prefix, the best first and why it is the best. An address shows the prefix that
packets to it take. Without one: the sessions, as minne show bgp summary.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return showView(a, c, "bgp", nil, asJSON, show.BGPSummary)
			}
			if !isDestination(args[0]) {
				if right := config.WithoutZeros(args[0]); right != "" {
					return usageError{leadingZero(args[0], right)}
				}
				return noCommand(c, args)
			}
			return showView(a, c, "bgp/paths", url.Values{"prefix": args}, asJSON, show.BGPPaths)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	c.AddCommand(viewCommand(a, "summary", "Show BGP sessions and what they carry", "bgp", show.BGPSummary))
	c.AddCommand(newShowBGPNeighborsCommand(a))
	return c
}

func newShowBGPNeighborsCommand(a *app) *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "neighbors [NAME [received | advertised]]",
		Short: "Show BGP sessions in detail, and the routes of a peer",
		Long: fmt.Sprintf(`Show the BGP sessions in detail, or that with a peer, named as in the configuration or by its address.

With received: the routes that the peer has told and the import policy took; what it refused is not kept. With
advertised: the routes that the peer was told. A peer with more than %d routes of a family is refused: bgpd would stand
still meanwhile.`, routing.MaxPeerRoutes),
		Aliases: []string{"neighbor", "neighbours"},
		Args:    cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) > 0 {
				query.Set("peer", args[0])
			}
			if len(args) < 2 {
				return showView(a, c, "bgp/neighbors", query, asJSON, show.BGPNeighbors)
			}
			if args[1] != routing.Received && args[1] != routing.Advertised {
				return usageError{fmt.Errorf("%q: expected received or advertised", args[1])}
			}
			query.Set("direction", args[1])
			query.Set("limit", strconv.Itoa(limit))
			return showView(a, c, "bgp/routes", query, asJSON, show.BGPRoutes)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	c.Flags().IntVar(&limit, "limit", 1000, "`number` of routes at most; 0 for all")
	return c
}
