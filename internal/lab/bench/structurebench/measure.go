// SPDX-License-Identifier: Apache-2.0

package structurebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/algo/lpmbench"
	"minne/internal/lab/platform/data"
	"minne/internal/lab/statistics"
	"minne/internal/subsystem/fastpath/choice"
	"minne/internal/subsystem/fastpath/fib"
)

const (
	rounds = 15
	seed   = 2026

	// perTurn is how many lookups a structure is timed for in a turn, after as many that are not: the caches hold the
	// table of the one before.
	perTurn = 1 << 17
	// longest is how long one run of a program may be. Softirqs, and with them received packets, wait until it ends; the kernel itself gives
	// them 2 ms at a time (net.core.netdev_budget_usecs).
	longest = 250 * time.Microsecond
	// firstRun is how many lookups the first run of a structure has, which says how many the others may have.
	firstRun = 256

	// bytesPerRoute is what measuring takes for a route: generating it, and compiling it for one structure.
	bytesPerRoute = 450
	leastRoutes   = 50_000
)

// errSmall says that measuring would take too much.
var errSmall = errors.New("not measured: too little memory for a large table; the default is used")

// routesFor is how many routes are measured with on a machine with so much memory: measuring takes an eighth of it at most.
func routesFor(memory uint64) (int, error) {
	n := data.FullIPv4
	if memory > 0 {
		n = min(n, int(memory/8/bytesPerRoute))
	}
	if n < leastRoutes {
		return 0, errSmall
	}
	return n, nil
}

// contender is a structure that is measured.
type contender struct {
	structure fib.Structure
	table     *lpmbench.Contender
	perRun    uint32
	ns        []float64 // of each round
}

// Measure times the structures that this machine may use. Root is needed; it takes a few seconds of one core.
func Measure(ctx context.Context, version string, progress func(string)) (choice.Choice, error) {
	key, memory := choice.Here(version)
	c := choice.Choice{Schema: choice.Schema, Measured: time.Now().UTC().Truncate(time.Second), Key: key}
	begin := time.Now()
	var err error
	if c.Routes, err = routesFor(memory); err != nil {
		return c, err
	}
	progress("make a routing table as large as the Internet's")
	routes, err := data.Routes(lpm.IPv4, c.Routes, seed)
	if err != nil {
		return c, err
	}
	bench, err := lpmbench.NewBench()
	if err != nil {
		return c, err
	}
	defer bench.Close()
	fillKeys(bench.Keys, routes)
	var all []*contender
	defer func() {
		for _, t := range all {
			t.table.Close()
		}
	}()
	for _, s := range choice.Candidates(memory) {
		progress("compile " + s.String())
		table, _, err := bench.FIB(lpm.IPv4, s, routes)
		if err != nil {
			return c, fmt.Errorf("%s: %w", s, err)
		}
		all = append(all, &contender{structure: s, table: table})
	}
	if err := sameAnswers(bench, all); err != nil {
		return c, err
	}
	progress("measure")
	if err := turns(ctx, all); err != nil {
		return c, err
	}
	c.Figures = figures(all)
	c.Structure = decide(c.Figures)
	c.Seconds = time.Since(begin).Round(time.Millisecond).Seconds()
	return c, nil
}

// fillKeys makes the addresses: public ones by turns with ones inside the table's prefixes.
func fillKeys(keys []lpm.Key, routes []lpm.Route) {
	half := len(keys) / 2
	random, inTable := data.RandomKeys(lpm.IPv4, half, seed), data.KeysInTable(routes, half, seed)
	for i := range half {
		keys[2*i], keys[2*i+1] = random[i], inTable[i]
	}
}

// compared is how many answers are compared.
const compared = 4096

// sameAnswers compares answers: a structure that is wrong must not be chosen for its speed.
func sameAnswers(bench *lpmbench.Bench, all []*contender) error {
	var want []uint32
	for _, t := range all {
		if err := t.table.Check(compared); err != nil {
			return err
		}
		if want == nil {
			want = slices.Clone(bench.Answers[:compared])
		}
		for i, got := range bench.Answers[:compared] {
			if got != want[i] {
				return fmt.Errorf("%s answers %d for %s, %s %d: none of them is chosen (please report this)",
					t.structure, got, bench.Keys[i].Address(lpm.IPv4), all[0].structure, want[i])
			}
		}
	}
	return nil
}

// turns times all contenders once in each round, every other round backwards.
func turns(ctx context.Context, all []*contender) error {
	for round := range rounds {
		order := slices.Clone(all)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, t := range order {
			if err := t.turn(ctx, uint32(round)*perTurn); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn runs the lookups from key number first on, in short runs.
func (t *contender) turn(ctx context.Context, first uint32) error {
	if t.perRun == 0 {
		ns, err := t.table.Time(first, firstRun, true)
		if err != nil {
			return err
		}
		t.perRun = uint32(min(max(float64(longest.Nanoseconds())/ns, firstRun), perTurn/8))
	}
	var sum float64
	timed := 0
	for done := uint32(0); done < 2*perTurn; done += t.perRun {
		if err := ctx.Err(); err != nil {
			return err
		}
		ns, err := t.table.Time(first+done, t.perRun, true)
		if err != nil {
			return err
		}
		if done >= perTurn {
			sum += ns
			timed++
		}
	}
	t.ns = append(t.ns, sum/float64(timed))
	return nil
}

// figures are what was measured, beside the first one.
func figures(all []*contender) (out []choice.Figure) {
	for _, t := range all {
		ratios := make([]float64, len(t.ns))
		for i, ns := range t.ns {
			ratios[i] = ns / all[0].ns[i]
		}
		out = append(out, choice.Figure{
			Structure: t.structure.String(), Ns: statistics.Median(t.ns), ToDefault: choice.Interval(statistics.Interval(ratios)),
			Image: int(fib.Layout4(t.structure, fib.Full).ImageBytes()),
		})
	}
	return out
}

// How much faster than the default a structure must be. One with a larger image takes caches and TLB from all else that a packet meets: with
// lookups as fast as range18's, range20 forwards 15 % fewer packets with the full table (docs/design/fib.md).
const (
	gain       = 0.05
	gainLarger = 0.20
)

// decide picks the structure that is surely faster than the default, or the default, which is the first figure.
func decide(figures []choice.Figure) string {
	best := figures[0]
	for _, f := range figures[1:] {
		need := gain
		if f.Image > figures[0].Image {
			need = gainLarger
		}
		if f.ToDefault.High < 1-need && f.ToDefault.Median < best.ToDefault.Median {
			best = f
		}
	}
	return best.Structure
}
