// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/fastpath"
)

// viewCommand is a show command: it asks the daemon for a view and prints the
// answer as a table, or as it came with --json.
func viewCommand[A any](a *app, use, short, view string, print func(io.Writer, A) error) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showView(a, c, view, nil, asJSON, print)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	return c
}

func showView[A any](a *app, c *cobra.Command, view string, query url.Values, asJSON bool, print func(io.Writer, A) error) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	var answer A
	if err := client.Show(c.Context(), view, query, &answer); err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(answer)
	}
	screen := a.screen()
	return errors.Join(print(screen, answer), screen.Flush())
}

func newShowInterfacesCommand(a *app) *cobra.Command {
	c := viewCommand(a, "interfaces [NAME]", "Show links, addresses and counters", "interfaces", show.Interfaces)
	c.Long = `Show links, addresses and counters. With the name of an interface, all about that one:
its device and what that does for the kernel, each kind of error, and what the fast
path does with it.`
	c.Aliases = []string{"interface"}
	c.Args = cobra.MaximumNArgs(1)
	all := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return all(c, args)
		}
		asJSON, err := c.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return showView(a, c, "interface", url.Values{"name": args}, asJSON, show.Interface)
	}
	return c
}

func newShowFastPathCommand(a *app) *cobra.Command {
	c := viewCommand[fastpath.Observed](a, "fast-path", "Show which ports bypass the kernel, and the tables they use", "fast-path", show.FastPath)
	c.Long = `Show which ports bypass the kernel, why others do not, and the tables they use.

With --drivers: what this machine's ports can do for XDP by the kernel's own word, and which drivers of Linux run XDP
programs themselves. That needs no daemon; ports are those of the network namespace that the command runs in.`
	var listDrivers bool
	c.Flags().BoolVar(&listDrivers, "drivers", false, "show what network drivers can do for the fast path, this machine's and others")
	observed := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if listDrivers {
			asJSON, err := c.Flags().GetBool("json")
			if err != nil {
				return err
			}
			return a.showDrivers(asJSON)
		}
		return observed(c, args)
	}
	return c
}

func newShowLabelsCommand(a *app) *cobra.Command {
	c := viewCommand(a, "labels", "Show flows, packets and drops by label", "labels", show.Labels)
	c.Aliases = []string{"match"} // its name before
	c.Long = `Show what the patterns of the section labels have matched: flows by label and by pattern, the traffic of these flows, and
what was dropped above their rate limit. Counters restart with the daemon and with a change of the patterns.`
	return c
}

func newShowNeighborsCommand(a *app) *cobra.Command {
	c := viewCommand(a, "neighbors", "Show the ARP and ND tables", "neighbors", show.Neighbors)
	c.Aliases = []string{"neighbours"}
	return c
}

func newShowARPCommand(a *app) *cobra.Command {
	return neighborsCommand(a, "arp", "Show the ARP table: IPv4 neighbours and their MACs", "ipv4")
}

// neighborsCommand shows the neighbours of one family.
func neighborsCommand(a *app, use, short, family string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return showView(a, c, "neighbors", url.Values{"family": {family}}, asJSON, show.Neighbors)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	return c
}

func newShowNATCommand(a *app) *cobra.Command {
	c := viewCommand(a, "nat", "Show what translates addresses, and the connections that are translated", "nat", show.NAT)
	c.Long = `Show the rules that translate addresses with what they have counted, then the connections
that are translated now: the addresses that others see with the hosts behind each, and
what is called with where it leads. The connections themselves: minne show flows.`
	return c
}

func newShowNTPCommand(a *app) *cobra.Command {
	c := viewCommand(a, "ntp", "Show whether the clock is right: NTP servers and their offsets", "ntp", show.NTP)
	c.Long = `Show whether the clock follows a server, and all servers with how often they answered.
States are those of chronyd: selected (the clock follows it), combined with that one,
unusable (no answer yet, or none for long), false ticker (differs from the others).`
	return c
}

func newShowIPCommand(a *app) *cobra.Command { return familyCommand(a, "ip", "ipv4") }

func newShowIPv6Command(a *app) *cobra.Command { return familyCommand(a, "ipv6", "ipv6") }

func familyCommand(a *app, use, family string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: "Look at " + family + " routes and neighbours"}
	c.AddCommand(newRouteCommand(a, family))
	neighbors, protocol := neighborsCommand(a, "neighbors", "Show the ARP table: IPv4 neighbours and their MACs", family), "arp"
	if family == "ipv6" {
		neighbors.Short, protocol = "Show the ND table: IPv6 neighbours and their MACs", "nd"
	}
	neighbors.Aliases = []string{"neighbours", protocol}
	c.AddCommand(neighbors)
	return c
}

func newShowDropsCommand(a *app) *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "drops [REASON]",
		Short: "Show why packets were dropped or left to the kernel",
		Long: `Show why packets were dropped by the fast path, and why others were left to the kernel,
with counts, the rate over the last second and what to look at. With a reason, that one alone.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showView(a, c, "drops", url.Values{"reason": args}, asJSON, func(w io.Writer, v router.DropsView) error {
				return show.Drops(w, v, all || len(args) > 0)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also reasons that have not happened")
	c.Flags().BoolVar(&asJSON, "json", false, "print the daemon's answer as JSON")
	return c
}

func newShowRatesCommand(a *app) *cobra.Command {
	var watch bool
	c := viewCommand(a, "rates", "Show interface rates over 1, 5 and 60 seconds", "rates", show.Rates)
	once := c.RunE
	c.Long = `Show interface rates over 1, 5 and 60 seconds. The router counts only while somebody
asks: the longer windows appear when it has been asked for as long.`
	c.RunE = func(c *cobra.Command, args []string) error {
		for {
			if watch {
				fmt.Fprint(a.out, "\x1b[H\x1b[2J") // cursor home, clear
			}
			if err := once(c, args); err != nil || !watch {
				return err
			}
			select {
			case <-c.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
	c.Flags().BoolVar(&watch, "watch", false, "show them again each second, until Ctrl-C")
	return c
}

func newShowLogCommand(a *app) *cobra.Command {
	var lines int
	var asJSON, follow bool
	c := &cobra.Command{
		Use:   "log",
		Short: "Show the end of the daemon's log",
		Long: `Show the end of the daemon's log, and with --follow what is written to it, too, until
Ctrl-C or until the daemon stops.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if follow {
				return a.followLog(c.Context(), lines, asJSON)
			}
			query := url.Values{"lines": {strconv.Itoa(lines)}}
			return showView(a, c, "log", query, asJSON, func(w io.Writer, v router.LogView) error {
				for _, line := range v.Lines {
					fmt.Fprintln(w, line)
				}
				return nil
			})
		},
	}
	c.Flags().IntVarP(&lines, "lines", "n", 50, "`number` of lines")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each line that is written")
	c.Flags().BoolVar(&asJSON, "json", false, "print the lines as JSON; with --follow, an object for each")
	return c
}

// followLog prints the log until the operator or the daemon has enough.
func (a *app) followLog(ctx context.Context, lines int, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	err = api.Follow(ctx, client, "log/follow", router.LogFollow{Lines: lines}, func(l router.LogLine) error {
		if asJSON {
			return json.NewEncoder(a.out).Encode(l)
		}
		_, err := fmt.Fprintln(a.out, l.Line)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
