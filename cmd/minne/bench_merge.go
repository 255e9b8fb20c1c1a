// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"minne/internal/lab/platform"
)

func newBenchMergeCommand(a *app) *cobra.Command {
	var asJSON bool
	var html string
	c := &cobra.Command{
		Use:   "merge FILE…",
		Short: "Combine platform benchmarks of several machines in one table",
		Long: `Combine results of "minne bench platform --json" from several machines in one table: CPU,
frequency, caches and memory of each machine, and the figures of each algorithm side by
side. Figures that come from different data are marked.`,
		Example: "  minne bench merge apu2.json pi4.json --html platforms.html",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			var all []*platform.Result
			for _, file := range files {
				r, err := platform.Read(file)
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			m := platform.Merge(all)
			err := writePage(html, m.Document(true).WritePage)
			return errors.Join(err, a.print(asJSON, m, m.Document(false).WriteTerminal))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the table as JSON")
	c.Flags().StringVar(&html, "html", "", "write the table with plots to this `file`, too")
	return c
}
