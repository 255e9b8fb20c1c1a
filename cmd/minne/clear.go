// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/model/api"
)

// clears are the commands below "minne clear".
var clears = []func(*app) *cobra.Command{
	newClearBGPCommand,
	newClearOSPFCommand,
	newClearARPCommand,
	newClearNeighborsCommand,
	newClearConnectionsCommand,
	newClearCountersCommand,
}

func newClearCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "clear", Short: "Reset sessions, tables and counters"}
	for _, clear := range clears {
		c.AddCommand(clear(a))
	}
	return c
}

func newClearBGPCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "bgp [vrf NAME] PEER|all [soft]",
		Short: "Reset the BGP session with a peer, or all of them",
		Long: `Reset the BGP session with one peer (its name in the configuration or its address) or with all peers. This also starts a
session again that ended at its prefix limit. With soft the session stays up: the peer sends its routes again (route
refresh), and ours are sent again. Without vrf: peers in the main table.`,
		Args: cobra.RangeArgs(1, 4),
		RunE: func(c *cobra.Command, args []string) error {
			vrf, args, err := vrfWord(args, true)
			if err != nil {
				return err
			}
			if len(args) == 0 || len(args) > 2 {
				return usageError{errors.New("expected a peer or all, and soft or nothing behind it")}
			}
			if len(args) == 2 && args[1] != "soft" {
				return usageError{fmt.Errorf("%q: expected soft or nothing", args[1])}
			}
			return clearSessions(a, c, router.ClearBGP, router.SessionsToClear{VRF: vrf, Peer: args[0], Soft: len(args) == 2})
		},
	}
}

func newClearOSPFCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ospf [vrf NAME]",
		Short: "Restart OSPF: adjacencies and database",
		Long: `Restart OSPFv2 and OSPFv3: all adjacencies go down and form again. OSPF routes are missing until then, for some seconds. Without vrf:
OSPF in the main table.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			vrf, rest, err := vrfWord(args, true)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usageError{fmt.Errorf("%q: expected vrf and its name, or nothing", rest[0])}
			}
			return clearSessions(a, c, router.ClearOSPF, router.ProcessToClear{VRF: vrf})
		},
	}
}

// clearSessions asks the daemon and prints what it began anew, a line each.
func clearSessions[Q any](a *app, c *cobra.Command, what api.Operation[Q, router.Cleared], question Q) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	done, err := what.Ask(c.Context(), client, question)
	if err != nil {
		return err
	}
	for _, name := range done.Cleared {
		if _, err := fmt.Fprintln(a.out, "cleared:", name); err != nil {
			return err
		}
	}
	return nil
}
