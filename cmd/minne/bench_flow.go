// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/bench/flowbench"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

func newBenchFlowCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "flow",
		Short: "Time the flow table of the fast path against the kernel's hash maps",
		Long: "Fill flow tables and eBPF hash maps with the same 1,024, 65,536 and 1,048,576 flows, and time " +
			"lookups in eBPF, in turn. The flows are IPv4 and IPv6 mixed, in random order. " +
			"Needs root, about a minute and 800 MB of memory; no network.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := flowbench.Measure(c.Context(), func(step string) { fmt.Fprintln(a.err, step+" …") })
			if err != nil {
				return err
			}
			figures := flowFigures(r)
			if asJSON {
				return a.printJSON(struct {
					Figures []flowFigure      `json:"figures"`
					Report  *flowbench.Report `json:"report"`
				}{figures, r})
			}
			return printFlow(a.out, r, figures)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures and rows as JSON")
	return c
}

// flowFigure is one figure that the flow table is judged by. Same is the table against itself in the same
// rounds (A/A), where the figure is a ratio of times.
type flowFigure struct {
	ID    string           `json:"id"`
	Text  string           `json:"text"`
	Value result.Interval  `json:"value"`
	Same  *result.Interval `json:"same,omitempty"`
}

func flowFigures(r *flowbench.Report) []flowFigure {
	sizes := flowbench.Sizes()
	most := sizes[len(sizes)-1]
	full := r.Tables[len(r.Tables)-1]
	same := statistics.Interval(r.Ratios(most, flowbench.TableAgain, flowbench.Table))
	ratio := func(id, text, a, b string) flowFigure {
		return flowFigure{id, text, statistics.Interval(r.Ratios(most, a, b)), &same}
	}
	exact := func(id, text string, v float64) flowFigure {
		return flowFigure{id, text, statistics.Interval([]float64{v}), nil}
	}
	return []flowFigure{
		ratio("flow.lookup.ratio", "BPF hash map ÷ flow table, a million flows", flowbench.HashMap, flowbench.Table),
		ratio("flow.lookup.lru.ratio", "BPF LRU hash map ÷ flow table, a million flows", flowbench.LRUMap, flowbench.Table),
		ratio("flow.family.ratio", "IPv6 ÷ IPv4, a million flows", flowbench.TableIPv6, flowbench.TableIPv4),
		{"flow.million.growth", "a hit among a million flows ÷ among 1,024", statistics.Interval(r.Growth(flowbench.Translated)), nil},
		{"flow.million.growth.hash", "the same of the BPF hash map", statistics.Interval(r.Growth(flowbench.HashMap)), nil},
		{"flow.million.growth.entry", "the same of one random entry whose number is known", statistics.Interval(r.Growth(flowbench.KnownEntry)), nil},
		exact("flow.depth.mean", "buckets that a lookup reads to find a flow, a million flows, mean", full.DepthMean),
		exact("flow.depth.max", "the most", float64(full.DepthMax)),
	}
}

func printFlow(out io.Writer, r *flowbench.Report, figures []flowFigure) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "flows\tcontender\tindependent\tdependent\t")
	for _, n := range flowbench.Sizes() {
		for _, row := range r.Rows {
			if row.Flows == n {
				fmt.Fprintf(w, "%d\t%s\t%.1f ns\t%.1f ns\t\n", n, row.Contender, row.NsIndependent, row.NsDependent)
			}
		}
	}
	fmt.Fprintln(w, "\t\t\t\t\nflows\tmade in\thash map\tLRU hash map\t")
	for _, f := range r.Filling {
		fmt.Fprintf(w, "%d\t%.0f ns\t%.0f ns\t%.0f ns\t\n", f.Flows, f.TableNs, f.HashMapNs, f.LRUNs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, f := range figures {
		fmt.Fprintf(out, "%-26s %6.3f  [%.3f, %.3f]  %s", f.ID, f.Value.Median, f.Value.Low, f.Value.High, f.Text)
		if f.Same != nil {
			fmt.Fprintf(out, "; A/A [%.3f, %.3f]", f.Same.Low, f.Same.High)
		}
		fmt.Fprintln(out)
	}
	full := r.Tables[len(r.Tables)-1]
	_, err := fmt.Fprintf(out, "\nMedians of %d interleaved rounds, loop included; the ratios of contenders are without it. Dependent: each key needs the\n"+
		"answer before. A full table of %d flows takes %.0f MiB; headers by depth %v. User space's sweep: %.0f ns for\n"+
		"each flow that stays, %.0f for each that it ends. Took %v.\n",
		r.Rounds, full.Entries, float64(full.Bytes)/(1<<20), full.Depths, r.VisitNs, r.EndNs, r.Took.Round(time.Second))
	return err
}
