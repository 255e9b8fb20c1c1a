// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/fulltable"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/tableimage"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

type structure struct {
	name  string
	build func(lpm.Family, []lpm.Route) (*tableimage.Image, error)
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
				b.agree(t, s, f, routes, reference)
			})
		}
		t.Run(fmt.Sprintf("the kernel's trie IPv%d", f), func(t *testing.T) {
			c, _, err := b.Trie(f, routes)
			b.answersLike(t, c, err, reference)
		})
		t.Run(fmt.Sprintf("the kernel's own table IPv%d", f), func(t *testing.T) {
			for i := range b.Keys { // others are the kernel's to refuse: its answer is not a matter of routes
				b.Keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
			}
			in, err := kernelfib.New()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			install(t, in, routes)
			c, err := b.Kernel(f, in)
			b.answersLike(t, c, err, reference)
		})
	}
}

func install(t testing.TB, in *kernelfib.Namespace, routes []lpm.Route) {
	t.Helper()
	all := make([]rib.Route, len(routes))
	for i, r := range routes {
		all[i] = in.Route(r.Prefix, r.NextHop)
	}
	if err := in.Install(context.Background(), kernel.BulkRoutes, all); err != nil {
		t.Fatal(err)
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

// TestDeepTableInEBPF takes the programs to the last bit of an address, in crowds within crowds and to next hops
// of 32 bits.
func TestDeepTableInEBPF(t *testing.T) {
	b, err := NewBench()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		base := lpm.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}.Address(f)
		var routes []lpm.Route
		for i := range 40_000 {
			around := netip.PrefixFrom(base, i%base.BitLen()).Masked()
			length := min(base.BitLen(), around.Bits()+rng.IntN(20))
			p := netip.PrefixFrom(inside(around, rng).Address(f), length).Masked()
			routes = append(routes, lpm.Route{Prefix: p, NextHop: 1 + rng.Uint32()>>1})
		}
		reference, err := lpm.NewReference(f, routes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Keys {
			b.Keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
		}
		for _, s := range structures {
			t.Run(fmt.Sprintf("%s IPv%d", s.name, f), func(t *testing.T) {
				b.agree(t, s, f, routes, reference)
			})
		}
	}
}

// agree compares the answers of a structure's program about all keys with the reference's.
func (b *Bench) agree(t *testing.T, s structure, f lpm.Family, routes []lpm.Route, reference *lpm.Reference) {
	t.Helper()
	m, err := s.build(f, routes)
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Image(f, m)
	b.answersLike(t, c, err, reference)
}

func (b *Bench) answersLike(t *testing.T, c *Contender, err error, reference *lpm.Reference) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Check(KeyCount); err != nil {
		t.Fatal(err)
	}
	for i, k := range b.Keys {
		if want := reference.Lookup(k); b.Answers[i] != want {
			t.Fatalf("%v: eBPF says %d, the reference %d", k.Address(c.family), b.Answers[i], want)
		}
	}
}

// TestOtherImage gives a contender an image that is not for longest prefix match.
func TestOtherImage(t *testing.T) {
	b, err := NewBench()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m := tableimage.New(tableimage.Bloom)
	if err := m.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Image(lpm.IPv4, m); err == nil {
		t.Error("a Bloom filter was taken")
	}
}
