// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/subsystem/services"
)

func newShowServicesCommand(a *app) *cobra.Command {
	c := viewCommand[router.ServicesView](a, "services", "Show "+services.Titles()+": what runs and for whom", "services", show.Services)
	c.Aliases = []string{"service"}
	return c
}

func newShowDHCPCommand(a *app) *cobra.Command {
	return viewCommand[router.DHCPView](a, "dhcp", "Show addresses by DHCP: those that the router was leased, and those it gave", "dhcp", show.DHCP)
}

// addServiceViews makes a command of each view of a service, below the command show.
func addServiceViews(a *app, root *cobra.Command) {
	for _, v := range services.Views() {
		above := root
		words := strings.Fields(v.Path)
		for _, word := range words[:len(words)-1] {
			above = commandBelow(above, word)
		}
		last := viewCommand(a, words[len(words)-1], v.Short, v.Endpoint(), func(w io.Writer, answer json.RawMessage) error {
			t, err := v.Table(answer)
			if err != nil {
				return err
			}
			return show.ServiceTable(w, t)
		})
		last.Long = v.Long
		above.AddCommand(last)
	}
}

// commandBelow returns the command of a word, which is made if there is none yet.
func commandBelow(above *cobra.Command, word string) *cobra.Command {
	for _, c := range above.Commands() {
		if c.Name() == word {
			return c
		}
	}
	c := &cobra.Command{Use: word, Short: "Look at " + strings.ToUpper(word)}
	above.AddCommand(c)
	return c
}
