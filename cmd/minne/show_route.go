// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"minne/internal/daemon/show"
	"minne/internal/model/config"
)

// routeSources are the words for who has installed a route.
var routeSources = []string{"bgp", "ospf", "static", "connected"}

func newRouteCommand(a *app, family string) *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "route [PREFIX | ADDRESS | bgp | ospf | static | connected] [longer-prefixes]",
		Short: "Show routes",
		Long: `Show the routes that the kernel uses, with all that routing protocols offer when a
prefix is named. An address shows the route that packets to it take; a protocol shows the routes that come from it.`,
		Args:      cobra.MaximumNArgs(2),
		ValidArgs: append(slices.Clone(routeSources), "longer-prefixes"),
		RunE: func(c *cobra.Command, args []string) error {
			query, err := routeQuery(args)
			if err != nil {
				return usageError{err}
			}
			query.Set("family", family)
			query.Set("limit", strconv.Itoa(limit))
			return showView(a, c, "routes", query, asJSON, show.Routes)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	c.Flags().IntVar(&limit, "limit", 1000, "`number` of routes at most; 0 for all")
	return c
}

// routeQuery turns the words of show ip route into a question.
func routeQuery(args []string) (url.Values, error) {
	query := url.Values{}
	if len(args) == 0 {
		return query, nil
	}
	if slices.Contains(routeSources, args[0]) {
		query.Set("protocol", args[0])
		if len(args) == 2 {
			return nil, fmt.Errorf("%q: longer-prefixes stands behind a prefix", args[1])
		}
		return query, nil
	}
	if !isDestination(args[0]) {
		if right := config.WithoutZeros(args[0]); right != "" {
			return nil, leadingZero(args[0], right)
		}
		return nil, fmt.Errorf("%q: expected a prefix as 192.0.2.0/24, an address, bgp, ospf, static or connected", args[0])
	}
	query.Set("prefix", args[0])
	if len(args) == 2 {
		if args[1] != "longer-prefixes" {
			return nil, fmt.Errorf("%q: expected longer-prefixes or nothing", args[1])
		}
		query.Set("longer", "yes")
	}
	return query, nil
}

// leadingZero refuses a prefix or an address with one.
func leadingZero(word, right string) error {
	return fmt.Errorf("%q has a number with a leading zero, which some programs read as octal: did you mean %s?", word, right)
}

// isDestination says whether a word is a prefix or an address.
func isDestination(word string) bool {
	_, err := netip.ParsePrefix(word)
	_, errAddr := netip.ParseAddr(word)
	return err == nil || errAddr == nil
}
