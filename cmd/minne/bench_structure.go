// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/lab/bench/structurebench"
	"minne/internal/subsystem/fastpath/choice"
)

func newBenchStructureCommand(a *app) *cobra.Command {
	var store, asJSON bool
	c := &cobra.Command{
		Use:   "structure",
		Short: "Find the fastest lookup structure of the IPv4 table for this machine",
		Long: `Time the lookup structures of the IPv4 table, in eBPF on a generated table as large as
the Internet's, and show which one "fast-path: {structure: auto}" selects on this
machine. Needs root and a few seconds of one core at the lowest priority, so you can run
it while the router forwards.

With --store the router uses the answer when it builds its tables the next time. Without
a stored answer for this machine, kernel and release, the daemon measures when the
machine is idle.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.benchStructure(c.Context(), store, asJSON) },
	}
	c.Flags().BoolVar(&store, "store", false, "keep the answer for the router")
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return c
}

func (a *app) benchStructure(ctx context.Context, store, asJSON bool) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("take the lowest priority: %w", err)
	}
	measured, err := structurebench.Measure(ctx, version(), func(step string) { fmt.Fprintln(a.err, step+" …") })
	if err != nil {
		return err
	}
	if store {
		kept := choice.NewStore(inst.StateDir, inst.RunDir, version(), slog.New(slog.NewTextHandler(a.err, nil)))
		if err := kept.Write(measured); err != nil {
			return fmt.Errorf("keep the answer: %w", err)
		}
		fmt.Fprintf(a.err, "kept in %s; the router uses it when its tables are built the next time\n", kept.Path())
	}
	return a.print(asJSON, measured, func(out io.Writer) error { return printStructures(out, measured) })
}

func printStructures(out io.Writer, c choice.Choice) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "structure\treserved\ta lookup\tby the default's\t95 % interval\t")
	for _, f := range c.Figures {
		name := f.Structure
		if name == c.Structure {
			name += " *"
		}
		fmt.Fprintf(w, "%s\t%.0f MiB\t%.1f ns\t%.2f\t%.2f to %.2f\t\n", name, float64(f.Image)/(1<<20), f.Ns, f.ToDefault.Median, f.ToDefault.Low, f.ToDefault.High)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n* what auto means here. %d routes, each lookup waits for the one before. Took %.1f s.\n", c.Routes, c.Seconds)
	return err
}
