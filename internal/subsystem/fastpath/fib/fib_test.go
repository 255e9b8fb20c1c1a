// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"
)

// region is memory as an eBPF array would give it.
func region(l Layout) []byte {
	words := make([]uint64, l.ImageBytes()/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), l.ImageBytes())
}

// anyTable is what Table4 and Table6 have in common.
type anyTable interface {
	Set(netip.Prefix, uint16) error
	SetLocal(netip.Prefix, uint16) error
	Delete(netip.Prefix) bool
	DeleteLocal(netip.Prefix) bool
	Publish() error
	Lookup(netip.Addr) uint16
	LookupRoutes(netip.Addr) uint16
	Reclaim()
	Stats() Stats
}

func open4(t testing.TB, s Structure, c Capacity, o Options) *Table4 {
	t.Helper()
	l := Layout4(s, c)
	f, err := NewTable4(region(l), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func open6(t testing.TB, c Capacity, o Options) *Table6 {
	t.Helper()
	l := Layout6(c)
	f, err := NewTable6(region(l), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// withLeaves makes leaves turn into stages at another size than they do in earnest.
func withLeaves(f anyTable, leafMax int) anyTable {
	switch f := f.(type) {
	case *Table4:
		f.t.leafMax = leafMax
	case *Table6:
		f.t.leafMax = leafMax
	}
	return f
}

// naive is a longest-prefix match with nothing to get wrong.
type naive map[string]struct {
	p     netip.Prefix
	hop   uint16
	local bool
}

func (n naive) put(p netip.Prefix, hop uint16, local bool) {
	k := fmt.Sprint(p, local)
	if hop == 0 {
		delete(n, k)
		return
	}
	n[k] = struct {
		p     netip.Prefix
		hop   uint16
		local bool
	}{p, hop, local}
}

func (n naive) lookup(a netip.Addr) uint16 {
	var best uint16
	rank := -1
	for _, r := range n {
		k := r.p.Bits()
		if r.local {
			k += 1000
		}
		if k > rank && r.p.Contains(a) {
			best, rank = r.hop, k
		}
	}
	return best
}

// last is the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// edges are the addresses where answers change around a prefix.
func edges(p netip.Prefix) []netip.Addr {
	first, end := p.Masked().Addr(), last(p)
	all := []netip.Addr{first, end}
	if a := first.Prev(); a.IsValid() {
		all = append(all, a)
	}
	if a := end.Next(); a.IsValid() {
		all = append(all, a)
	}
	return all
}

// crowd makes prefixes that nest and touch: few distinct bits in few places.
type crowd struct {
	rng  *rand.Rand
	base netip.Addr
	from int // bits below which the base is kept
}

func (c crowd) prefix() netip.Prefix {
	b := c.base.AsSlice()
	n := len(b) * 8
	for i := c.from; i < n; i++ {
		if c.rng.IntN(4) == 0 {
			b[i/8] ^= 1 << (7 - i%8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	length := c.rng.IntN(n + 1)
	if c.rng.IntN(4) > 0 {
		length = c.from + c.rng.IntN(n-c.from+1)
	}
	return netip.PrefixFrom(a, length).Masked()
}

// TestSmallTables compares random edits of small, crowded tables with the naive match.
func TestSmallTables(t *testing.T) {
	tables := map[string]func(Options) anyTable{
		"range16":  func(o Options) anyTable { return open4(t, Range16, Small, o) },
		"range18":  func(o Options) anyTable { return open4(t, Range18, Small, o) },
		"range20":  func(o Options) anyTable { return open4(t, Range20, Full, o) },
		"direct24": func(o Options) anyTable { return open4(t, Direct24, Full, o) },
		"staged16": func(o Options) anyTable { return open6(t, Small, o) },
	}
	for name, open := range tables {
		for _, leafMax := range []int{1, 3, 16, 64} {
			t.Run(fmt.Sprint(name, "/leaf", leafMax), func(t *testing.T) {
				t.Parallel()
				seeds := uint64(24)
				if name == "range20" || name == "direct24" {
					seeds = 3 // their images are large
				}
				for seed := range seeds {
					compareSmall(t, withLeaves(open(Options{}), leafMax), name, seed)
				}
			})
		}
	}
}

func compareSmall(t *testing.T, f anyTable, name string, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	base := netip.MustParseAddr("203.0.113.9")
	if name == "staged16" {
		base = netip.MustParseAddr("2001:db8:1:2:3:4:5:6")
	}
	c := crowd{rng: rng, base: base, from: rng.IntN(base.BitLen())}
	n := naive{}
	var pool []netip.Prefix
	for range 1 + rng.IntN(120) {
		pool = append(pool, c.prefix())
	}
	for round := range 12 {
		for range 1 + rng.IntN(40) {
			p := pool[rng.IntN(len(pool))]
			hop, local := uint16(rng.IntN(6)), rng.IntN(5) == 0
			n.put(p, hop, local)
			apply(t, f, p, hop, local)
		}
		if err := f.Publish(); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			for _, a := range append(edges(pool[rng.IntN(len(pool))]), c.prefix().Addr()) {
				want := n.lookup(a)
				if got := f.Lookup(a); got != want {
					t.Fatalf("seed %d round %d: %v: image says %d, naive match %d", seed, round, a, got, want)
				}
				if got := f.LookupRoutes(a); got != want {
					t.Fatalf("seed %d round %d: %v: routes say %d, naive match %d", seed, round, a, got, want)
				}
			}
		}
		if got := f.Stats().Routes; got != len(n) {
			t.Fatalf("seed %d round %d: %d routes counted, %d set", seed, round, got, len(n))
		}
	}
	empty := f.Stats().FreeBytes
	for _, r := range n {
		apply(t, f, r.p, 0, r.local)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	if s := f.Stats(); s.Leaves != 0 || s.Stages != 0 || s.Routes != 0 || s.FreeBytes < empty || s.FreeBytes != s.LargestFree {
		t.Fatalf("seed %d: empty table left %+v", seed, s)
	}
}

func apply(t *testing.T, f anyTable, p netip.Prefix, hop uint16, local bool) {
	t.Helper()
	switch {
	case hop == 0 && local:
		f.DeleteLocal(p)
	case hop == 0:
		f.Delete(p)
	case local:
		if err := f.SetLocal(p, hop); err != nil {
			t.Fatal(err)
		}
	default:
		if err := f.Set(p, hop); err != nil {
			t.Fatal(err)
		}
	}
}
