// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// benches are the commands below "minne bench".
var benches = []func(*app) *cobra.Command{
	newBenchFIBCommand,
	newBenchStructureCommand,
	newBenchFlowCommand,
	newBenchForwardCommand,
	newBenchDaemonCommand,
	newBenchPolicyCommand,
	newBenchPlatformCommand,
	newBenchMergeCommand,
}

// rows is a table of figures as JSON.
type rows struct {
	Rows any `json:"rows"`
}

func newBenchCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine routes",
		Long: "Measure on this machine, in separate network namespaces, without touching the router. " +
			"Compare figures of one run with each other; figures of two runs compare only if the machine was equally idle.",
	}
	for _, bench := range benches {
		c.AddCommand(bench(a))
	}
	return c
}
