// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"net/url"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/subsystem/flows"
)

func newClearARPCommand(a *app) *cobra.Command {
	return clearNeighborsCommand(a, "arp [ADDRESS | INTERFACE]", "Forget the MACs of IPv4 neighbours, so that they are asked for again", "ipv4")
}

func newClearNeighborsCommand(a *app) *cobra.Command {
	c := clearNeighborsCommand(a, "neighbors [ADDRESS | INTERFACE]", "Forget the MACs of IPv4 and IPv6 neighbours, so that they are asked for again", "")
	c.Aliases = []string{"neighbours"}
	return c
}

func clearNeighborsCommand(a *app, use, short, family string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ":\nall, one address, or those on one interface. Entries that are written down stay.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := router.ClearNeighbors{Family: family}
			if len(args) > 0 {
				q.Of = args[0]
			}
			if address, err := netip.ParseAddr(q.Of); err == nil && family == "ipv4" && !address.Is4() {
				return usageError{fmt.Errorf("%s is no IPv4 address: minne clear neighbors %s", address, address)}
			}
			return a.forget(c, "neighbors", q, "%d neighbours forgotten\n")
		},
	}
}

func newClearConnectionsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "connections FILTER…|all",
		Short: "End connections, in the kernel and in the fast path",
		Long: `End connections: the kernel forgets them with their translations, the fast path their flows.
What goes on is then judged by the rules as if it had just begun, and translated anew.
The filter is that of "minne show flows", which shows what would be ended:
src PREFIX, dst PREFIX, host PREFIX, port N, proto NAME, zone NAME, state WORD,
fast-path, kernel, label SET; all must match. For all connections, say "all".

A login to this router over the network may be one of them; it goes on if the rules
permit it to begin.`,
		Example: "minne clear connections host 192.0.2.10 proto tcp",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, words []string) error {
			filter := url.Values{}
			if len(words) != 1 || words[0] != "all" {
				var err error
				if filter, err = flows.Words(words); err != nil {
					return usageError{err}
				}
				if _, err := flows.Parse(filter); err != nil {
					return usageError{err}
				}
			}
			return a.forget(c, "connections", router.ClearConnections{Filter: filter}, "%d connections ended\n")
		},
	}
	c.Aliases = []string{"flows"}
	return c
}

func newClearCountersCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "counters [INTERFACE]",
		Short: "Let what is counted begin at 0",
		Long: `Let counters begin at 0: those of all interfaces, the reasons of "minne show drops", those
of the fast path and of the firewall's rules; or only those of one interface.

"minne show" then tells the difference to this moment, until the daemon is started anew.
The kernel's own counters go on: "ip -s link", "nft list ruleset" and programs that collect
them see no step. What a rule counted begins at 0 with every change of the rules, too.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := router.ClearCounters{}
			if len(args) > 0 {
				q.Interface = args[0]
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if err := client.Change(c.Context(), "clear/counters", q, &api.Empty{}); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, "counters begin at 0")
			return err
		},
	}
}

// forget asks the daemon and says how many there were.
func (a *app) forget(c *cobra.Command, what string, question any, said string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	var done router.Forgotten
	if err := client.Change(c.Context(), "clear/"+what, question, &done); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, said, done.Number)
	return err
}
