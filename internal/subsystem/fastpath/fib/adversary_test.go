// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func addr6(hi, lo uint64) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b)
}

func addr4(a uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], a)
	return netip.AddrFrom4(b)
}

const doc6 = 0x20010db800000000 // 2001:db8::

// adversaries are tables that no Internet has: they may be slow, never wrong.
var adversaries = map[string]func(rng *rand.Rand, i int) netip.Prefix{
	"IPv4 hosts side by side": func(_ *rand.Rand, i int) netip.Prefix {
		return netip.PrefixFrom(addr4(0xcb007100+uint32(i)), 32)
	},
	"IPv4 random hosts of one /16": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr4(0x0a010000|rng.Uint32()&0xffff), 32)
	},
	"IPv4 random": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr4(rng.Uint32()), rng.IntN(33)).Masked()
	},
	"IPv6 everything in one /16": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr6(doc6&^0xffffffffffff|rng.Uint64()>>16, 0), 17+rng.IntN(48)).Masked()
	},
	"IPv6 hosts of one /64": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr6(doc6, rng.Uint64()), 65+rng.IntN(64)).Masked()
	},
	"IPv6 hosts side by side": func(_ *rand.Rand, i int) netip.Prefix {
		return netip.PrefixFrom(addr6(doc6, uint64(i)), 128)
	},
	"IPv6 random hosts": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr6(rng.Uint64(), rng.Uint64()), 128)
	},
	"IPv6 random": func(rng *rand.Rand, _ int) netip.Prefix {
		return netip.PrefixFrom(addr6(rng.Uint64(), rng.Uint64()), rng.IntN(129)).Masked()
	},
	"IPv6 crowds within crowds": func(rng *rand.Rand, i int) netip.Prefix {
		// Half of the prefixes share 8 more bits than the half before them, 12 times over.
		keep := 16 + 8*(rng.IntN(12))
		a := addr6(doc6, 0x123456789abcdef).As16()
		for b := keep; b < 128; b++ {
			if rng.Uint32()&1 != 0 {
				a[b/8] ^= 1 << (7 - b%8)
			}
		}
		return netip.PrefixFrom(netip.AddrFrom16(a), min(128, keep+rng.IntN(20))).Masked()
	},
}

// TestAdversaries grows and shrinks such tables by small edits, past every size of leaf and stage.
func TestAdversaries(t *testing.T) {
	for name, next := range adversaries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(11, uint64(len(name))))
			var f anyTable = open6(t, Full, Options{})
			if name[3] == '4' {
				f = open4(t, Default, Full, Options{})
			}
			s := &second{}
			var prefixes []netip.Prefix
			for i := range 12_000 {
				p := next(rng, i)
				hop := uint16(1 + rng.IntN(50))
				if err := f.Set(p, hop); err != nil {
					t.Fatal(err)
				}
				s.Insert(p, hop)
				prefixes = append(prefixes, p)
				if i%997 == 0 {
					agree(t, f, s, prefixes, rng, 300)
				}
			}
			agree(t, f, s, prefixes, rng, 20_000)
			rng.Shuffle(len(prefixes), func(i, j int) { prefixes[i], prefixes[j] = prefixes[j], prefixes[i] })
			for i, p := range prefixes {
				f.Delete(p)
				s.Delete(p)
				if i%1499 == 0 {
					agree(t, f, s, prefixes, rng, 300)
				}
			}
			agree(t, f, s, prefixes, rng, 1000)
			if got := f.Stats(); got.Leaves != 0 || got.Stages != 0 || got.Routes != 0 || got.FreeBytes != got.LargestFree {
				t.Fatalf("empty again, but %+v", got)
			}
		})
	}
}

func agree(t *testing.T, f anyTable, s *second, prefixes []netip.Prefix, rng *rand.Rand, n int) {
	t.Helper()
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	for range n {
		a := somewhere(rng, prefixes)
		if got, want := f.Lookup(a), s.answer(a); got != want {
			t.Fatalf("%d routes: %v: image says %d, bart %d", s.Size(), a, got, want)
		}
	}
}

// TestStageLimit grows a crowd where the stages have been used up by crowds around it, so that
// only a build from the top can hold it.
func TestStageLimit(t *testing.T) {
	t.Parallel()
	f, s := withLeaves(open6(t, Full, Options{}), 2), &second{}
	rng := rand.New(rand.NewPCG(5, 5))
	var prefixes []netip.Prefix
	add := func(p netip.Prefix) {
		hop := uint16(1 + len(prefixes)%60)
		if err := f.Set(p, hop); err != nil {
			t.Fatal(err)
		}
		s.Insert(p, hop)
		prefixes = append(prefixes, p)
	}
	for bits := 18; bits <= 64; bits++ { // a staircase: every stage has few routes
		for k := range uint64(3) {
			add(netip.PrefixFrom(addr6(doc6|k<<(64-bits), 0), bits).Masked())
		}
		agree(t, f, s, prefixes, rng, 200)
	}
	for i := range uint64(5000) { // the crowd at its foot
		add(netip.PrefixFrom(addr6(doc6|i, 0), 64))
		if i%500 == 0 {
			agree(t, f, s, prefixes, rng, 500)
		}
	}
	agree(t, f, s, prefixes, rng, 20_000)
}

