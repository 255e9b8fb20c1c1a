// SPDX-License-Identifier: Apache-2.0

package main

import (
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
