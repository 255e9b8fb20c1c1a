// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/testing/nativetest"
)

// crowds makes prefixes in crowds within crowds, of all lengths: each keeps more bits of one address.
func crowds(f Family, n int, rng *rand.Rand) []netip.Prefix {
	most := 32
	if f == IPv6 {
		most = 128
	}
	base := Key{rng.Uint64(), rng.Uint64()}
	var all []netip.Prefix
	for i := range n {
		keep := i % most
		near := netip.PrefixFrom(base.Address(f), keep).Masked()
		a := inside(near, rng).Address(f)
		all = append(all, netip.PrefixFrom(a, min(most, keep+rng.IntN(20))).Masked())
	}
	return all
}

// ladder has the prefix of every length of one address.
func ladder(a netip.Addr) []netip.Prefix {
	var all []netip.Prefix
	for n := range a.BitLen() + 1 {
		all = append(all, netip.PrefixFrom(a, n).Masked())
	}
	return all
}

// TestOddTables compares answers over tables that no router has, under sanitizers.
func TestOddTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	parse := func(list string) (all []netip.Prefix) {
		for _, p := range strings.Fields(list) {
			all = append(all, netip.MustParsePrefix(p))
		}
		return all
	}
	hosts := func() (all []netip.Prefix) { // of one /64
		for i := range 5000 {
			all = append(all, netip.PrefixFrom(Key{0x20010db8 << 32, uint64(i)}.Address(IPv6), 128))
		}
		return all
	}
	every := func(bits int) (all []netip.Prefix) { // prefix of 16 bits and more below 10.1.0.0/16
		for i := range 1 << (bits - 16) {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], 10<<24|1<<16|uint32(i)<<(32-bits))
			all = append(all, netip.PrefixFrom(netip.AddrFrom4(b), bits))
		}
		return all
	}
	for name, prefixes := range map[string][]netip.Prefix{
		"nothing":          nil,
		"default":          parse("0.0.0.0/0"),
		"default of IPv6":  parse("::/0"),
		"short ones":       parse("0.0.0.0/1 128.0.0.0/1 128.0.0.0/2 10.0.0.0/8 10.0.0.0/12 10.16.0.0/12 255.240.0.0/12"),
		"root's length":    parse("10.0.0.0/12 10.0.0.0/13 10.8.0.0/13 10.16.0.0/14"),
		"first and last":   parse("0.0.0.0/32 255.255.255.255/32 255.255.255.254/31"),
		"IPv6's ends":      parse("::/128 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 ::/64 ffff::/16 0:0:0:1::/65"),
		"ladder":           ladder(netip.MustParseAddr("198.51.100.37")),
		"ladder of ones":   ladder(netip.MustParseAddr("255.255.255.255")),
		"ladder of IPv6":   ladder(netip.MustParseAddr("2001:db8:dead:beef:5555:aaaa:1234:5678")),
		"one /16 of hosts": every(32),
		"one /16 of /30s":  append(every(30), parse("0.0.0.0/0 10.1.0.0/16")...),
		"crowds":           crowds(IPv4, 20_000, rng),
		"crowds of IPv6":   crowds(IPv6, 40_000, rng),
		"one /64 of hosts": hosts(),
	} {
		f := IPv4
		if strings.Contains(name, "IPv6") || strings.Contains(name, "/64") {
			f = IPv6
		}
		for _, most := range []uint32{3, 60_000, 1 << 31} { // few next hops, ones of 16 bits, ones of 32
			t.Run(fmt.Sprintf("%s to %d", name, most), func(t *testing.T) {
				routes := withHops(prefixes, most, rng)
				newBed(t, f, routes).agree(somewhere(f, routes, 20_000, rng), nativetest.Checked...)
			})
		}
	}
}

// TestLastOfEqualsCounts also leaves host bits set.
func TestLastOfEqualsCounts(t *testing.T) {
	routes := []Route{
		{netip.MustParsePrefix("192.0.2.0/24"), 1},
		{netip.MustParsePrefix("192.0.2.128/25"), 3},
		{netip.MustParsePrefix("192.0.2.7/24"), 2},
	}
	r, err := NewReference(IPv4, routes)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]uint32{"192.0.2.1": 2, "192.0.2.200": 3, "192.0.3.0": 0} {
		if got := r.Lookup(KeyOf(netip.MustParseAddr(address))); got != want {
			t.Errorf("%s: %d, expected %d", address, got, want)
		}
	}
	newBed(t, IPv4, routes).agree(somewhere(IPv4, routes, 1000, rand.New(rand.NewPCG(1, 1))), nativetest.Checked...)
}

func TestRefused(t *testing.T) {
	good := Route{netip.MustParsePrefix("192.0.2.0/24"), 1}
	for want, routes := range map[string][]Route{
		"route 2: 2001:db8::/32 is not an IPv4 prefix": {good, {netip.MustParsePrefix("2001:db8::/32"), 1}},
		"route 2: its prefix is not valid":             {good, {netip.Prefix{}, 1}},
		"route 1: 10.0.0.0/8 has next hop 0":           {{netip.MustParsePrefix("10.0.0.0/8"), 0}},
	} {
		for _, s := range structures {
			if _, err := s.build(IPv4, routes); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, expected %q", s.name, err, want)
			}
		}
	}
	for _, s := range structures {
		if _, err := s.build(5, []Route{good}); err == nil || !strings.Contains(err.Error(), "family 5") {
			t.Errorf("%s: %v", s.name, err)
		}
		if _, err := s.build(5, nil); err == nil {
			t.Errorf("%s: a table of family 5 was made", s.name)
		}
	}
}

// TestCorruptImages changes random words of images, again and again, and cuts images short: a lookup ends and the
// sanitizer sees no access outside. The answers mean nothing.
func TestCorruptImages(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, f := range []Family{IPv4, IPv6} {
		routes := withHops(crowds(f, 3000, rng), 1<<20, rng)
		b := newBed(t, f, routes)
		keys := somewhere(f, routes, 2000, rng)
		for name, m := range b.images {
			how := fmt.Sprintf("%s%d", name, f)
			search(t, searcher(t, nativetest.Checked...), how, m.Words, keys, "300")
			for size := 1; size < len(m.Words); size *= 4 {
				search(t, searcher(t, nativetest.Checked...), how, m.Words[:size], keys, "3")
			}
		}
	}
}