// TestFull fills an image until nothing fits: what was not built answers 0, everything else is
// right, and the table recovers when routes go.
func TestFull(t *testing.T) {
	t.Parallel()
	f, s := open4(t, Range16, Small, Options{}), &second{}
	rng := rand.New(rand.NewPCG(6, 6))
	var prefixes []netip.Prefix
	var full error
	for full == nil && len(prefixes) < 1_000_000 {
		for range 1000 {
			p := netip.PrefixFrom(addr4(rng.Uint32()), 20+rng.IntN(13)).Masked()
			hop := uint16(1 + rng.IntN(300))
			if err := f.Set(p, hop); err != nil {
				t.Fatal(err)
			}
			s.Insert(p, hop)
			prefixes = append(prefixes, p)
		}
		full = f.Publish()
	}
	if !errors.Is(full, ErrFull) {
		t.Fatalf("%d routes in a small image: %v", len(prefixes), full)
	}
	zeros := 0
	for range 200_000 {
		a := somewhere(rng, prefixes)
		switch got, want := f.Lookup(a), s.answer(a); {
		case got == 0 && want != 0:
			zeros++
		case got != want:
			t.Fatalf("%v: image says %d, bart %d", a, got, want)
		}
	}
	if zeros == 0 {
		t.Fatal("full, but every answer is there")
	}
	for _, p := range prefixes[:len(prefixes)/2] {
		f.Delete(p)
		s.Delete(p)
	}
	agree(t, f, s, prefixes, rng, 100_000)
}

// TestDefaultRoute changes the default route under a table: no block is built anew.
func TestDefaultRoute(t *testing.T) {
	t.Parallel()
	everything := map[string]netip.Prefix{"IPv4": netip.MustParsePrefix("0.0.0.0/0"), "IPv6": netip.MustParsePrefix("::/0")}
	for name, f := range map[string]anyTable{
		"IPv4":          open4(t, Range18, Small, Options{}),
		"IPv6":          open6(t, Small, Options{}),
		"IPv4 direct24": open4(t, Direct24, Full, Options{}),
	} {
		all := everything[name[:4]]
		p, inside, outside := netip.MustParsePrefix("198.51.100.0/25"), netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("198.51.100.200")
		if name == "IPv6" {
			p, inside, outside = netip.MustParsePrefix("2001:db8::/33"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:8000::1")
		}
		check := func(when string, in, out uint16) {
			t.Helper()
			if err := f.Publish(); err != nil {
				t.Fatal(err)
			}
			if gotIn, gotOut := f.Lookup(inside), f.Lookup(outside); gotIn != in || gotOut != out {
				t.Fatalf("%s, %s: inside %d, outside %d; expected %d and %d", name, when, gotIn, gotOut, in, out)
			}
		}
		apply(t, f, p, 7, false)
		check("no default", 7, 0)
		apply(t, f, all, 3, false)
		check("default", 7, 3)
		apply(t, f, all, 4, false)
		check("default changed", 7, 4)
		apply(t, f, p, 0, false)
		check("route gone", 4, 4)
		apply(t, f, p, 7, false)
		apply(t, f, all, 9, true)
		check("local default wins", 9, 9)
		apply(t, f, all, 0, true)
		apply(t, f, all, 0, false)
		check("default gone", 7, 0)
	}
}

// TestRefusals: what is no route of the family is refused and changes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f4, f6, f24 := open4(t, Range18, Small, Options{}), open6(t, Small, Options{}), open4(t, Direct24, Full, Options{})
	p4, p6 := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")
	for name, err := range map[string]error{
		"IPv6 prefix in IPv4": f4.Set(p6, 1),
		"IPv4 prefix in IPv6": f6.Set(p4, 1),
		"next hop 0":          f4.Set(p4, 0),
		"no prefix":           f6.SetLocal(netip.Prefix{}, 1),
		"direct24, next hop":  f24.Set(p4, 0x7fff),
		"replace":             f4.Replace(func(yield func(Route) bool) { yield(Route{Prefix: p6, NextHop: 1}) }),
	} {
		if err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if _, err := NewTable4(make([]byte, 64), Layout4(Range18, Full), Options{}); err == nil {
		t.Error("a region too small was not refused")
	}
	if f4.Stats().Routes+f6.Stats().Routes+f24.Stats().Routes != 0 {
		t.Error("a refused route counts")
	}
}

// TestReplaceLive replaces the routes of a table in use by others and by fewer.
func TestReplaceLive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, family := range []string{"IPv4", "IPv6"} {
		var f anyTable = open6(t, Full, Options{Grace: func() {}})
		next := adversaries["IPv6 crowds within crowds"]
		if family == "IPv4" {
			f, next = open4(t, Default, Full, Options{Grace: func() {}}), adversaries["IPv4 random"]
		}
		for _, n := range []int{1, 5000, 100, 20_000, 0, 3} {
			s := &second{}
			var prefixes []netip.Prefix
			for i := range n {
				prefixes = append(prefixes, next(rng, i))
			}
			fillFull(t, replacer{f}, s, prefixes, rng)
			if n == 0 {
				prefixes = []netip.Prefix{next(rng, 0)}
			}
			agree(t, f, s, prefixes, rng, 10_000)
			if got := f.Stats().Routes; got != s.Size() {
				t.Fatalf("%s: %d routes counted, bart has %d", family, got, s.Size())
			}
		}
	}
}
