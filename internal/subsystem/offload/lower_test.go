// SPDX-License-Identifier: Apache-2.0

package offload_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/offload"
	"minne/internal/testing/policygen"
)

// compiled is the policy of some zones, an interface each: z0 in a, z1 in a, z2 in b, z3 in c.
func compiled(t *testing.T, d policygen.Draft) *policy.Policy {
	t.Helper()
	p, err := d.Compile()
	if err != nil {
		t.Fatalf("%v\n%s", err, d.Text())
	}
	return p
}

// zoned is a policy of n zones whose ways all read rules, and end in a denial.
func zoned(n int, rules func(from, to int) []int) *policy.Policy {
	p := &policy.Policy{Zones: []policy.Zone{{Name: policy.SelfName}}}
	for i := range n {
		p.Zones = append(p.Zones, policy.Zone{Name: fmt.Sprint("zone", i+1), Interfaces: []string{fmt.Sprint("eth", i+1)}})
	}
	all := policy.Addresses{Any: true}
	for i := range n {
		p.Rules = append(p.Rules, policy.Rule{ID: i + 1, IPv4: true, IPv6: true, Protocols: []uint8{6}, Source: all, Destination: all,
			SourcePorts: policy.Ports{Any: true}, Ports: policy.Ports{Ranges: []policy.PortRange{{First: uint16(i + 1), Last: uint16(i + 1)}}}})
	}
	for from := range n + 1 {
		for to := range n + 1 {
			if from+to > 0 {
				p.Pairs = append(p.Pairs, policy.Pair{From: policy.ZoneID(from), To: policy.ZoneID(to), Rules: rules(from, to)})
			}
		}
	}
	return p
}

func noRules(int, int) []int { return nil }

func TestNothingIsLoweredToNothing(t *testing.T) {
	if j := offload.Lower(nil); j != nil {
		t.Errorf("got %+v", j)
	}
}

