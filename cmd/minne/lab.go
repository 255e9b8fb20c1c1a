// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/lab/campus"
	"minne/internal/lab/closedloop"
	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/kernel"
)

// labCommands are the commands below "minne lab", as its help groups them.
var labCommands = []struct {
	id, title string
	commands  []func(*app) *cobra.Command
}{
	{"measure", "Measure:", []func(*app) *cobra.Command{
		newLabSuiteCommand,
		newLabCostCommand,
		newLabCompareCommand,
		newLabThroughputCommand,
		newLabLossCommand,
		newLabBackToBackCommand,
		newLabLatencyCommand,
		newLabRecoveryCommand,
		newLabSoakCommand,
		newLabMRRCommand,
		newLabPowerCommand,
		newLabEnergyCommand,
		newLabMatrixCommand,
		newLabResponsivenessCommand,
		newLabFailoverCommand,
		newLabNICsCommand,
		newLabHeadlineCommand,
		newLabPaperCommand,
		newLabDevicesCommand,
		newLabPatternsCommand,
	}},
	{"reports", "Show and share reports:", []func(*app) *cobra.Command{
		newLabShowCommand,
		newLabKeygenCommand,
		newLabSignCommand,
		newLabVerifyCommand,
	}},
	{"networks", "Build networks:", []func(*app) *cobra.Command{
		newLabCampusCommand,
		newLabUpCommand,
		newLabTopologiesCommand,
		newLabExecCommand,
		newLabDownCommand,
		newLabGuestCommand,
	}},
}

func newLabCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Measure routers, and build networks in namespaces",
		Long: `Measure throughput, loss, delay and CPU cost of routers, and build test networks in
network namespaces on this machine. Needs root. It changes nothing outside its own
namespaces, except the ports of --tx and --rx. Some networks need BIRD 2 or FRR,
"minne lab matrix" needs iperf3.
Start with: minne lab cost, then minne lab throughput kernel minne --quick`,
	}
	for _, group := range labCommands {
		c.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands {
			sub := command(a)
			sub.GroupID = group.id
			c.AddCommand(sub)
		}
	}
	return c
}

func newLabCampusCommand(a *app) *cobra.Command {
	var prefixes int
	var image string
	var asJSON bool
	c := &cobra.Command{
		Use:   "campus",
		Short: "Demonstrate the router as a campus border router",
		Long: `Build a campus with one Minne border router and two ISPs, load the full Internet table,
send traffic, let an ISP fail, kill the daemon, and print the results. Takes some
minutes; Ctrl-C ends it and removes everything. The exit code is 1 when a check fails.

With --image the border router boots that disk image in QEMU. This is slow, uses only a
part of the table, and leaves out the comparison of speeds, which means nothing on an
emulated PC.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			progress := a.out
			if asJSON {
				progress = a.err
			}
			report := campus.NewReport(progress)
			if image != "" && prefixes == 0 {
				prefixes = emulatedPrefixes
			}
			table, err := loadTable(report, prefixes)
			if err != nil {
				return err
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			var extra []campus.Step
			if image == "" {
				extra = append(extra, func(ctx context.Context) error { return demoForwarding(ctx, binary, table, report) })
			}
			err = campus.Run(c.Context(), campus.Options{Binary: binary, Table: table, Image: image}, report, extra...)
			if asJSON {
				err = errors.Join(err, a.printJSON(report))
			} else {
				err = errors.Join(err, report.WriteTable(a.out))
			}
			if err == nil && report.Failed() {
				err = errors.New("the campus does not work as it should: see the lines with ✗")
			}
			return err
		},
	}
	c.Flags().IntVar(&prefixes, "prefixes", 0, "`number` of random prefixes of the table (default all)")
	c.Flags().StringVar(&image, "image", "", "`file` of the router's disk image, which the border router boots in QEMU")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON, the progress to standard error")
	return c
}

// emulatedPrefixes is how much of the table an emulated router gets, unless somebody says more.
const emulatedPrefixes = 2000

// demoForwarding compares kernel and fast path in the closed loop of "minne bench
// forward", with few rounds.
func demoForwarding(ctx context.Context, binary string, table []netip.Prefix, report *campus.Report) error {
	report.Step("packets per second, kernel and fast path alternating (closed loop, one core)")
	result, err := closedloop.Forward(ctx, closedloop.ForwardOptions{
		Binary: binary, Table: table, Rounds: quickRounds, Load: kernel.BulkRoutes, Progress: io.Discard,
		Only: []string{"ipv4-one-route", "ipv4-full-random", "ipv6-full-in-table"},
	})
	if err != nil {
		return err
	}
	for _, row := range result.Rows {
		out := campus.Row{Topic: "forwarding", What: row.Name + ", fast path ÷ kernel", Value: row.Ratio.Median, Unit: "×",
			Detail: fmt.Sprintf("kernel %.2f, fast path %.2f Mpps; 95 %% within %.2f to %.2f", row.Comparison.A.PacketsPerSecond/1e6, row.Comparison.B.PacketsPerSecond/1e6, row.Ratio.Low, row.Ratio.High)}
		if row.Ratio.High < 1 {
			out.Failed = "the fast path is slower than the kernel"
		}
		report.Add(out)
	}
	return nil
}

// loadTable returns the full table, or n prefixes of it, the same ones every time.
func loadTable(report *campus.Report, n int) ([]netip.Prefix, error) {
	report.Step("reading the Internet's routing table")
	v4, v6, err := fulltable.Load()
	if err != nil {
		return nil, err
	}
	table := append(v4, v6...)
	if n > 0 && n < len(table) {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		random.Shuffle(len(table), func(i, j int) { table[i], table[j] = table[j], table[i] })
		table = table[:n]
	}
	return table, nil
}
