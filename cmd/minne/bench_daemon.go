// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/kernel"
)

func newBenchDaemonCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Measure the daemon: memory, idle cost, speed of route changes, restart",
		Long: `Measure what the daemon costs, and how fast it copies the kernel's routes into the fast
path: memory with few routes and with a full table, time to load the full table, route
changes per second, delay of a single change, CPU time when idle, and packets lost while
the daemon is killed and restarted. Takes about a minute.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v4, v6, err := fulltable.Load()
			if err != nil {
				return err
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o := closedloop.DaemonOptions{Binary: binary, Table: append(v4, v6...), Load: kernel.BulkRoutes, Progress: a.err}
			result, err := closedloop.Daemon(c.Context(), o)
			if err != nil {
				return err
			}
			return a.print(asJSON, result, result.WriteTable)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}
