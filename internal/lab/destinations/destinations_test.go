// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/base/ipnet"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestCoveredDrawsUniformly counts the draws of every address of a table with overlaps.
func TestCoveredDrawsUniformly(t *testing.T) {
	table := ipnet.Must("192.0.2.0/30", "192.0.2.0/31", "198.51.100.8/32", "192.0.2.4/31", "2001:db8::/32", "224.0.0.0/4")
	draw, err := Covered(table)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[netip.Addr]int{}
	const each = 20_000
	for _, a := range draw.Take(7*each, seeded()) {
		counts[a]++
	}
	if len(counts) != 7 {
		t.Fatalf("%d different addresses, expected the 7 that are covered: %v", len(counts), counts)
	}
	for a, n := range counts {
		if n < each*95/100 || n > each*105/100 {
			t.Errorf("%s drawn %d times, expected about %d", a, n, each)
		}
	}
}

// TestCoveredBelongsToTheTable checks membership by an independent longest-prefix match.
func TestCoveredBelongsToTheTable(t *testing.T) {
	random := seeded()
	var table []netip.Prefix
	var match bart.Lite
	for range 5000 {
		p := netip.PrefixFrom(addr4(random.Uint32()), 8+random.IntN(25)).Masked()
		table = append(table, p)
		match.Insert(p)
	}
	draw, err := Covered(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range draw.Take(200_000, random) {
		if !match.Contains(a) || within(a, martians) {
			t.Fatalf("%s is not in the table or not forwarded to", a)
		}
	}
}

func TestDefaultRouteCoversUnicastOnly(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "::/0"} {
		p := netip.MustParsePrefix(text)
		draw, err := EachPrefix([]netip.Prefix{p}, p.Addr().Is6())
		if p.Addr().Is4() && err == nil {
			draw, err = Covered([]netip.Prefix{p})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range draw.Take(50_000, seeded()) {
			if within(a, martians) || a.Is6() != p.Addr().Is6() {
				t.Fatalf("%s drawn from %s", a, p)
			}
		}
	}
}

// TestEachPrefixTakesAllBeforeOneAgain follows two whole walks.
func TestEachPrefixTakesAllBeforeOneAgain(t *testing.T) {
	table := ipnet.Must("2001:db8:1::/48", "2001:db8:2::/64", "2001:db8:3::7/128", "10.0.0.0/8", "ff00::/8")
	draw, err := EachPrefix(table, true)
	if err != nil {
		t.Fatal(err)
	}
	random := seeded()
	for range 100 {
		var used []int
		for range 3 {
			a := draw(random)
			used = append(used, slices.IndexFunc(table, func(p netip.Prefix) bool { return p.Contains(a) }))
		}
		slices.Sort(used)
		if !slices.Equal(used, []int{0, 1, 2}) {
			t.Fatalf("a walk used prefixes %v, expected 0, 1 and 2 once each", used)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	if _, err := Covered(ipnet.Must("224.0.0.0/4", "2001:db8::/32", "127.0.0.1/32")); err == nil {
		t.Error("Covered accepts a table of martians")
	}
	if _, err := EachPrefix(ipnet.Must("ff02::/16", "192.0.2.0/24"), true); err == nil {
		t.Error("EachPrefix accepts a table of martians")
	}
}

func TestPublicIsPublic(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		seen := map[netip.Addr]bool{}
		for _, a := range Public(ipv6).Take(100_000, seeded()) {
			if a.Is6() != ipv6 || !a.IsGlobalUnicast() || a.IsPrivate() || within(a, special) {
				t.Fatalf("%s is not public", a)
			}
			seen[a] = true
		}
		if len(seen) < 99_000 {
			t.Errorf("only %d different addresses in 100,000", len(seen))
		}
	}
}

func TestSameSeedSameDraws(t *testing.T) {
	for name, make := range map[string]func() (Draw, error){
		"covered": func() (Draw, error) { return Covered(ipnet.Must("192.0.2.0/24", "10.0.0.0/8")) },
		"each":    func() (Draw, error) { return EachPrefix(ipnet.Must("192.0.2.0/24", "10.0.0.0/8"), false) },
	} {
		a, err := make()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := make()
		if !slices.Equal(a.Take(1000, seeded()), b.Take(1000, seeded())) {
			t.Errorf("%s: the same seed draws other addresses", name)
		}
	}
}