// A limit of ICMP counts every packet, so the fast path has to know.
func TestLimitOfICMP(t *testing.T) {
	p := zoned(2, noRules)
	for _, one := range []struct {
		limit policy.SourceLimit
		want  bool
	}{{policy.SourceLimit{New: &policy.Limit{}}, false}, {policy.SourceLimit{ICMP: &policy.Limit{}}, true}} {
		p.Limits = []policy.SourceLimit{one.limit}
		if j := offload.Lower(p); j.ICMPLimited != one.want {
			t.Errorf("limits %+v: ICMP is limited: %t, want %t", p.Limits, j.ICMPLimited, one.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, one := range []struct {
		rule                string
		stateful, stateless filter.Verdict
	}{
		{"permit tcp any any 80", filter.Verdict{}, filter.Verdict{Action: filter.Permit, Counter: 1}},
		{"permit tcp any any 80 log", filter.Verdict{}, filter.Verdict{Action: filter.Permit, Counter: 1, Log: true}},
		{"permit tcp any any 80 limit 5/s", filter.Verdict{}, filter.Verdict{}},
		{"deny tcp any any 80", filter.Verdict{Action: filter.Drop, Counter: 1}, filter.Verdict{Action: filter.Drop, Counter: 1}},
		{"deny tcp any any 80 log", filter.Verdict{Action: filter.Drop, Counter: 1, Log: true}, filter.Verdict{Action: filter.Drop, Counter: 1, Log: true}},
		{"reject tcp any any 80", filter.Verdict{}, filter.Verdict{}},
	} {
		for _, stateless := range []bool{false, true} {
			head, want := "from: a\n      to: b", one.stateful
			if stateless {
				head, want = head+"\n      stateless: true", one.stateless
			}
			j := offload.Lower(compiled(t, policygen.Draft{Policies: []policygen.DraftPolicy{{Head: head, Rules: []string{one.rule}}}}))
			at := slices.IndexFunc(j.Rules, func(r classify.Rule) bool { return r.DestinationPorts != nil })
			if got := filter.VerdictOf(j.Rules[at].Verdict); got != want {
				t.Errorf("%s, stateless %t: %+v, want %+v", one.rule, stateless, got, want)
			}
		}
	}
}

func TestWhatHoldsForAllPackets(t *testing.T) {
	stateless := []policygen.DraftPolicy{{Head: "from: any\n      to: any\n      stateless: true", Rules: []string{"permit any"}}}
	mixed := []policygen.DraftPolicy{{Head: "from: a\n      to: b\n      stateless: true", Rules: []string{"permit any"}}}
	type words struct{ stateful, beginnings, translates bool }
	for _, one := range []struct {
		name string
		d    policygen.Draft
		want words
	}{
		{"without state", policygen.Draft{Policies: stateless}, words{}},
		{"with state on some ways", policygen.Draft{Policies: mixed}, words{stateful: true}},
		{"with state", policygen.Draft{}, words{stateful: true}},
		{"masquerade", policygen.Draft{NAT: []string{"  - {from: a, to: c, masquerade: true}\n"}}, words{stateful: true, translates: true}},
		{"a forward of the router's own addresses, without state", policygen.Draft{Policies: stateless,
			NAT: []string{"  - {from: [c], forward: {protocol: tcp, port: \"443\", target: 10.0.0.1}}\n"}}, words{stateful: true, translates: true}},
		{"a forward of an address", policygen.Draft{NAT: []string{"  - {from: [c], forward: {protocol: tcp, port: \"443\", target: 10.0.0.1, address: 192.0.2.1}}\n"}},
			words{stateful: true, translates: true}},
		{"a helper", policygen.Draft{Defaults: "  helpers: [ftp]\n"}, words{stateful: true, beginnings: true}},
		{"one-to-one", policygen.Draft{NAT: []string{"  - {from: a, to: c, one-to-one: {outside: 192.0.2.0/29, inside: 10.0.0.0/29}}\n"}}, words{stateful: true, translates: true}},
	} {
		j := offload.Lower(compiled(t, one.d))
		if got := (words{j.Stateful, j.Beginnings, j.Translates}); got != one.want {
			t.Errorf("%s: %+v, want %+v", one.name, got, one.want)
		}
	}
}

// bits are the rules whose places are the bits of a number: other rules for each number.
func bits(n int) (rules []int) {
	for i := range 10 {
		if n>>i&1 != 0 {
			rules = append(rules, i)
		}
	}
	return rules
}

func TestBeyondTheFastPath(t *testing.T) {
	many := zoned(2, noRules)
	for len(many.Rules) < filter.MaxCounters {
		many.Rules = append(many.Rules, many.Rules[0])
	}
	for _, one := range []struct {
		name, want string
		p          *policy.Policy
	}{
		{"zones", "there are 64 zones; the fast path supports 63", zoned(filter.MaxZones+1, noRules)},
		{"ways", "the zone pairs have 400 different policies; the fast path supports 254", zoned(20, func(from, to int) []int { return bits(from*20 + to) })},
		{"counters", "16386 rules and defaults have counters", many},
	} {
		if j := offload.Lower(one.p); !strings.Contains(j.Kernel, one.want) || len(j.Rules) > 0 {
			t.Errorf("%s: %q with %d rules, want %q", one.name, j.Kernel, len(j.Rules), one.want)
		}
	}
}

// numbers are how many numbers the ways have.
func numbers(j *filter.Policy) int {
	all := map[uint8]bool{}
	for _, pair := range j.Pairs {
		for i := range 1 << len(pair.Tests) {
			all[pair.ID+uint8(i)] = true
		}
	}
	return len(all)
}

func TestWaysShareNumbers(t *testing.T) {
	for _, one := range []struct {
		name    string
		zones   int
		rules   func(from, to int) []int
		numbers int
	}{
		{"without rules all mean the same", filter.MaxZones, noRules, 1},
		{"with rules each has its own, as its default counts", 10, func(int, int) []int { return []int{1} }, 100},
		{"but for want of numbers", 20, func(int, int) []int { return []int{1} }, 1},
		{"there and back mean the same", 20, func(from, to int) []int { return bits(min(from, to)*20 + max(from, to)) }, 210},
	} {
		p := zoned(one.zones, one.rules)
		j := offload.Lower(p)
		if j.Kernel != "" || len(j.Pairs) != one.zones*one.zones {
			t.Errorf("%s: %q, %d ways", one.name, j.Kernel, len(j.Pairs))
		}
		if got := numbers(j); got != one.numbers {
			t.Errorf("%s: %d numbers, want %d", one.name, got, one.numbers)
		}
		c := offload.CountersOf(p, j)
		if len(c.Denied) != one.numbers || slices.Min(c.Denied) <= one.zones || slices.Max(c.Denied) > j.Counters {
			t.Errorf("%s: %d counters of defaults from %d to %d of %d", one.name, len(c.Denied), slices.Min(c.Denied), slices.Max(c.Denied), j.Counters)
		}
	}
}

// A rule for everything leaves its way no default that could count.
func TestDefaultOfAPolicyIsARule(t *testing.T) {
	p := compiled(t, policygen.Draft{Policies: []policygen.DraftPolicy{
		{Head: "from: any\n      to: any", Rules: []string{"deny udp"}, Tail: "      default: deny\n"}}})
	j := offload.Lower(p)
	if n := numbers(j); n != 1 {
		t.Errorf("%d numbers, want 1", n)
	}
	for _, r := range j.Rules {
		if c := int(filter.VerdictOf(r.Verdict).Counter); c > len(p.Rules) {
			t.Errorf("rule %+v has counter %d", r, c)
		}
	}
}

// setOf is a set of n networks, whose first byte tells the set.
func setOf(number, n int, timeout time.Duration) policy.Set {
	s := policy.Set{Name: fmt.Sprint("set", number), Kind: policy.PrefixSet, Timeout: timeout}
	for i := range n {
		s.Prefixes = append(s.Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(number + 1), byte(i >> 8), byte(i), 0}), 24))
	}
	return s
}

