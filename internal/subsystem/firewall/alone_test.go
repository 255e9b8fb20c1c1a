// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
	"minne/internal/testing/policygen"
)

// matchesAlone says what the kernel makes of a line for a packet, of TCP one without ACK.
func matchesAlone(r *nft.Rule, w policy.Packet) bool {
	family := uint8(unix.NFPROTO_IPV6)
	if w.Source.Is4() {
		family = unix.NFPROTO_IPV4
	}
	in := func(p netip.Prefix, a netip.Addr) bool { return !p.IsValid() || p.Contains(a) }
	port := func(p *nft.Ports, n uint16) bool { return p == nil || p.First <= n && n <= p.Last }
	return (r.Interface == "" || r.Interface == w.In) && (r.Family == 0 || r.Family == family) &&
		(r.Protocol == nil || *r.Protocol == w.Protocol) && in(r.Source, w.Source) && in(r.Destination, w.Destination) &&
		port(r.SourcePorts, w.SourcePort) && port(r.Ports, w.DestPort) && (r.ICMPType == nil || *r.ICMPType == w.ICMPType) &&
		(r.HopLimit == 0 || r.HopLimit == w.HopLimit) && r.TCPFlags == 0
}

// passesAlone evaluates a packet by the rules of the guard.
func passesAlone(rules []nft.Rule, chains []nft.Chain, w policy.Packet) bool {
	for i := range rules {
		switch r := &rules[i]; {
		case !matchesAlone(r, w):
		case r.Goto != "":
			at := slices.IndexFunc(chains, func(c nft.Chain) bool { return c.Name == r.Goto })
			return passesAlone(chains[at].Rules, chains, w)
		default:
			return !r.Drop
		}
	}
	return false
}

// Nothing reaches the router without the rules that they would deny; something does.
func TestAlone(t *testing.T) {
	passed := 0
	for seed := range uint64(400) {
		g := policygen.New(seed)
		draft := g.Draft()
		if seed%2 == 1 {
			draft = g.Timed(draft)
		}
		p, err := draft.Compile()
		must(t, err)
		rules, chains := alone(p)
		for range 300 {
			w, _, _ := g.Packet(p)
			w.Out = ""
			if !passesAlone(rules, chains, w) {
				continue
			}
			passed++
			for _, w.At = range []time.Time{policygen.Held, policygen.Unheld} {
				v := policy.Evaluate(p, w, policy.New)
				if v.Action != policy.Permit || v.Rule != nil && v.Rule.Limit != nil {
					t.Fatalf("seed %d: %+v passes, but the rules say %+v\n%s", seed, w, v, draft.Text())
				}
			}
		}
	}
	if passed < 500 {
		t.Errorf("only %d packets passed", passed)
	}
	t.Logf("%d packets passed", passed)
}

// What stays of a policy of every kind of rule.
func TestAlonePermits(t *testing.T) {
	any := policy.Addresses{Any: true}
	lan := policy.ZoneID(1)
	ssh := policy.Rule{Protocols: []uint8{6}, IPv4: true, IPv6: true, Source: any, Destination: any, SourcePorts: policy.Ports{Any: true},
		Ports: policy.Ports{Ranges: []policy.PortRange{{First: 22, Last: 22}}}, Action: policy.Permit}
	admins := ssh
	admins.Source = policy.Addresses{Sets: []int{0}}
	denied := admins
	denied.Action = policy.Deny
	limited := ssh
	limited.Limit = &policy.Limit{}
	timed := ssh
	timed.Schedule = &policy.Schedule{}
	from := func(address string) policy.Packet {
		return policy.Packet{In: "eth1", Source: netip.MustParseAddr(address), Destination: netip.MustParseAddr("192.0.2.1"), Protocol: 6, DestPort: 22}
	}
	for name, c := range map[string]struct {
		rules      []policy.Rule
		any, admin bool
	}{
		"plain":                  {[]policy.Rule{ssh}, true, true},
		"a set":                  {[]policy.Rule{admins}, false, true},
		"a denied set":           {[]policy.Rule{denied, ssh}, false, false},
		"a limit":                {[]policy.Rule{limited, ssh}, false, false},
		"a schedule":             {[]policy.Rule{timed}, false, false},
		"a schedule, then plain": {[]policy.Rule{timed, ssh}, true, true},
	} {
		p := &policy.Policy{
			Zones: []policy.Zone{{Name: policy.SelfName}, {Name: "lan", Interfaces: []string{"eth1"}}},
			Sets:  []policy.Set{{Name: "admins", Kind: policy.PrefixSet, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.64/26")}}},
			Rules: c.rules,
		}
		var numbers []int
		for i := range c.rules {
			numbers = append(numbers, i)
		}
		lines := zoneAlone(p, &policy.Pair{From: lan, To: policy.Self, Rules: numbers})
		if got := passesAlone(lines, nil, from("192.0.2.5")); got != c.any {
			t.Errorf("%s: anybody passes: %t", name, got)
		}
		if got := passesAlone(lines, nil, from("192.0.2.65")); got != c.admin {
			t.Errorf("%s: an admin passes: %t", name, got)
		}
	}
}
