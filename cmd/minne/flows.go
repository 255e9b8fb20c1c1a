// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
)

// newFlowsCommand is for who looks for the log where its name says it: "minne flows log" is "minne show flows log".
func newFlowsCommand(a *app) *cobra.Command {
	top := &cobra.Command{Use: "flows", Short: "Search the flow log"}
	log := newShowing(a, "log")
	log.add(router.FlowLog)
	top.AddCommand(log.command)
	return top
}
