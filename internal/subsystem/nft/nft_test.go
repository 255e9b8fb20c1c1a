// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fresh loads a table with sets of all kinds.
func fresh(t *testing.T) {
	t.Helper()
	_, err := Run(t.Context(), `table inet lab
delete table inet lab
table inet lab {
	comment "a table for tests"
	set networks_v4 { type ipv4_addr; flags interval, timeout; elements = { 192.0.2.0/24, 198.51.100.7 }; }
	set networks_v6 { type ipv6_addr; flags interval, timeout; }
	set hosts_v4 { type ipv4_addr; flags timeout; }
	chain forward {
		counter packets 3 bytes 300 comment "#1 a rule"
		meta l4proto udp counter packets 4 bytes 400 comment "#1 a rule"
		tcp dport { 80, 443 } counter packets 5 bytes 500 drop comment "#2 another"
		accept
	}
}
`, "-f", "-")
	must(t, err)
}

// elements are those of a set as nft(8) lists them.
func elements(t *testing.T, set string) (list []string) {
	t.Helper()
	text, err := Run(t.Context(), "", "list", "set", "inet", "lab", set)
	must(t, err)
	if _, rest, ok := strings.Cut(text, "elements = {"); ok {
		rest, _, _ = strings.Cut(rest, "}")
		for element := range strings.SplitSeq(rest, ",") {
			list = append(list, strings.TrimSpace(element))
		}
	}
	slices.Sort(list)
	return list
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// What is put into a set is what nft(8) reads from it, at the edges too.
func TestChange(t *testing.T) {
	fresh(t)
	want := func(set string, elementsOf ...string) {
		t.Helper()
		if got := elements(t, set); !slices.Equal(got, elementsOf) {
			t.Errorf("%s has %q, want %q", set, got, elementsOf)
		}
	}
	four, six := prefixes("10.0.0.0/8", "11.0.0.0/8", "0.0.0.0/30", "255.255.255.255/32", "192.0.3.0/25"), prefixes("::/1", "ffff::/16", "2001:db8::1/128")
	must(t, Change("lab", []Elements{
		{Set: "networks_v4", Interval: true, Prefixes: four},
		{Set: "networks_v6", Interval: true, Prefixes: six[1:]},
		{Set: "hosts_v4", Prefixes: prefixes("192.0.2.1/32")},
		{Set: "hosts_v4", Timeout: time.Hour, Prefixes: prefixes("192.0.2.2/32")},
	}))
	want("networks_v4", "0.0.0.0/30", "10.0.0.0/8", "11.0.0.0/8", "192.0.2.0/24", "192.0.3.0/25", "198.51.100.7", "255.255.255.255")
	want("networks_v6", "2001:db8::1", "ffff::/16")
	if got := fmt.Sprint(elements(t, "hosts_v4")); !strings.HasPrefix(got, "[192.0.2.1 192.0.2.2 timeout 1h expires 59m59s") {
		t.Errorf("hosts %s", got)
	}
	must(t, Change("lab", []Elements{
		{Set: "networks_v4", Interval: true, Delete: true, Prefixes: append(four[1:], prefixes("198.51.100.7/32", "203.0.113.1/32")...)},
		{Set: "networks_v6", Interval: true, Delete: true, Prefixes: six[1:]},
		{Set: "networks_v6", Interval: true, Prefixes: six[:1]},
	}))
	want("networks_v4", "10.0.0.0/8", "192.0.2.0/24")
	want("networks_v6", "::/1")
	must(t, Change("lab", nil))
}

// A change that the kernel refuses at its end changes nothing.
func TestChangeIsAllOrNothing(t *testing.T) {
	fresh(t)
	err := Change("lab", []Elements{
		{Set: "hosts_v4", Prefixes: prefixes("192.0.2.1/32")},
		{Set: "guests_v4", Prefixes: prefixes("192.0.2.1/32")},
		{Set: "hosts_v4", Prefixes: prefixes("192.0.2.2/32")},
	})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
	if got := elements(t, "hosts_v4"); len(got) > 0 {
		t.Errorf("the set has %q", got)
	}
}

// More than fits into a message, in any order, comes and goes at once.
func TestChangeOfMany(t *testing.T) {
	fresh(t)
	rng := rand.New(rand.NewPCG(1, 1))
	var list []netip.Prefix
	want := []string{"192.0.2.0/24", "198.51.100.7"}
	for i := range 20_000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		list = append(list, p)
		if i >= 15_000 {
			want = append(want, p.String())
		}
	}
	rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	must(t, Change("lab", []Elements{{Set: "networks_v4", Interval: true, Prefixes: list}}))
	gone := slices.DeleteFunc(list, func(p netip.Prefix) bool { return slices.Contains(want[2:], p.String()) })
	must(t, Change("lab", []Elements{{Set: "networks_v4", Interval: true, Delete: true, Prefixes: gone}}))
	slices.Sort(want)
	if got := elements(t, "networks_v4"); !slices.Equal(got, want) {
		t.Errorf("%d elements, want %d", len(got), len(want))
	}
}

func TestRead(t *testing.T) {
	fresh(t)
	comment, there, err := Comment("lab")
	if err != nil || !there || comment != "a table for tests" {
		t.Errorf("comment %q, %t, %v", comment, there, err)
	}
	if comment, there, err := Comment("laboratory"); err != nil || there || comment != "" {
		t.Errorf("of no table: comment %q, %t, %v", comment, there, err)
	}
	counts, err := Counters("lab")
	must(t, err)
	if fmt.Sprint(counts) != "map[:{0 0} #1 a rule:{7 700} #2 another:{5 500}]" {
		t.Errorf("counters %v", counts)
	}
	if text, err := Table(t.Context(), "lab"); err != nil || !strings.Contains(text, "chain forward") {
		t.Errorf("table: %v\n%s", err, text)
	}
	if text, err := Table(t.Context(), "laboratory"); err != nil || text != "" {
		t.Errorf("of no table: %v, %q", err, text)
	}
}
