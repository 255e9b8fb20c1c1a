// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// The reference: what a Policy means for one packet, written to be read rather
// than to be fast. Limits permit.

// Packet is what a policy looks at, as the filter sees it: after the translation
// of its destination, before that of its source, fragments put together again.
type Packet struct {
	In, Out              string // interfaces; "" for the router itself
	Source, Destination  netip.Addr
	Protocol             uint8
	SourcePort, DestPort uint16 // of protocols with ports
	ICMPType             uint8
	HopLimit             uint8
	At                   time.Time // when; the zero time is now
}

// State is what conntrack says of a packet.
type State int

// The states.
const (
	New         State = iota
	Established       // of a connection that has had an answer, either way
	Related           // begins what belongs to a connection, or an ICMP error about one
	Invalid           // fits no connection and can't begin one
)

// Verdict is what becomes of a packet, and which rule says so.
type Verdict struct {
	Action Action
	Rule   *Rule // nil when state or a default decided
	Pair   *Pair // nil when an interface has no zone
	Log    bool
}

// Evaluate evaluates a packet that is forwarded, comes to the router or leaves it. The
// state is not looked at where a pair keeps none.
func Evaluate(p *Policy, packet Packet, state State) Verdict {
	if packet.In == "" && packet.Out == "lo" || packet.In == "lo" && packet.Out == "" {
		return Verdict{Action: Permit} // the router with itself
	}
	from, fromOK := p.zoneOfSide(packet.In)
	to, toOK := p.zoneOfSide(packet.Out)
	var pair *Pair
	if fromOK && toOK {
		pair = p.Pair(from, to)
	}
	if s := p.service(packet, true); s != nil {
		return Verdict{Action: Permit, Rule: s, Pair: pair}
	}
	if pair == nil || !pair.Stateless {
		switch {
		case state == Established, state == Related:
			return Verdict{Action: Permit, Pair: pair}
		case state == Invalid && packet.In != "":
			return Verdict{Action: Deny, Pair: pair}
		}
	}
	if s := p.service(packet, false); s != nil {
		return Verdict{Action: Permit, Rule: s, Pair: pair}
	}
	if pair == nil {
		if packet.In == "" {
			return Verdict{Action: Permit}
		}
		return Verdict{Action: Deny}
	}
	for _, i := range pair.Rules {
		if r := &p.Rules[i]; p.matches(r, packet) {
			return Verdict{Action: r.Action, Rule: r, Pair: pair, Log: r.Log != nil}
		}
	}
	return Verdict{Action: pair.Default, Pair: pair, Log: pair.Log && pair.Default != Permit}
}

// service is the service of the router that permits a packet, of those that are read before the state or of the others.
func (p *Policy) service(packet Packet, anyState bool) *Rule {
	for i := range p.Services {
		s := &p.Services[i]
		if s.AnyState == anyState && (packet.Out == "" && only(s.To, Self) || packet.In == "" && only(s.From, Self)) && p.matches(s, packet) {
			return s
		}
	}
	return nil
}

// zoneOfSide is the zone of an interface, or Self for none.
func (p *Policy) zoneOfSide(iface string) (ZoneID, bool) {
	if iface == "" {
		return Self, true
	}
	return p.ZoneOf(iface)
}

func (p *Policy) matches(r *Rule, packet Packet) bool {
	four, iface := packet.Source.Is4(), packet.In
	iface = cmp.Or(iface, packet.Out)
	switch {
	case four && !r.IPv4, !four && !r.IPv6:
	case r.Interfaces != nil && !slices.Contains(r.Interfaces, iface):
	case r.Protocols != nil && !slices.Contains(r.Protocols, packet.Protocol):
	case r.ICMP != nil && !slices.Contains(r.ICMP, ICMPType{packet.Protocol, packet.ICMPType}):
	case r.ICMP != nil && four != (packet.Protocol == protoICMP):
	case r.Schedule != nil && !r.Schedule.Holds(packet.At):
	case r.HopLimit255 && packet.HopLimit != 255:
	case !p.inAddresses(r.Source, packet.Source), !p.inAddresses(r.Destination, packet.Destination):
	case !p.inPorts(r.SourcePorts, packet.SourcePort), !p.inPorts(r.Ports, packet.DestPort):
	default:
		return true
	}
	return false
}

func (p *Policy) inAddresses(a Addresses, address netip.Addr) bool {
	inside := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	if a.Any || slices.ContainsFunc(a.Prefixes, inside) {
		return true
	}
	return slices.ContainsFunc(a.Sets, func(s int) bool { return p.Sets[s].contains(address) }) != a.Not
}

// contains asks the only prefix that can have the address: the last that begins at it or before.
func (s *Set) contains(address netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(s.Prefixes, address, func(p netip.Prefix, a netip.Addr) int {
		if p.Addr().Compare(a) <= 0 {
			return -1
		}
		return 1
	})
	return i > 0 && s.Prefixes[i-1].Contains(address)
}

func (p *Policy) inPorts(ports Ports, port uint16) bool {
	inside := func(r PortRange) bool { return r.First <= port && port <= r.Last }
	if ports.Any || slices.ContainsFunc(ports.Ranges, inside) {
		return true
	}
	return slices.ContainsFunc(ports.Sets, func(s int) bool { return slices.ContainsFunc(p.Sets[s].Ports, inside) })
}
