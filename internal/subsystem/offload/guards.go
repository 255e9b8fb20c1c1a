// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"net/netip"
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
)

// Guards stand in front of the rules: packets that the kernel must see whatever the
// rules say of them.
//
//   - Fragments: the kernel evaluates the packet that they make together. (The first one
//     has ports like any packet; the program knows it as a fragment.)
//   - Where state is kept, what is neither TCP nor UDP: the fast path can't ask
//     conntrack about it, and it may be an error about a connection.
//   - Without state, IPv6 packets whose next header nftables reads over to find the
//     protocol (ipv6_find_hdr): an authentication header among them.
//   - Packets to a port that is forwarded, or to the outside address of a host: the rules
//     are about the address inside, which only the kernel finds. Forwards of any of the
//     router's own addresses need no guard: packets to these go up anyway.
//
// Translated packets of known connections never come here. The program asks
// conntrack first, and where connections are translated it leaves the protocols to the
// kernel that it can't ask about (filter.Policy.Translates).

// extensionHeaders of IPv6 that nftables reads over: hop-by-hop options, routing,
// fragment, authentication, destination options.
var extensionHeaders = classify.ProtocolSet(0, 43, 44, 51, 60)

// guards writes the guards.
func (l *lowering) guards() []classify.Rule {
	kernel := filter.Verdict{Action: filter.Kernel}.Word()
	list := []classify.Rule{{Fragments: classify.Only, Verdict: kernel}}
	add := func(zones []uint8, guard classify.Rule) {
		if len(zones) > 0 {
			guard.Zones, guard.Verdict = zones, kernel
			list = append(list, guard)
		}
	}
	stateful, stateless := l.numbersByState()
	add(stateful, classify.Rule{Protocols: otherProtocols()})
	add(stateless, classify.Rule{Family: classify.IPv6, Protocols: extensionHeaders})
	for i := range l.p.NAT {
		if guard, ok := door(&l.p.NAT[i]); ok {
			add(slices.Concat(stateful, stateless), guard)
		}
	}
	return list
}

// door matches what a translation gives another destination, but for packets to the
// router's own addresses; ok is false when that is nothing.
func door(n *policy.NAT) (guard classify.Rule, ok bool) {
	switch {
	case n.Kind == policy.OneToOne:
		return classify.Rule{Destination: []netip.Prefix{n.Outside}}, true
	case n.Kind == policy.PortForward && n.Address.IsValid():
		return classify.Rule{
			Protocols:        classify.ProtocolSet(n.Protocol),
			Destination:      []netip.Prefix{netip.PrefixFrom(n.Address, n.Address.BitLen())},
			DestinationPorts: []classify.Range{{First: n.Ports.First, Last: n.Ports.Last}},
		}, true
	}
	return guard, false
}

func (l *lowering) numbersByState() (stateful, stateless []uint8) {
	for i := range l.groups {
		if g := &l.groups[i]; g.pair.Stateless {
			stateless = append(stateless, g.numbers()...)
		} else {
			stateful = append(stateful, g.numbers()...)
		}
	}
	return stateful, stateless
}

// otherProtocols are all but those that the program asks conntrack about.
func otherProtocols() (p classify.Protocols) {
	for n := range 256 {
		if n != protoTCP && n != protoUDP {
			p.Add(uint8(n))
		}
	}
	return p
}

// beginnings reports whether a packet of no known connection may begin one that another
// announced, to a helper of conntrack. Other beginnings need no such care: packets to
// translated destinations have their guards, a blackhole is not the last word where
// there are translations, and sources are translated behind the rules.
func beginnings(p *policy.Policy) bool { return len(p.Helpers) > 0 }
