// SPDX-License-Identifier: Apache-2.0

package data

import (
	"net/netip"
	"slices"
	"testing"

	"minne/internal/algo/lpm"
)

// TestShapeOfRoutes compares generated tables with the real one in what makes lookup structures large: lengths, how
// many are within each other or beside each other, and the nodes of a tree bitmap. The real figures are those of
// the table that internal/fulltable reads.
func TestShapeOfRoutes(t *testing.T) {
	for _, c := range []struct {
		family         lpm.Family
		n, commonest   int
		lengths        float64 // share of the commonest length
		nested, beside float64
		nodes          int
		near           float64 // share by which figures may differ
	}{
		{lpm.IPv4, FullIPv4, 24, 0.596, 0.507, 0.544, 121_346, 0.25},
		{lpm.IPv6, FullIPv6, 48, 0.471, 0.569, 0.503, 86_164, 0.25},
	} {
		routes, err := Routes(c.family, c.n, 1)
		if err != nil {
			t.Fatal(err)
		}
		if short := c.n - len(routes); short < 0 || short > c.n/1000 {
			t.Errorf("IPv%d: %d routes, expected about %d", c.family, len(routes), c.n)
		}
		var around []netip.Prefix
		commonest, nested, beside := 0, 0, 0
		seen := map[netip.Prefix]bool{}
		for i, r := range routes {
			if seen[r.Prefix] || r.Prefix != r.Prefix.Masked() || r.NextHop < 1 || r.NextHop > NextHops {
				t.Fatalf("%v → %d: twice, with host bits or without a next hop", r.Prefix, r.NextHop)
			}
			seen[r.Prefix] = true
			for len(around) > 0 && !around[len(around)-1].Contains(r.Prefix.Addr()) {
				around = around[:len(around)-1]
			}
			if len(around) > 0 {
				nested++
			}
			around = append(around, r.Prefix)
			if r.Prefix.Bits() == c.commonest {
				commonest++
			}
			if i > 0 && routes[i-1].Prefix.Bits() == r.Prefix.Bits() && (network{lpm.KeyOf(routes[i-1].Prefix.Addr()), r.Prefix.Bits()}).shifted(1).Key == lpm.KeyOf(r.Prefix.Addr()) {
				beside++
			}
		}
		m, err := lpm.TreeBitmap(c.family, routes)
		if err != nil {
			t.Fatal(err)
		}
		s := lpm.StatsOf(m)
		for _, v := range []struct {
			what      string
			got, want float64
			near      float64 // share by which they may differ
		}{
			{"share of the commonest length", float64(commonest) / float64(len(routes)), c.lengths, 0.01},
			{"share within another", float64(nested) / float64(len(routes)), c.nested, 0.4},
			{"share beside another", float64(beside) / float64(len(routes)), c.beside, 0.25},
			{"nodes of a tree bitmap", float64(s.Nodes + s.Ends), float64(c.nodes), 0.25},
		} {
			t.Logf("IPv%d: %s: %.4g, the real table has %.4g", c.family, v.what, v.got, v.want)
			if v.got < v.want*(1-v.near) || v.got > v.want*(1+v.near) {
				t.Errorf("IPv%d: %s: %.4g, the real table has %.4g", c.family, v.what, v.got, v.want)
			}
		}
	}
}

func TestRoutesRepeat(t *testing.T) {
	a, err := Routes(lpm.IPv4, 1000, 7)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Routes(lpm.IPv4, 1000, 7)
	other, _ := Routes(lpm.IPv4, 1000, 8)
	if !slices.Equal(a, b) || slices.Equal(a, other) {
		t.Error("the same seed must give the same routes, and another one others")
	}
	for _, n := range []int{0, 5 * FullIPv4} {
		if _, err := Routes(lpm.IPv4, n, 1); err == nil {
			t.Errorf("%d routes were made", n)
		}
	}
}
