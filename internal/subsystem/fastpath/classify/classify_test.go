// SPDX-License-Identifier: Apache-2.0

package classify_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/lab/rulegen"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/testing/policygen"
)

const none = 99

// address is the same as a key.
func address(s string) [2]uint64 { return classify.KeyAddress(netip.MustParseAddr(s)) }

func list(s ...string) (out []netip.Prefix) {
	for _, one := range s {
		out = append(out, netip.MustParsePrefix(one))
	}
	return out
}

// TestMeaning says what rules mean, by the plain way and by the tables.
func TestMeaning(t *testing.T) {
	web := classify.Rule{
		Destination:      list("192.0.2.80/32", "2001:db8::80/128"),
		Protocols:        classify.ProtocolSet(6),
		DestinationPorts: []classify.Range{{First: 443, Last: 443}},
		Verdict:          1,
	}
	rules := []classify.Rule{
		web,
		{Zones: []uint8{3}, ICMP: []classify.ICMPRange{{Type: 8, LastCode: 255}}, Verdict: 2},
		{Fragments: classify.Only, Source: list("198.51.100.0/24"), Verdict: 3},
		{SYN: classify.Only, Verdict: 4},
		{SYN: classify.Never, Family: classify.IPv6, Verdict: 5},
		{SourcePorts: []classify.Range{{First: 0, Last: 65535}}, Verdict: 6},
		{Protocols: classify.ProtocolSet(6), ICMP: []classify.ICMPRange{{LastCode: 255}}, Verdict: 7},
	}
	tables, err := classify.Compile(rules, classify.Options{None: none})
	if err != nil {
		t.Fatal(err)
	}
	server, other := address("192.0.2.80"), address("203.0.113.1")
	for _, c := range []struct {
		what string
		key  classify.Key
		want uint32
	}{
		{"web", classify.Key{Destination: server, DestinationPort: 443, Kind: 6}, 1},
		{"web, SYN", classify.Key{Destination: server, DestinationPort: 443, Kind: 6 | classify.KindSYN}, 1},
		{"web, IPv6", classify.Key{Destination: address("2001:db8::80"), DestinationPort: 443, Kind: 6, IPv6: true}, 1},
		{"web in the wrong family", classify.Key{Destination: server, DestinationPort: 443, Kind: 6, IPv6: true}, 5},
		{"web by UDP", classify.Key{Destination: server, DestinationPort: 443, Kind: 17}, 6},
		{"a fragment has no port", classify.Key{Destination: server, DestinationPort: 443, Kind: 6 | classify.KindFragment}, none},
		{"a fragment that is asked for", classify.Key{Source: address("198.51.100.7"), Kind: 6 | classify.KindFragment}, 3},
		{"ping", classify.Key{Zone: 3, DestinationPort: 8 << 8, Kind: 1}, 2},
		{"ping elsewhere", classify.Key{Zone: 4, DestinationPort: 8 << 8, Kind: 1}, none},
		{"answer to a ping", classify.Key{Zone: 3, Kind: 1}, none},
		{"a new connection", classify.Key{Destination: other, Kind: 6 | classify.KindSYN}, 4},
		{"a connection", classify.Key{Destination: other, Kind: 6}, 6},
		{"all ports are still ports", classify.Key{Destination: other, Kind: 47}, none},
	} {
		if got := classify.Match(rules, &c.key, none); got != c.want {
			t.Errorf("%s: the plain way says %d, want %d", c.what, got, c.want)
		}
		if got := tables.Lookup(&c.key); got != c.want {
			t.Errorf("%s: the tables say %d, want %d", c.what, got, c.want)
		}
	}
}

// TestShapesAgree compares the tables with the plain way on policies of every shape and size.
func TestShapesAgree(t *testing.T) {
	for _, shape := range rulegen.Shapes {
		for _, n := range []int{1, 100, 600, 1000, 10_000} {
			for _, ipv6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/ipv6=%v", shape, n, ipv6), func(t *testing.T) {
					rules := rulegen.Rules(shape, n, ipv6, 7)
					tables, err := classify.Compile(rules, classify.Options{None: none})
					if err != nil {
						t.Fatal(err)
					}
					if s := tables.Stats(); n <= 600 && s.Bytes > 1<<20 {
						t.Errorf("%d rules take %d bytes: %+v", n, s.Bytes, s)
					}
					for _, aim := range []rulegen.Aim{rulegen.Hits, rulegen.Edges, rulegen.Stray} {
						for _, k := range rulegen.Keys(rules, max(200, min(2000, 400_000/n)), ipv6, aim, 3) {
							if got, want := tables.Lookup(&k), classify.Match(rules, &k, none); got != want {
								t.Fatalf("%+v: rule %d, want %d", k, got, want)
							}
						}
					}
				})
			}
		}
	}
}

// TestEntangledRulesAreRefused gives the compiler what no bound can hold.
func TestEntangledRulesAreRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	any := netip.MustParsePrefix("0.0.0.0/0")
	var crossing, ports []classify.Rule
	for i := range 6000 {
		r := classify.Rule{}
		for range 4 {
			s, _ := rulegen.Inside(any, rng).Prefix(4 + rng.IntN(20))
			d, _ := rulegen.Inside(any, rng).Prefix(4 + rng.IntN(20))
			r.Source, r.Destination = append(r.Source, s), append(r.Destination, d)
		}
		r.DestinationPorts = []classify.Range{{First: uint16(i % 200), Last: uint16(i % 200)}}
		crossing = append(crossing, r)
		first := []uint16{uint16(rng.IntN(60000)), uint16(rng.IntN(60000))}
		ports = append(ports, classify.Rule{
			SourcePorts:      []classify.Range{{First: first[0], Last: first[0] + 5000}},
			DestinationPorts: []classify.Range{{First: first[1], Last: first[1] + 5000}},
		})
	}
	for _, c := range []struct {
		rules []classify.Rule
		want  string
	}{
		{crossing, "fewer rules"},
		{rulegen.Rules(rulegen.ACL, 10_000, true, 1), "more memory"},
		{ports, "ports"},
		{make([]classify.Rule, classify.MaxRules+1), "expected up to"},
		{[]classify.Rule{{Zones: []uint8{255}}}, "zone pairs"},
		{[]classify.Rule{{Source: []netip.Prefix{{}}}}, "prefix is expected"},
		{[]classify.Rule{{SourcePorts: []classify.Range{{First: 2, Last: 1}}}}, "backwards"},
		{[]classify.Rule{{ICMP: []classify.ICMPRange{{FirstCode: 2, LastCode: 1}}}}, "backwards"},
	} {
		_, err := classify.Compile(c.rules, classify.Options{Limit: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d rules: %v, want an error with %q", len(c.rules), err, c.want)
		}
	}
}

// FuzzCompile makes policies of random numbers.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(10*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		rules := policygen.Rules(1+int(n), seed)
		for _, s := range []classify.Structure{classify.Split, classify.CrossProduct} {
			tables, err := classify.Compile(rules, classify.Options{None: none, Structure: s})
			if err != nil {
				if s == classify.Split {
					t.Fatal(err)
				}
				continue
			}
			for _, k := range rulegen.Keys(rules, 100, seed%2 == 1, rulegen.Edges, seed) {
				if got, want := tables.Lookup(&k), classify.Match(rules, &k, none); got != want {
					t.Fatalf("structure %d, %+v: %d, want %d", s, k, got, want)
				}
			}
		}
	})
}
