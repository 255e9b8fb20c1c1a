// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/device"
	"minne/internal/lab/paper"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
)

// paperFlags are those of "minne lab paper".
type paperFlags struct {
	measureFlags
	options paper.Options
}

func newLabPaperCommand(a *app) *cobra.Command {
	var f paperFlags
	c := &cobra.Command{
		Use:   "paper [NAME]",
		Short: "Repeat an experiment of the papers and print their figures next to the measured ones",
		Long: `Repeat an experiment of the papers that Minne is based on, and print the paper's figure
next to the measured one, with notes on what is comparable. Without a name the
experiments are listed. Needs root and two CPUs (fib-trie: one).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.list(c, a)
			}
			p, err := paper.Find(args[0])
			if err != nil {
				return usageError{err}
			}
			return f.run(c, a, p)
		},
	}
	f.registerReport(c)
	c.Flags().BoolVar(&f.options.Quick, "quick", false, "at most two minutes: shorter and fewer trials")
	c.Flags().DurationVar(&f.options.Duration, "duration", 0, "`time` of the soak (default 24h, or 40s with --quick)")
	return c
}

func (f *paperFlags) run(c *cobra.Command, a *app, p paper.Preset) (err error) {
	if f.options.Duration < 0 || c.Flags().Changed("duration") && f.options.Duration < time.Second {
		return usageError{fmt.Errorf("--duration %v: expected a second or more", f.options.Duration)}
	}
	if c.Flags().Changed("duration") && p.Name != paper.Soak {
		return usageError{fmt.Errorf("--duration is of the experiment %s; %s takes what it takes (--quick shortens it)", paper.Soak, p.Name)}
	}
	f.options.Means = device.Means{Load: kernel.BulkRoutes}
	if f.options.Means.Binary, err = os.Executable(); err != nil {
		return err
	}
	return f.session(c.Context(), a, "Comparison with the paper: "+p.Name, "paper-"+p.Name, func(ctx context.Context, s *session.Session) error {
		return p.Run(ctx, s, f.options)
	})
}

// list prints the experiments.
func (f *paperFlags) list(c *cobra.Command, a *app) error {
	for _, flag := range []string{"quick", "duration", "out"} {
		if c.Flags().Changed(flag) {
			return usageError{errors.New("--" + flag + " without an experiment: expected its name; \"minne lab paper\" lists them")}
		}
	}
	if f.asJSON {
		return a.printJSON(map[string]any{"experiments": paper.Presets()})
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPERIMENT\tQUICK\tTAKES\tWHAT")
	for _, p := range paper.Presets() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Name, p.QuickTime, p.Time, p.Short)
	}
	return t.Flush()
}
