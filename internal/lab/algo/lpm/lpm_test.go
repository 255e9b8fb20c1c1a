// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/fastpath/tableimage"
)

// structure is one of those that this package compiles.
type structure struct {
	name  string // of the C program's lookups, without the family
	build func(Family, []Route) (*tableimage.Image, error)
}

var structures = []structure{
	{"tbm", TreeBitmap},
	{"sst", ShapeShifting},
}

// free are the bits of an address that a prefix leaves open.
func free(p netip.Prefix) Key {
	open := Key{^uint64(0), ^uint64(0)}
	if p.Addr().Is4() {
		open = Key{Hi: 0xffffffff << 32}
	}
	if n := p.Bits(); n > 64 {
		return Key{Lo: open.Lo & (^uint64(0) >> (n - 64))}
	}
	open.Hi &= ^uint64(0) >> p.Bits()
	return open
}

// inside is a random address of a prefix.
func inside(p netip.Prefix, rng *rand.Rand) Key {
	k, open := KeyOf(p.Addr()), free(p)
	return Key{k.Hi | rng.Uint64()&open.Hi, k.Lo | rng.Uint64()&open.Lo}
}

// somewhere makes keys: random ones, and ones inside prefixes, at their edges and just outside.
func somewhere(f Family, routes []Route, n int, rng *rand.Rand) []Key {
	keys := make([]Key, n)
	for i := range keys {
		p := netip.PrefixFrom(Key{}.Address(f), 0)
		if len(routes) > 0 && i%5 != 0 {
			p = routes[rng.IntN(len(routes))].Prefix
		}
		first, open := KeyOf(p.Masked().Addr()), free(p)
		switch i % 5 {
		case 0, 1:
			keys[i] = inside(p.Masked(), rng)
		case 2:
			keys[i] = first
		case 3:
			keys[i] = Key{first.Hi | open.Hi, first.Lo | open.Lo}
		case 4:
			keys[i], _ = entry{Key: first, bits: int32(p.Bits())}.behind()
		}
	}
	return keys
}

// withHops gives prefixes random next hops 1…most.
func withHops(prefixes []netip.Prefix, most uint32, rng *rand.Rand) []Route {
	routes := make([]Route, len(prefixes))
	for i, p := range prefixes {
		routes[i] = Route{p, 1 + rng.Uint32N(most)}
	}
	return routes
}

var internet = sync.OnceValues(func() (map[Family][]netip.Prefix, error) {
	v4, v6, err := fulltable.Load()
	return map[Family][]netip.Prefix{IPv4: v4, IPv6: v6}, err
})

// bed is a table in all its forms, to compare.
type bed struct {
	*testing.T
	f         Family
	routes    []Route
	judge     *bart.Fast[uint32]
	reference *Reference
	images    map[string]*tableimage.Image // by structure
}

func newBed(t *testing.T, f Family, routes []Route) *bed {
	t.Helper()
	b := &bed{T: t, f: f, routes: routes, judge: new(bart.Fast[uint32]), images: map[string]*tableimage.Image{}}
	for _, r := range routes {
		b.judge.Insert(r.Prefix, r.NextHop)
	}
	var err error
	if b.reference, err = NewReference(f, routes); err != nil {
		t.Fatal(err)
	}
	for _, s := range structures {
		if b.images[s.name], err = s.build(f, routes); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// agree compares the answers of the C program, compiled with these flags, and of the reference with bart's.
// It returns the nodes that a lookup looks at, by structure.
func (b *bed) agree(keys []Key, flags ...string) map[string]float64 {
	b.Helper()
	want := make([]uint32, len(keys))
	for i, k := range keys {
		want[i], _ = b.judge.Lookup(k.Address(b.f))
		if got := b.reference.Lookup(k); got != want[i] {
			b.Fatalf("%v: the reference says %d, bart %d", k.Address(b.f), got, want[i])
		}
	}
	visits := map[string]float64{}
	for name, m := range b.images {
		answers, v, _ := search(b.T, searcher(b.T, flags...), fmt.Sprintf("%s%d", name, b.f), m.Words, keys)
		visits[name] = v
		for i, k := range keys {
			if answers[i] != want[i] {
				b.Fatalf("%v: %s says %d, bart %d", k.Address(b.f), name, answers[i], want[i])
			}
		}
	}
	return visits
}

// used is the memory of a structure's image that means something, in bytes.
func (b *bed) used(name string) int { return StatsOf(b.images[name]).UsedBytes }

// million is how many keys are compared at a time.
const million = 1_000_000

// TestFullTable compares a million answers of each structure and family with another implementation's, ten
// million when MINNE_TEST_LONG is set.
func TestFullTable(t *testing.T) {
	batches := 1
	if os.Getenv("MINNE_TEST_LONG") != "" {
		batches = 10
	}
	tables, err := internet()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Family{IPv4, IPv6} {
		t.Run(fmt.Sprintf("IPv%d", f), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(f)))
			b := newBed(t, f, withHops(tables[f], 64, rng))
			for range batches {
				b.agree(somewhere(f, b.routes, million, rng), "-O2")
			}
		})
	}
}

// TestBars holds the structures to what docs/design/lpm.md promises of the full tables.
func TestBars(t *testing.T) {
	tables, err := internet()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(20, 1))
	b4 := newBed(t, IPv4, withHops(tables[IPv4], 64, rng))
	b6 := newBed(t, IPv6, withHops(tables[IPv6], 64, rng))
	if used := b4.used("tbm"); used > 4_000_000 {
		t.Errorf("tree bitmap, IPv4: %d bytes, expected at most 4 MB", used)
	}
	keys := make([]Key, 100_000)
	for i := range keys {
		keys[i] = inside(b6.routes[rng.IntN(len(b6.routes))].Prefix, rng)
	}
	visits := b6.agree(keys, "-O2")
	t.Logf("IPv6, inside the table's prefixes: nodes for a lookup: %v", visits)
	for name, m := range b6.images {
		t.Logf("IPv6 %s: %+v", name, StatsOf(m))
	}
	for name, m := range b4.images {
		t.Logf("IPv4 %s: %+v", name, StatsOf(m))
	}
	if visits["sst"] > 7 {
		t.Errorf("shape-shifting trie, IPv6: %.2f nodes for a lookup, expected at most 7", visits["sst"])
	}
	if b6.used("sst") >= b6.used("tbm") {
		t.Errorf("shape-shifting trie, IPv6: %d bytes, expected fewer than tree bitmap's %d", b6.used("sst"), b6.used("tbm"))
	}
}

func BenchmarkBuild(b *testing.B) {
	tables, err := internet()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range structures {
		for _, f := range []Family{IPv4, IPv6} {
			routes := withHops(tables[f], 64, rand.New(rand.NewPCG(1, 1)))
			b.Run(fmt.Sprintf("%s%d", s.name, f), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.build(f, routes); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
