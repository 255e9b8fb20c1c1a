// SPDX-License-Identifier: Apache-2.0

package fibbench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/fulltable"
	"minne/internal/lab/statistics"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/fib"
)

const (
	rounds    = 9
	perTrial  = 1 << 18 // lookups of a structure in one trial
	perKernel = 1 << 16 // of the kernel, which takes many times longer
	hops      = 64      // next hops of the table, spread at random: neighbouring prefixes seldom share one
	budget    = 45 * time.Second
	seed      = 20
)

// KernelStructure is the name of the kernel's own lookup in a Row.
const KernelStructure = "kernel"

// Row is one structure's figures.
type Row struct {
	Family        int     `json:"family"` // 4 or 6
	Structure     string  `json:"structure"`
	Default       bool    `json:"default"` // the fast path uses it unless the configuration says otherwise
	Routes        int     `json:"routes"`
	MemoryBytes   int     `json:"memory_bytes"`   // of the image in use; 0 for the kernel, which does not tell
	NsIndependent float64 `json:"ns_independent"` // median, ns per lookup, loop included
	NsDependent   float64 `json:"ns_dependent"`   // each address depends on the answer before

	SpreadIndependent float64 `json:"spread_independent"` // (third quartile − first) / median over rounds
}

// Report is one interleaved measurement.
type Report struct {
	Rows   []Row
	LoopNs [2]float64 // the loop alone, included in every row; IPv4, IPv6
	// Noise is A/A: the same structure measured twice in each round, as the median of the
	// rounds' ratios; IPv4, IPv6.
	Noise [2]float64
	// Speedups and Repeats are the ratios of every round for the default structure and independent
	// lookups: kernel ÷ structure, and structure ÷ itself; IPv4, IPv6.
	Speedups, Repeats [2][]float64
	// InTable is IPv4's default structure asked for addresses inside the table's prefixes, as IPv6
	// is: random public addresses often need the root only.
	InTable Row
	Rounds  int
	Took    time.Duration
}

// contender is a row in the making.
type contender struct {
	row         Row
	inTable     bool // for Report.InTable
	c           *candidate
	count       uint32
	independent []float64
	dependent   []float64
}

// Measure compares the kernel's lookup with every structure on the full table of both families.
func Measure(ctx context.Context, install kernelfib.Install, progress func(string)) (r *Report, err error) {
	kernel, err := kernelfib.New()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	err = kernel.Do(func() error {
		r, err = measure(ctx, kernel, install, progress)
		return err
	})
	return r, err
}

// measure runs on the thread that is in the kernel's namespace.
func measure(ctx context.Context, kernel *kernelfib.Namespace, install kernelfib.Install, progress func(string)) (*Report, error) {
	start := time.Now()
	progress("reading the table")
	v4, v6, err := fulltable.Load()
	if err != nil {
		return nil, err
	}
	progress("installing the table in the kernel of an own network namespace")
	for _, prefixes := range [][]netip.Prefix{v4, v6} {
		if err := install(ctx, kernelRoutes(kernel, prefixes)); err != nil {
			return nil, fmt.Errorf("install the table: %w", err)
		}
	}
	s, err := newShared()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(seed, seed))
	fillKeys(s, v6, rng)

	progress("compiling the structures")
	all, err := contenders(s, uint32(kernel.Interface), v4, v6)
	for _, t := range all {
		defer t.c.close()
	}
	if err != nil {
		return nil, err
	}
	inTable, err := newShared()
	if err != nil {
		return nil, err
	}
	defer inTable.Close()
	t, err := insideContender(inTable, v4, rng)
	if err != nil {
		return nil, err
	}
	defer t.c.close()
	all = append(all, t)
	progress(fmt.Sprintf("measuring, up to %d rounds", rounds))
	return trials(ctx, all, start)
}

// kernelRoutes are the prefixes as routes over as many gateways as there are next hops.
func kernelRoutes(kernel *kernelfib.Namespace, prefixes []netip.Prefix) []rib.Route {
	routes := make([]rib.Route, 0, len(prefixes))
	next := hopOf()
	for _, p := range prefixes {
		routes = append(routes, kernel.Route(p, uint32(next())))
	}
	return routes
}

