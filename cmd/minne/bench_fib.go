// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/bench/fibbench"
	"minne/internal/subsystem/kernel"
)

func newBenchFIBCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "fib",
		Short: "Time one route lookup in the kernel and in each structure of the fast path",
		Long: "Load the Internet routing table into the kernel (in a separate network namespace) and into every " +
			"lookup structure of the fast path, and time lookups in eBPF, in turn. " +
			"IPv4 destinations are random public addresses, IPv6 destinations random addresses inside the table's " +
			"prefixes. Needs root, about 20 seconds and 1.5 GB of memory.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := fibbench.Measure(c.Context(), kernel.BulkRoutes, func(step string) {
				fmt.Fprintln(a.err, step+" …")
			})
			if err != nil {
				return err
			}
			return a.print(asJSON, rows{r.Rows}, func(out io.Writer) error { return printFIB(out, r) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the rows as JSON")
	return c
}

func printFIB(out io.Writer, r *fibbench.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "family\tstructure\troutes\tmemory\tindependent\tdependent\tagainst kernel\tagainst IPv4\t±\t")
	kernels, ipv4 := map[int]fibbench.Row{}, fibbench.Row{}
	for _, row := range r.Rows {
		if row.Structure == fibbench.KernelStructure {
			kernels[row.Family] = row
		} else if row.Default && row.Family == 4 {
			ipv4 = row
		}
	}
	for _, row := range r.Rows {
		name := row.Structure
		if row.Default {
			name += " *"
		}
		memory := "?"
		if row.MemoryBytes > 0 {
			memory = fmt.Sprintf("%.1f MiB", float64(row.MemoryBytes)/(1<<20))
		}
		fmt.Fprintf(w, "IPv%d\t%s\t%d\t%s\t%.1f ns\t%.1f ns\t%.1f× faster\t%.2f×\t%.0f %%\t\n",
			row.Family, name, row.Routes, memory, row.NsIndependent, row.NsDependent,
			kernels[row.Family].NsIndependent/row.NsIndependent, row.NsIndependent/ipv4.NsIndependent,
			row.SpreadIndependent*50)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n* what the fast path uses. Medians of %d interleaved rounds; the ratios are of independent lookups.\n"+
		"Dependent: each address needs the answer before. The loop, %.1f ns for IPv4 and %.1f for IPv6, is included.\n"+
		"IPv4 (%s) for addresses inside the table's prefixes, like those of IPv6: %.1f ns, dependent %.1f ns.\n"+
		"The default against itself (A/A): IPv4 %.3f, IPv6 %.3f. Took %v.\n",
		r.Rounds, r.LoopNs[0], r.LoopNs[1],
		r.InTable.Structure, r.InTable.NsIndependent, r.InTable.NsDependent, r.Noise[0], r.Noise[1], r.Took.Round(time.Second))
	return err
}
