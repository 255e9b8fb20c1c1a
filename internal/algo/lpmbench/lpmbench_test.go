// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"minne/internal/algo/image"
	"minne/internal/algo/lpm"
	"minne/internal/fastpath/fib"
	"minne/internal/fulltable"
	"minne/internal/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

type structure struct {
	name  string
	build func(lpm.Family, []lpm.Route) (*image.Image, error)
}

var structures = []structure{
	{"tree bitmap", lpm.TreeBitmap},
	{"shape-shifting", lpm.ShapeShifting},
}

func fullTable(t testing.TB, f lpm.Family) []lpm.Route {
	t.Helper()
	v4, v6, err := fulltable.Load()
	if err != nil {
		t.Fatal(err)
	}
	prefixes := v4
	if f == lpm.IPv6 {
		prefixes = v6
	}
	rng := rand.New(rand.NewPCG(20, 1))
	routes := make([]lpm.Route, len(prefixes))
	for i, p := range prefixes {
		routes[i] = lpm.Route{Prefix: p, NextHop: uint32(1 + rng.IntN(64))}
	}
	return routes
}

// TestFullTableInEBPF compares the programs' answers over the full table with the reference's.
func TestFullTableInEBPF(t *testing.T) {
	b, err := NewBench()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		routes := fullTable(t, f)
		reference, err := lpm.NewReference(f, routes)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(2, uint64(f)))
		for i := range b.Keys {
			p := routes[rng.IntN(len(routes))].Prefix
			b.Keys[i] = inside(p, rng)
			if i%3 == 0 {
				b.Keys[i] = lpm.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			if i%3 == 1 {
				b.Keys[i] = lpm.KeyOf(p.Addr())
			}
		}
		for _, s := range structures {
			t.Run(fmt.Sprintf("%s IPv%d", s.name, f), func(t *testing.T) {
				m, err := s.build(f, routes)
				if err != nil {
					t.Fatal(err)
				}
				c, err := b.Image(f, m)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.Check(KeyCount); err != nil {
					t.Fatal(err)
				}
				for i, k := range b.Keys {
					if want := reference.Lookup(k); b.Answers[i] != want {
						t.Fatalf("%v: eBPF says %d, the reference %d", k.Address(f), b.Answers[i], want)
					}
				}
			})
		}
	}
}

// inside is a random address of a prefix.
func inside(p netip.Prefix, rng *rand.Rand) lpm.Key {
	k := lpm.KeyOf(p.Addr())
	switch n := p.Bits(); {
	case p.Addr().Is4():
		k.Hi |= rng.Uint64() >> n &^ (1<<32 - 1)
	case n <= 64:
		k.Hi |= rng.Uint64() >> n // a shift by 64 gives 0
		k.Lo = rng.Uint64()
	default:
		k.Lo |= rng.Uint64() >> (n - 64)
	}
	return k
}

// public is a random IPv4 address that packets on the Internet may have.
func public(rng *rand.Rand) lpm.Key {
	for {
		k := lpm.Key{Hi: uint64(rng.Uint32()) << 32}
		if a := k.Address(lpm.IPv4); a.IsGlobalUnicast() && !a.IsPrivate() && a.As4()[0] < 224 && a.As4()[0] != 0 {
			return k
		}
	}
}

// BenchmarkRounds shows ns per lookup of all structures, in turns, and how they compare with the router's own.
func BenchmarkRounds(b *testing.B) {
	bench, err := NewBench()
	if err != nil {
		b.Fatal(err)
	}
	defer bench.Close()
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		routes := fullTable(b, f)
		rng := rand.New(rand.NewPCG(3, 3))
		for i := range bench.Keys {
			if f == lpm.IPv4 {
				bench.Keys[i] = public(rng)
			} else {
				bench.Keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
			}
		}
		own, used, err := bench.FIB(f, fib.Default, routes)
		if err != nil {
			b.Fatal(err)
		}
		all := []*round{{name: "router", c: own, used: used}}
		for _, s := range structures {
			m, err := s.build(f, routes)
			if err != nil {
				b.Fatal(err)
			}
			c, err := bench.Image(f, m)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, &round{name: s.name, c: c, used: 4 * int(m.Words[4])})
		}
		for range 9 {
			for _, r := range all {
				r.measure(b)
			}
		}
		for _, r := range all {
			var ratios [2][]float64
			for d := range ratios {
				for i := range r.ns[d] {
					ratios[d] = append(ratios[d], r.ns[d][i]/all[0].ns[d][i])
				}
			}
			b.Logf("IPv%d %-15s %8d bytes  independent %6.1f ns (%.2f)  dependent %6.1f ns (%.2f)",
				f, r.name, r.used, median(r.ns[0]), median(ratios[0]), median(r.ns[1]), median(ratios[1]))
			r.c.Close()
		}
	}
}

type round struct {
	name string
	c    *Contender
	used int
	ns   [2][]float64
}

func (r *round) measure(b *testing.B) {
	for d, dependent := range []bool{false, true} {
		// The caches still hold the predecessor's table.
		if _, err := r.c.Time(0, 1<<17, dependent); err != nil {
			b.Fatal(err)
		}
		ns, err := r.c.Time(1<<18, 1<<18, dependent)
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
