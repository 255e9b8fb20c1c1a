// SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"minne/internal/lab/algo/lpm"
)

// TestShapeOfRoutes compares generated tables with the real one in what makes lookup structures large: lengths, how
// many are within each other or beside each other, and the nodes of a tree bitmap. The real figures are those of
// the table that internal/lab/fulltable reads.
func TestShapeOfRoutes(t *testing.T) {
	for _, c := range []struct {
		family         lpm.Family
		n, commonest   int
		lengths        float64 // share of the commonest length
		nested, beside float64
		nodes          int
		depths         [4]float64 // shares that lie within none, one, two and three others
		near           float64    // by how much these may differ
	}{
		{lpm.IPv4, FullIPv4, 24, 0.596, 0.507, 0.544, 121_346, [4]float64{0.493, 0.359, 0.108, 0.029}, 0.05},
		{lpm.IPv6, FullIPv6, 48, 0.471, 0.569, 0.503, 86_164, [4]float64{0.431, 0.377, 0.151, 0.034}, 0.1},
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
		var depths [4]int
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
			if len(around) < len(depths) {
				depths[len(around)]++
			}
			around = append(around, r.Prefix)
			if r.Prefix.Bits() == c.commonest {
				commonest++
			}
			if i > 0 && routes[i-1].Prefix.Bits() == r.Prefix.Bits() && (network{lpm.KeyOf(routes[i-1].Prefix.Addr()), r.Prefix.Bits()}).shifted(1).Key == lpm.KeyOf(r.Prefix.Addr()) {
				beside++
			}
		}
		for depth, n := range depths {
			share := float64(n) / float64(len(routes))
			t.Logf("IPv%d: share within %d others: %.3f, the real table has %.3f", c.family, depth, share, c.depths[depth])
			if math.Abs(share-c.depths[depth]) > c.near {
				t.Errorf("IPv%d: share within %d others: %.3f, the real table has %.3f", c.family, depth, share, c.depths[depth])
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
			{"share within another", float64(nested) / float64(len(routes)), c.nested, 0.05},
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
