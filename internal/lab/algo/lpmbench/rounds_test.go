// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/fib"
)

// public is a random IPv4 address that packets on the Internet may have.
func public(rng *rand.Rand) lpm.Key {
	for {
		k := lpm.Key{Hi: uint64(rng.Uint32()) << 32}
		if a := k.Address(lpm.IPv4); a.IsGlobalUnicast() && !a.IsPrivate() && a.As4()[0] < 224 && a.As4()[0] != 0 {
			return k
		}
	}
}

// round is one contender in BenchmarkRounds.
type round struct {
	name  string
	c     *Contender
	used  int
	count uint32
	ns    [2][]float64 // independent, dependent
}

// BenchmarkRounds shows ns per lookup of all structures on the full tables, in turns, beside the kernel's own lookup and
// the router's own tables: docs/design/lpm.md has the figures. Destinations are random public IPv4 addresses, and IPv6
// addresses inside the table's prefixes.
func BenchmarkRounds(b *testing.B) {
	bench, err := NewBench()
	if err != nil {
		b.Fatal(err)
	}
	defer bench.Close()
	kernelsOwn, err := kernelfib.New()
	if err != nil {
		b.Fatal(err)
	}
	defer kernelsOwn.Close()
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		b.Run(fmt.Sprintf("IPv%d", f), func(b *testing.B) { rounds(b, bench, f, kernelsOwn) })
	}
}

func rounds(b *testing.B, bench *Bench, f lpm.Family, in *kernelfib.Namespace) {
	routes := fullTable(b, f)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range bench.Keys {
		bench.Keys[i] = public(rng)
		if f == lpm.IPv6 {
			bench.Keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
		}
	}
	all := contenders(b, bench, f, routes, in)
	for range 9 {
		for _, r := range all {
			r.measure(b)
		}
	}
	for _, r := range all {
		var of [2][]float64 // the kernel's time ÷ this one's, in each round
		for d := range of {
			for i, ns := range r.ns[d] {
				of[d] = append(of[d], all[0].ns[d][i]/ns)
			}
		}
		b.Logf("%-15s %8d bytes  independent %6.1f ns (kernel %4.1f x)  dependent %6.1f ns (kernel %4.1f x)",
			r.name, r.used, median(r.ns[0]), median(of[0]), median(r.ns[1]), median(of[1]))
		r.c.Close()
	}
}

// contenders are the kernel, the router's own structures and those of this package, with the same routes.
func contenders(b *testing.B, bench *Bench, f lpm.Family, routes []lpm.Route, in *kernelfib.Namespace) []*round {
	var all []*round
	add := func(name string, c *Contender, used int, err error) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, &round{name: name, c: c, used: used, count: 1 << 18})
	}
	install(b, in, routes)
	c, err := bench.Kernel(f, in)
	add("kernel", c, 0, err)
	all[0].count = 1 << 16
	c, used, err := bench.Trie(f, routes)
	add("trie map", c, used, err)
	all[1].count = 1 << 16
	c, err = bench.Loop(f)
	add("only the loop", c, 0, err)
	own := fib.Structures
	if f == lpm.IPv6 {
		own = own[:1]
	}
	for _, s := range own {
		name := s.String()
		if f == lpm.IPv6 {
			name = fib.IPv6Structure
		}
		c, used, err := bench.FIB(f, s, routes)
		add(name, c, used, err)
	}
	for _, s := range structures {
		m, err := s.build(f, routes)
		if err != nil {
			b.Fatal(err)
		}
		c, err := bench.Image(f, m)
		add(s.name, c, lpm.StatsOf(m).UsedBytes, err)
	}
	return all
}

func (r *round) measure(b *testing.B) {
	for d, dependent := range []bool{false, true} {
		// The caches still hold the predecessor's table.
		if _, err := r.c.Time(0, r.count, dependent); err != nil {
			b.Fatal(err)
		}
		ns, err := r.c.Time(KeyCount/2, r.count, dependent)
		if err != nil {
			b.Fatal(err)
		}
		r.ns[d] = append(r.ns[d], ns)
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
