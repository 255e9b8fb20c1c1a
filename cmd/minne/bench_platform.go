// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/device"
	"minne/internal/lab/platform"
	"minne/internal/lab/result"
	"minne/internal/subsystem/kernel"
)

// Seconds of measuring.
const (
	platformSeconds      = 240
	platformQuickSeconds = 25
	platformRounds       = 9
	platformQuickRounds  = 3
	// Repetitions of each measurement in a round: nine altogether at least.
	platformRepeat      = 9
	platformQuickRepeat = 3
	// platformQuickLimit leaves time until 4 minutes for what can't be stopped in the middle.
	platformQuickLimit = 220 * time.Second
)

// platformFlags are the flags of "minne bench platform".
type platformFlags struct {
	quick, asJSON   bool
	estimate, check bool
	matrix          bool
	html, name      string
	peers           string
	algorithms      []string
	data            platform.Data
	cpu             int
	seconds         float64
}

func newBenchPlatformCommand(a *app) *cobra.Command {
	var f platformFlags
	c := &cobra.Command{
		Use:   "platform",
		Short: "Measure whether this machine is fast enough: lookups, filters and pattern matching",
		Long: `Measure how fast this machine's CPU does a router's work: longest prefix match with
full routing tables, Bloom filters, and payload search for thousands of patterns. Each
is measured as a native program and, for root on a kernel with eBPF, inside the kernel,
in turn. All answers are first compared with a plain reference; a wrong answer fails
the benchmark.

The data are generated and the same on every machine, unless you give files: routing
tables as lines of "prefix nexthop" or as an MRT dump, patterns as hexadecimal digits
or /regular expressions/, a blocklist of addresses, packets with payload to search.
Files may be compressed with gzip or bzip2.

"minne bench merge" combines the results of several machines in one table.`,
		Example: `  minne bench platform --quick
  minne bench platform --json --name "APU2" > apu2.json
  minne bench platform --html report.html --table rib.20260801.bz2 --patterns rules.txt --pcap lan.pcap`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), a) },
	}
	c.Flags().BoolVar(&f.quick, "quick", false, "at most 4 minutes: wider intervals")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the result as JSON")
	c.Flags().StringVar(&f.html, "html", "", "write the report with plots to this `file`, too")
	c.Flags().StringVar(&f.name, "name", "", "`name` of this platform in reports and tables (default its CPU)")
	c.Flags().StringSliceVar(&f.algorithms, "algorithms", nil, "the algorithms to measure: "+strings.Join(algorithmOptions(), ", "))
	c.Flags().StringVar(&f.data.Routes, "table", "", "`file` of a routing table")
	c.Flags().StringVar(&f.data.Patterns, "patterns", "", "`file` of patterns")
	c.Flags().StringVar(&f.data.Blocklist, "blocklist", "", "`file` of addresses for the Bloom filters")
	c.Flags().StringVar(&f.data.Capture, "pcap", "", "`file` of packets whose payload is searched")
	c.Flags().StringVar(&f.peers, "peers", "", "measure other projects' libraries too: `directory` that scripts/peers.sh created")
	c.Flags().BoolVar(&f.estimate, "estimate", false, "estimate in plain words what this machine can route (needs root)")
	c.Flags().BoolVar(&f.check, "check-estimate", false, "estimate, and compare with a lab on this machine: a minute more, 3 GB of memory")
	c.Flags().BoolVar(&f.matrix, "matrix", false, "measure TCP and UDP transfers through the kernel, too: minutes more, needs root and iperf3")
	c.Flags().IntVar(&f.cpu, "cpu", -1, "CPU to stay on (default any)")
	c.Flags().Float64Var(&f.seconds, "seconds", platformSeconds, "`seconds` of measuring, without what comes before")
	return c
}

func algorithmOptions() (all []string) {
	for _, a := range platform.Algorithms {
		all = append(all, a.Option)
	}
	return all
}

func (f *platformFlags) chosen() (algorithms []string, err error) {
	switch {
	case !(f.seconds > 0 && f.seconds <= 86400):
		return nil, fmt.Errorf("--seconds %g: expected more than 0 and at most a day", f.seconds)
	case f.cpu < -1 || f.cpu > 4095:
		return nil, fmt.Errorf("--cpu %d: expected the number of a CPU", f.cpu)
	}
	if algorithms, err = platform.Names(f.algorithms); err != nil {
		err = fmt.Errorf("--algorithms: %w", err)
	}
	return algorithms, err
}

func (f *platformFlags) run(ctx context.Context, a *app) error {
	algorithms, err := f.chosen()
	if err != nil {
		return usageError{err}
	}
	rounds, repeat, limit := platformRounds, platformRepeat, time.Duration(0)
	if f.quick {
		f.seconds, rounds = min(f.seconds, platformQuickSeconds), platformQuickRounds
		repeat, limit = platformQuickRepeat, platformQuickLimit
	}
	o := platform.Options{
		Name: f.name, Algorithms: algorithms, Data: f.data, CPU: f.cpu, Seconds: f.seconds, Rounds: rounds, Repeat: repeat, Limit: limit,
		Command: append([]string{"minne"}, os.Args[1:]...),
		Minne:   result.Build{Version: version(), Commit: commit, Go: runtime.Version()}, Estimate: f.estimate || f.check, Check: f.check, Matrix: f.matrix, Means: device.Means{Load: kernel.BulkRoutes}, Peers: f.peers,
		Progress: func(text string) { fmt.Fprintln(a.err, text+" …") },
	}
	if o.Means.Binary, err = os.Executable(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		if o.NativeOnly = "that needs root"; o.Estimate || o.Matrix {
			return errors.New("--estimate and --matrix build routers, which only root may: run this as root, or leave them out")
		}
	}
	r, err := platform.Measure(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.err, r.TimeLine())
	return f.print(a, r)
}

// print prints a result and writes its page.
func (f *platformFlags) print(a *app, r *platform.Result) error {
	return errors.Join(writePage(f.html, r.WritePage), a.print(f.asJSON, r, r.WriteTable))
}

// writePage writes a page to a file, when one is given.
func writePage(file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}
