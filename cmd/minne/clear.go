// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

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
	c := &cobra.Command{Use: "clear", Short: "Let sessions, tables and counters begin anew"}
	for _, clear := range clears {
		c.AddCommand(clear(a))
	}
	return c
}

func newClearBGPCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "bgp NAME|all [soft]",
		Short: "Reset the BGP session with a peer, or all of them",
		Long: `Reset the BGP session with a peer, named as in the configuration or by its address, or with all. The session ends and
starts again; a session that its prefix limit had ended starts again, too. With soft the session stays: the peer's routes
are asked for again, and ours told again.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] != "soft" {
				return usageError{fmt.Errorf("%q: expected soft or nothing", args[1])}
			}
			return a.clear(c, "clear/bgp", api.ClearBGP{Peer: args[0], Soft: len(args) == 2})
		},
	}
}

func newClearOSPFCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ospf",
		Short: "Let OSPF begin anew: adjacencies and database",
		Long: `Let OSPF begin anew, OSPFv2 and OSPFv3: all adjacencies end and form again. Routes learned by OSPF are gone until
then, some seconds.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.clear(c, "clear/ospf", api.Empty{}) },
	}
}

// clear asks the daemon and prints what it began anew, a line each.
func (a *app) clear(c *cobra.Command, what string, question any) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	var done api.Cleared
	if err := client.Change(c.Context(), what, question, &done); err != nil {
		return err
	}
	for _, name := range done.Cleared {
		if _, err := fmt.Fprintln(a.out, "cleared:", name); err != nil {
			return err
		}
	}
	return nil
}
