// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/subsystem/flows"
)

func newClearARPCommand(a *app) *cobra.Command {
	return clearNeighborsCommand(a, "arp [ADDRESS | INTERFACE]", "Delete ARP entries; the kernel resolves them again", "ipv4")
}

func newClearNeighborsCommand(a *app) *cobra.Command {
	c := clearNeighborsCommand(a, "neighbors [ADDRESS | INTERFACE]", "Delete ARP and ND entries; the kernel resolves them again", "")
	c.Aliases = []string{"neighbours"}
	return c
}

func clearNeighborsCommand(a *app, use, short, family string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ":\nall, one address, or those on one interface. Permanent entries stay.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := router.NeighborsToClear{Family: family}
			if len(args) > 0 {
				q.Of = args[0]
			}
			if address, err := netip.ParseAddr(q.Of); err == nil && family == "ipv4" && !address.Is4() {
				return usageError{fmt.Errorf("%s is no IPv4 address: minne clear neighbors %s", address, address)}
			}
			return forget(a, c, router.ClearNeighbors, q, "%d neighbours cleared\n")
		},
	}
}

func newClearConnectionsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "connections FILTER…|all",
		Short: "Delete connections from the kernel and the fast path",
		Long: `Delete connections and their NAT translations from the kernel's table and the fast path. The
next packet of a deleted connection counts as new: the firewall's rules and NAT apply to it again.
The filter is that of "minne show flows", which shows what would be deleted:
src PREFIX, dst PREFIX, host PREFIX, port N, proto NAME, vrf NAME, zone NAME, state WORD,
fast-path, kernel, label LABEL; all must match. For all connections, write "all".

Your own login to this router may be one of them. It continues if the rules permit it as a
new connection.`,
		Example: "minne clear connections host 192.0.2.10 proto tcp",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, words []string) error {
			var filter flows.Selection
			if len(words) != 1 || words[0] != "all" {
				if err := filter.Words(words); err != nil {
					return usageError{err}
				}
			}
			return forget(a, c, router.ClearConnections, filter, "%d connections ended\n")
		},
	}
	c.Aliases = []string{"flows"}
	return c
}

func newClearCountersCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "counters [INTERFACE]",
		Short: "Reset counters to 0",
		Long: `Reset counters to 0: those of all interfaces, of "minne show drops", of the fast path and of
the firewall's rules; or only those of one interface.

From then on "minne show" prints the difference to this moment, until the daemon restarts. The
kernel's own counters do not change: "ip -s link", "nft list ruleset" and programs that collect
them see no jump. Rule counters also restart at 0 with every change of the rules.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := router.CountersToClear{}
			if len(args) > 0 {
				q.Interface = args[0]
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if _, err := router.ClearCounters.Ask(c.Context(), client, q); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, "counters reset to 0")
			return err
		},
	}
}

// forget asks the daemon and says how many there were.
func forget[Q any](a *app, c *cobra.Command, what api.Operation[Q, router.Forgotten], question Q, said string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	done, err := what.Ask(c.Context(), client, question)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, said, done.Number)
	return err
}