func TestSetsAskedForByAddress(t *testing.T) {
	const large = offload.LargeSet + 1
	of := func(sets ...int) policy.Addresses { return policy.Addresses{Sets: sets} }
	all := policy.Addresses{Any: true}
	type rule struct{ source, destination policy.Addresses }
	for _, one := range []struct {
		name  string
		sizes []int
		rules []rule // rule i is read on the way to zone i+1
		want  []string
	}{
		{"small ones are not", []int{offload.LargeSet}, []rule{{of(0), all}}, nil},
		{"large ones are", []int{large, 1}, []rule{{of(0, 1), all}}, []string{"set0"}},
		{"with a timeout small ones are", []int{0}, []rule{{of(0), all}}, []string{"set0"}},
		{"unused ones are not", []int{large}, []rule{{all, all}}, nil},
		{"three of a way, the largest", []int{large, large + 2, large + 3, large + 1}, []rule{{of(0, 1), of(2, 3)}}, []string{"set2", "set1", "set3"}},
		{"both sides count", []int{large, large + 1}, []rule{{of(0, 1), of(0, 1)}}, []string{"set1"}},
		{"everywhere or nowhere", []int{large, large + 1, large + 2, large + 3}, []rule{{of(1, 2, 3), all}, {of(0), all}, {of(0, 1, 2, 3), all}},
			[]string{"set3", "set2", "set1"}},
		{"eight in all", []int{large, large, large, large, large, large, large, large, large}, []rule{{of(0, 1), all}, {of(2, 3), all}, {of(4, 5), all}, {of(6, 7, 8), all}},
			[]string{"set0", "set1", "set2", "set3", "set4", "set5", "set6", "set7"}},
	} {
		p := zoned(4, func(_, to int) []int {
			if to > len(one.rules) || to == 0 {
				return nil
			}
			return []int{to - 1}
		})
		for i, n := range one.sizes {
			timeout := time.Duration(0)
			if n == 0 {
				timeout = time.Hour
			}
			p.Sets = append(p.Sets, setOf(i, n, timeout))
		}
		for i, r := range one.rules {
			p.Rules[i].Source, p.Rules[i].Destination = r.source, r.destination
		}
		j := offload.Lower(p)
		var got []string
		for _, s := range j.Sets {
			got = append(got, s.Name)
		}
		if j.Kernel != "" || !slices.Equal(got, one.want) {
			t.Errorf("%s: %q, %v, want %v", one.name, j.Kernel, got, one.want)
		}
		for i := range p.Sets {
			asked := slices.Contains(one.want, p.Sets[i].Name)
			used := slices.ContainsFunc(one.rules, func(r rule) bool { return slices.Contains(append(r.source.Sets, r.destination.Sets...), i) })
			compiled := slices.ContainsFunc(j.Rules, func(r classify.Rule) bool {
				return slices.ContainsFunc(append(r.Source, r.Destination...), func(q netip.Prefix) bool { return q.Addr().As4()[0] == byte(i+1) })
			})
			if compiled != (used && !asked) {
				t.Errorf("%s: %s is used %t, asked for by address %t, compiled into rules %t", one.name, p.Sets[i].Name, used, asked, compiled)
			}
		}
	}
}

func TestNames(t *testing.T) {
	p := compiled(t, policygen.Draft{Policies: []policygen.DraftPolicy{{Head: "from: a\n      to: b", Rules: []string{"deny udp", "deny tcp any any ssh name login"}}}})
	j := offload.Lower(p)
	if want := []string{"", "a", "b", "c"}; !slices.Equal(j.Names.Zones, want) {
		t.Errorf("zones %q, want %q", j.Names.Zones, want)
	}
	way := filter.ZonePair{From: 1, To: 2}
	for counter, want := range map[int]string{
		offload.RuleCounter(&p.Rules[1]):        "rule 2 (login)",
		offload.CountersOf(p, j).Unmatched[way]: "the default, deny",
	} {
		if got := j.Names.Counters[counter]; got != want {
			t.Errorf("counter %d is called %q, want %q", counter, got, want)
		}
	}
	if want := []string{"", "", "login"}; !slices.Equal(j.Names.Rules, want) {
		t.Errorf("rules are called %q, want %q", j.Names.Rules, want)
	}
	if got := offload.CountersOf(p, j).Unmatched[way]; got < j.Names.Defaults || got <= len(p.Rules) {
		t.Errorf("a default has the counter %d, the first one is said to be %d", got, j.Names.Defaults)
	}
}

func TestWaysWithoutInterfaces(t *testing.T) {
	p := zoned(3, noRules)
	p.Zones[2].Interfaces = nil
	j := offload.Lower(p)
	if len(j.Pairs) != 4 || len(j.Zones) != 2 || j.Zones["eth3"] != 3 {
		t.Errorf("%v, %v", j.Pairs, j.Zones)
	}
	for way := range j.Pairs {
		if way.From == 2 || way.To == 2 {
			t.Errorf("no packet goes the way %v", way)
		}
	}
}
