// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"minne/internal/model/rib"
)

// What a frame's fate should be is written down in test/fixtures; here are the
// parts that a verdict is made of.

func TestConnected(t *testing.T) {
	for _, tt := range []struct {
		address string
		expect  []string // type, table and prefix
	}{
		{"192.0.2.1/24", []string{"2/255 192.0.2.1/32", "1/254 192.0.2.0/24", "3/255 192.0.2.255/32"}},
		{"192.0.2.5/30", []string{"2/255 192.0.2.5/32", "1/254 192.0.2.4/30", "3/255 192.0.2.7/32"}},
		{"192.0.2.0/31", []string{"2/255 192.0.2.0/32", "1/254 192.0.2.0/31"}},
		{"192.0.2.1/32", []string{"2/255 192.0.2.1/32"}},
		{"2001:db8::1/64", []string{"2/255 2001:db8::1/128", "1/254 2001:db8::/64", "4/255 2001:db8::/128"}},
		{"2001:db8::1/127", []string{"2/255 2001:db8::1/128", "1/254 2001:db8::/127"}},
		{"2001:db8::1/128", []string{"2/255 2001:db8::1/128"}},
	} {
		always := len(Connected(nil))
		var got []string
		for _, r := range Connected([]Port{{Index: 7, Addresses: []netip.Prefix{netip.MustParsePrefix(tt.address)}}})[always:] {
			got = append(got, fmt.Sprintf("%d/%d %v", r.Type, r.Table, r.Prefix))
		}
		if !slices.Equal(got, tt.expect) {
			t.Errorf("%s: %v, expected %v", tt.address, got, tt.expect)
		}
	}
}

// TestLongestPrefix compares lookups with a search of all routes.
func TestLongestPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr { // few bits vary, so that prefixes nest
		return netip.AddrFrom4([4]byte{10, byte(rng.IntN(4)), byte(rng.IntN(4)) << 6, byte(rng.IntN(256))})
	}
	var all []rib.Route
	var l lengths
	for range 300 {
		prefix, _ := address().Prefix(rng.IntN(33))
		route := rib.Route{Prefix: prefix, Metric: uint32(rng.IntN(5)), Type: rib.Unicast}
		all = append(all, route)
		l.add(route)
	}
	for range 20_000 {
		a := address()
		best, found := rib.Route{}, false
		for _, r := range all {
			if !r.Prefix.Contains(a) {
				continue
			}
			if !found || r.Prefix.Bits() > best.Prefix.Bits() || r.Prefix.Bits() == best.Prefix.Bits() && r.Metric < best.Metric {
				best, found = r, true
			}
		}
		got, ok := l.lookup(a)
		if ok != found || got.Prefix != best.Prefix || got.Metric != best.Metric {
			t.Fatalf("%v: %v metric %d (%v), expected %v metric %d (%v)", a, got.Prefix, got.Metric, ok, best.Prefix, best.Metric, found)
		}
	}
}