// hopOf gives one next hop 1…hops after the other, the same ones each time.
func hopOf() func() uint16 {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func() uint16 { return uint16(1 + rng.IntN(hops)) }
}

func tableRoutes(prefixes []netip.Prefix) iter.Seq[fib.Route] {
	return func(yield func(fib.Route) bool) {
		next := hopOf()
		for _, p := range prefixes {
			if !yield(fib.Route{Prefix: p, NextHop: next()}) {
				return
			}
		}
	}
}

// special are the IPv4 blocks that no packet on the Internet is sent to (RFC 6890).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

func public4(rng *rand.Rand) uint32 {
	for {
		dst := rng.Uint32()
		a := netip.AddrFrom4([4]byte{byte(dst >> 24), byte(dst >> 16), byte(dst >> 8), byte(dst)})
		if !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return dst
		}
	}
}

// inside is a random address of a prefix.
func inside(p netip.Prefix, rng *rand.Rand) key6 {
	b := p.Addr().As16()
	k := key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
	switch n := p.Bits(); {
	case n <= 64:
		k.hi |= rng.Uint64() >> n // a shift by 64 gives 0
		k.lo = rng.Uint64()
	default:
		k.lo |= rng.Uint64() >> (n - 64)
	}
	return k
}

// fillKeys makes the destinations: IPv4 uniformly random over all public addresses, IPv6 inside
// the table's prefixes, each as likely as the others.
func fillKeys(s *shared, v6 []netip.Prefix, rng *rand.Rand) {
	for i := range s.keys4 {
		s.keys4[i] = public4(rng)
	}
	for i := range s.keys6 {
		s.keys6[i] = inside(v6[rng.IntN(len(v6))], rng)
	}
}

// contenders loads every way to look up and compiles the tables. Those already made are returned
// with an error too, to be closed.
func contenders(s *shared, ingress uint32, v4, v6 []netip.Prefix) ([]*contender, error) {
	var all []*contender
	small4, small6 := fib.Layout4(fib.Default, fib.Small), fib.Layout6(fib.Small)
	add := func(c *candidate, row Row, count uint32) {
		all = append(all, &contender{row: row, c: c, count: count})
	}
	kernel, err := newCandidate(s, askKernel, ingress, small4, small6)
	if err != nil {
		return all, err
	}
	add(kernel, Row{Family: 4, Structure: KernelStructure, Routes: len(v4)}, perKernel)
	for _, structure := range fib.Structures {
		l := fib.Layout4(structure, fib.Full)
		c, err := newCandidate(s, askImage, ingress, l, small6)
		if err != nil {
			return all, err
		}
		row := Row{Family: 4, Structure: structure.String(), Default: structure == fib.Default}
		add(c, row, perTrial)
		t, err := fib.NewTable4(c.image4, l, fib.Options{})
		if err != nil {
			return all, err
		}
		if err := t.Replace(tableRoutes(v4)); err != nil {
			return all, err
		}
		all[len(all)-1].row.describe(t.Stats())
	}
	add(kernel, Row{Family: 6, Structure: KernelStructure, Routes: len(v6)}, perKernel)
	l := fib.Layout6(fib.Full)
	c, err := newCandidate(s, askImage, ingress, small4, l)
	if err != nil {
		return all, err
	}
	add(c, Row{Family: 6, Structure: fib.IPv6Structure, Default: true}, perTrial)
	t, err := fib.NewTable6(c.image6, l, fib.Options{})
	if err != nil {
		return all, err
	}
	if err := t.Replace(tableRoutes(v6)); err != nil {
		return all, err
	}
	all[len(all)-1].row.describe(t.Stats())
	return all, nil
}

