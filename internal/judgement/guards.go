// SPDX-License-Identifier: Apache-2.0

package judgement

import (
	"net/netip"
	"slices"

	"minne/internal/fastpath/classify"
	"minne/internal/fastpath/judge"
	"minne/internal/policy"
)

// Guards stand in front of the rules: packets that the kernel must see whatever the
// rules say of them.
//
//   - Fragments: the kernel judges the packet that they make together. (The first one
//     has ports like any packet; the program knows it as a fragment.)
//   - Where state is kept, what is neither TCP nor UDP: the fast path can't ask
//     conntrack about it, and it may be an error about a connection.
//   - Without state, IPv6 packets whose next header nftables reads over to find the
//     protocol (ipv6_find_hdr): an authentication header among them.
//   - Where addresses are translated, conntrack translates packets of its connections
//     on every way they take, without state too. TCP and UDP the program asks
//     conntrack about; other protocols, and so errors about any connection, go up. So
//     do packets to addresses of a pool and to forwarded ports, which mean another
//     destination than they have, and those that come from where a port forward leads.

// extensionHeaders of IPv6 that nftables reads over: hop-by-hop options, routing,
// fragment, authentication, destination options.
var extensionHeaders = classify.ProtocolSet(0, 43, 44, 51, 60)

// guards writes the guards.
func (l *lowering) guards() []classify.Rule {
	kernel := judge.Verdict{Action: judge.Kernel}.Word()
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
	if len(l.p.NAT) > 0 {
		add(stateless, classify.Rule{Protocols: otherProtocols()})
	}
	for i := range l.p.NAT {
		n := &l.p.NAT[i]
		if len(n.Pool) > 0 {
			add(stateless, classify.Rule{Destination: n.Pool})
		}
		if n.Kind != policy.PortForward {
			continue
		}
		one := classify.Rule{Protocols: classify.ProtocolSet(n.Protocol)}
		door, target := one, one
		if n.Address.IsValid() {
			door.Destination = single(n.Address)
			door.DestinationPorts = []classify.Range{{First: n.Ports.First, Last: n.Ports.Last}}
			add(slices.Concat(stateful, stateless), door)
		}
		target.Source, target.SourcePorts = single(n.Target), []classify.Range{{First: n.Ports.First, Last: n.Ports.Last}}
		if n.NewPort != 0 {
			target.SourcePorts = []classify.Range{{First: n.NewPort, Last: n.NewPort}}
		}
		add(stateless, target)
	}
	return list
}

func single(a netip.Addr) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())} }

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

// beginnings reports whether a packet of no known connection may be more than its
// addresses say: a port is forwarded from an address that may not be the router's
// own, or addresses are translated in a way that is not known here. Sources are
// translated at the beginning of a connection, which is the kernel's.
func beginnings(p *policy.Policy) bool {
	for i := range p.NAT {
		switch n := &p.NAT[i]; n.Kind {
		case policy.Masquerade, policy.SourcePool:
		case policy.PortForward:
			if n.Address.IsValid() {
				return true
			}
		default:
			return true
		}
	}
	return false
}
