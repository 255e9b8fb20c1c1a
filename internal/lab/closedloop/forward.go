// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"text/tabwriter"

	"minne/internal/lab/device"
	"minne/internal/lab/traffic"
)

// ForwardRow compares the pps of two ways to forward.
type ForwardRow struct {
	Name         string  `json:"name"`
	A            string  `json:"what_a"`
	B            string  `json:"what_b"`
	Family       string  `json:"family"`
	FrameBytes   int     `json:"frame_bytes"` // without FCS
	Routes       int     `json:"routes"`      // of that family in B's kernel
	Destinations int     `json:"destinations"`
	Bar          float64 `json:"bar,omitempty"` // the least ratio that is good enough
	Met          *bool   `json:"met,omitempty"`
	Comparison
}

// ForwardResult is what `minne bench forward` found.
type ForwardResult struct {
	Rows []ForwardRow `json:"rows"`
	// What generator and sink cost by themselves, ns per packet; it is contained in the rows.
	Baseline4 float64 `json:"baseline_ipv4_ns"`
	Baseline6 float64 `json:"baseline_ipv6_ns"`
	Batch     int     `json:"batch"` // frames per turn of the generator
	CPUs      int     `json:"cpus"`  // of the machine; one is used
}

// ForwardOptions say what to measure.
type ForwardOptions struct {
	Binary   string // the minne command
	Table    []netip.Prefix
	Rounds   int
	Only     []string // names of the rows to measure; none is all
	Load     device.Loader
	Progress io.Writer
}

// Forward measures the fast path against the kernel, and a full table against a
// single route. Both tables are there at once, in two routers, so that every
// comparison alternates its trials.
func Forward(ctx context.Context, o ForwardOptions) (*ForwardResult, error) {
	fmt.Fprintln(o.Progress, "building two routers: one with a single route per family, one with the full table")
	r, err := NewTables(ctx, device.Means{Binary: o.Binary, Load: o.Load}, o.Table)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	routes := map[bool]int{}
	for _, p := range o.Table {
		routes[p.Addr().Is6()]++
	}
	result := &ForwardResult{Batch: traffic.Batch, CPUs: runtime.NumCPU()}
	for i, baseline := range []*float64{&result.Baseline4, &result.Baseline6} {
		s, err := Measure(ctx, Side{r.Direct, r.Many[i]}, 10)
		if err != nil {
			return nil, err
		}
		*baseline = s.PerPacket
	}
	one, oneSlow, full, fullSlow := r.One, r.OneSlow, r.Full, r.FullSlow
	single, many := r.Single, r.Many
	for _, c := range []struct {
		row  ForwardRow
		a, b Side
	}{
		{ForwardRow{Name: "ipv4-one-route", A: "kernel", B: "fast path", Bar: 1.7}, Side{oneSlow, single[0]}, Side{one, single[0]}},
		{ForwardRow{Name: "ipv4-full-random", A: "kernel", B: "fast path", Bar: 2.2}, Side{fullSlow, many[0]}, Side{full, many[0]}},
		{ForwardRow{Name: "ipv6-one-route", A: "kernel", B: "fast path"}, Side{oneSlow, single[1]}, Side{one, single[1]}},
		{ForwardRow{Name: "ipv6-full-in-table", A: "kernel", B: "fast path", Bar: 3}, Side{fullSlow, many[1]}, Side{full, many[1]}},
		{ForwardRow{Name: "ipv4-full-vs-one", A: "fast path, one route", B: "fast path, full table", Bar: 0.80}, Side{one, single[0]}, Side{full, many[0]}},
		{ForwardRow{Name: "ipv6-full-vs-one", A: "fast path, one route", B: "fast path, full table"}, Side{one, single[1]}, Side{full, many[1]}},
		// The same packets on both sides: what remains is the table alone.
		{ForwardRow{Name: "ipv4-random-full-vs-one", A: "fast path, one route", B: "fast path, full table"}, Side{one, many[0]}, Side{full, many[0]}},
		{ForwardRow{Name: "ipv6-random-full-vs-one", A: "fast path, one route", B: "fast path, full table"}, Side{one, many[1]}, Side{full, many[1]}},
	} {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.row.Name) {
			continue
		}
		fmt.Fprintf(o.Progress, "measuring %s\n", c.row.Name)
		row := c.row
		row.Family, row.FrameBytes, row.Routes, row.Destinations = "ipv4", traffic.MinFrame4, 1, 1
		ipv6 := c.b.Load == single[1] || c.b.Load == many[1]
		if ipv6 {
			row.Family, row.FrameBytes = "ipv6", traffic.MinFrame6
		}
		if c.b.Path == full {
			row.Routes, row.Destinations = routes[ipv6], traffic.MaxDestinations
		}
		if row.Comparison, err = Compare(ctx, c.a, c.b, o.Rounds); err != nil {
			return nil, fmt.Errorf("%s: %w", row.Name, err)
		}
		if row.Bar > 0 {
			met := row.Ratio.Median >= row.Bar
			row.Met = &met
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}

// WriteTable prints the result for people.
func (r *ForwardResult) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tA\tMpps\tB\tMpps\tB ÷ A\t95 % interval\tA ÷ A\tbar\t")
	for _, row := range r.Rows {
		bar := ""
		if row.Met != nil {
			bar = fmt.Sprintf("≥ %.2f ✓", row.Bar)
			if !*row.Met {
				bar = fmt.Sprintf("≥ %.2f ✗", row.Bar)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\t%.2f\t%.2f\t%.2f to %.2f\t%.2f to %.2f\t%s\t\n", row.Name,
			row.A, row.Comparison.A.PacketsPerSecond/1e6, row.B, row.Comparison.B.PacketsPerSecond/1e6,
			row.Ratio.Median, row.Ratio.Low, row.Ratio.High, row.SameSame.Low, row.SameSame.High, bar)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nOne core, closed loop, batches of %d; generator and sink alone: %.0f ns per IPv4 packet, %.0f per IPv6.\n",
		r.Batch, r.Baseline4, r.Baseline6)
	return err
}