// insideContender is IPv4's default structure over keys inside the table's prefixes.
func insideContender(s *shared, v4 []netip.Prefix, rng *rand.Rand) (*contender, error) {
	for i := range s.keys4 {
		p := v4[rng.IntN(len(v4))]
		s.keys4[i] = binary.BigEndian.Uint32(p.Addr().AsSlice()) | uint32(uint64(rng.Uint32())>>p.Bits())
	}
	l := fib.Layout4(fib.Default, fib.Full)
	c, err := newCandidate(s, askImage, 0, l, fib.Layout6(fib.Small))
	if err != nil {
		return nil, err
	}
	t, err := fib.NewTable4(c.image4, l, fib.Options{})
	if err == nil {
		err = t.Replace(tableRoutes(v4))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	one := &contender{row: Row{Family: 4, Structure: fib.Default.String()}, inTable: true, c: c, count: perTrial}
	one.row.describe(t.Stats())
	return one, nil
}

func (r *Row) describe(s fib.Stats) {
	r.Routes, r.MemoryBytes = s.Routes, s.UsedBytes
}

// measured runs one trial of each kind, after as many lookups that count for nothing: the caches
// still hold the predecessor's tables.
func (t *contender) measured(first uint32) error {
	for _, dependent := range []bool{false, true} {
		if _, err := t.c.bench(t.row.Family, first, t.count, dependent); err != nil {
			return err
		}
		ns, err := t.c.bench(t.row.Family, first+t.count, t.count, dependent)
		if err != nil {
			return err
		}
		if dependent {
			t.dependent = append(t.dependent, ns)
		} else {
			t.independent = append(t.independent, ns)
		}
	}
	return nil
}

// trials alternates all contenders and takes medians.
func trials(ctx context.Context, all []*contender, start time.Time) (*Report, error) {
	report := &Report{}
	loop, err := newCandidate(all[0].c.shared, askNothing, 0, fib.Layout4(fib.Default, fib.Small), fib.Layout6(fib.Small))
	if err != nil {
		return nil, err
	}
	defer loop.close()
	var loops, ratios [2][]float64
	for r := range rounds {
		if r >= 3 && time.Since(start) > budget {
			break
		}
		for i := range all {
			if err := ctx.Err(); err != nil {
				return nil, errors.New("interrupted")
			}
			t := all[i]
			if r%2 == 1 { // back again: nobody always comes after the kernel's cold caches
				t = all[len(all)-1-i]
			}
			if err := t.measured(uint32(r * perTrial)); err != nil {
				return nil, err
			}
			if !t.row.Default {
				continue
			}
			k := t.row.Family / 6
			ns, err := loop.bench(t.row.Family, 0, perTrial, false)
			if err != nil {
				return nil, err
			}
			loops[k] = append(loops[k], ns)
			// Other keys: the caches must not know them.
			again := &contender{row: t.row, c: t.c, count: t.count}
			if err := again.measured(uint32(r*perTrial + keyCount/2)); err != nil {
				return nil, err
			}
			ratios[k] = append(ratios[k], again.independent[0]/t.independent[r])
		}
		report.Rounds++
	}
	for _, t := range all {
		t.row.NsIndependent, t.row.NsDependent = statistics.Median(t.independent), statistics.Median(t.dependent)
		t.row.SpreadIndependent = spread(t.independent)
		if t.inTable {
			report.InTable = t.row
			continue
		}
		report.Rows = append(report.Rows, t.row)
	}
	for k := range 2 {
		report.LoopNs[k], report.Noise[k], report.Repeats[k] = statistics.Median(loops[k]), statistics.Median(ratios[k]), ratios[k]
		report.Speedups[k] = speedups(all, 4+2*k)
	}
	report.Took = time.Since(start)
	return report, nil
}

// speedups returns by how much the default structure of a family beats the kernel in every round.
func speedups(all []*contender, family int) (out []float64) {
	var kernel, own []float64
	for _, t := range all {
		switch {
		case t.inTable || t.row.Family != family:
		case t.row.Structure == KernelStructure:
			kernel = t.independent
		case t.row.Default:
			own = t.independent
		}
	}
	for i := range min(len(kernel), len(own)) {
		out = append(out, kernel[i]/own[i])
	}
	return out
}

func spread(v []float64) float64 {
	return (statistics.Quantile(v, 0.75) - statistics.Quantile(v, 0.25)) / statistics.Median(v)
}
