// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/bench/classbench"
)

func newBenchPolicyCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policy",
		Short: "Time the packet classifier and the blocklist of the fast path",
		Long: "Compile policies of 1 to 10,000 rules in the shapes of access lists, firewalls and network pairs, and " +
			"time how long the fast path takes to find a packet's rule, in turn. The same for a blocklist of 120,000 " +
			"addresses and networks. Packets match random rules (hits) or are anywhere (random). Needs root and about a minute.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := classbench.Measure(c.Context(), func(step string) {
				fmt.Fprintln(a.err, step+" …")
			})
			if err != nil {
				return err
			}
			return a.print(asJSON, rows{r.Rows}, func(out io.Writer) error { return printPolicy(out, r) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	return c
}

func printPolicy(out io.Writer, r *classbench.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "what\ta lookup\t±\tstructure\tmemory\tcompile\tswap\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%.1f ns\t%.0f %%\t", row.ID, row.Ns, row.Spread*50)
		if row.UpdatesPerSecond > 0 {
			fmt.Fprintf(w, "\t\t%.2g updates/s\t\t\n", row.UpdatesPerSecond)
			continue
		}
		fmt.Fprintf(w, "%s\t%d KiB\t%.1f ms\t%.1f ms\t\n", row.Structure, row.Bytes>>10, row.CompileMs, row.SwapMs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	low, high := r.Noise()
	_, err := fmt.Fprintf(out, "\nMedians of %d interleaved rounds, without the loop of %.1f ns. A trial by its repetition (A/A): "+
		"%.2f to %.2f in 90 of 100. Took %v.\n", r.Rounds, r.LoopNs, low, high, r.Took.Round(time.Second))
	return err
}
