// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/firewall"
	"minne/internal/show"
)

func newSetCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "set",
		Short: "Change the firewall's sets while the router runs",
		Long: `Put addresses into sets of the firewall and take them out, at once and without a
commit: a host that floods, a guest that has paid. What was put in stays over
commits and reboots until its time is up or it is deleted. Elements of the
configuration and its files stay as written there.`,
	}
	c.AddCommand(newSetAddCommand(a), newSetDelCommand(a), newSetListCommand(a))
	return c
}

func newSetAddCommand(a *app) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "add NAME ELEMENT…",
		Short: "Put addresses or prefixes into a set",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("timeout") && timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %s: expected a time such as 1h", timeout)}
			}
			done, err := a.changeSet(c, firewall.SetChange{Set: args[0], Add: args[1:], Timeout: timeout})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%d added to %s\n", done.Added, args[0])
			return err
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "`time` after which they are gone again, such as 1h; without it the set's own")
	return c
}

func newSetDelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "del NAME ELEMENT…",
		Short: "Take addresses or prefixes out of a set",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			done, err := a.changeSet(c, firewall.SetChange{Set: args[0], Delete: args[1:]})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%d deleted from %s\n", done.Deleted, args[0])
			return err
		},
	}
}

func (a *app) changeSet(c *cobra.Command, q firewall.SetChange) (done firewall.SetChanged, err error) {
	client, err := a.client()
	if err != nil {
		return done, err
	}
	err = client.Change(c.Context(), "set", q, &done)
	return done, err
}

func newSetListCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "Show what is in a set",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return showView(a, c, "set", url.Values{"name": args}, asJSON, func(w io.Writer, list []firewall.SetElement) error {
				return show.SetElements(w, list, time.Now())
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the elements as JSON")
	return c
}

func newShowFirewallCommand(a *app) *cobra.Command {
	var all bool
	c := viewCommand(a, "firewall", "Show the firewall's rules and what they have counted", "firewall", func(w io.Writer, o firewall.Observed) error {
		return show.Firewall(w, o, all)
	})
	c.Flags().BoolVar(&all, "all", false, "also services of the router that have counted nothing")
	return c
}
