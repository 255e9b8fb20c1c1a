// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"net/netip"
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
)

// IP protocol numbers.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
)

// variant is how a rule is read on some ways, in bits: whether they keep no state, and
// whether tests have said already that a packet's address is in the rule's sets. No
// packet is of two.
type variant uint8

const (
	noState variant = 1 << iota
	inSource
	inDestination
	variants // how many there are
)

// rules writes the guards, the rules in the order of the file, which is also that
// of each pair, and the defaults.
func (l *lowering) rules() []classify.Rule {
	numbers := make([][variants][]uint8, len(l.p.Rules)) // of ways, by rule
	for i := range l.groups {
		g := &l.groups[i]
		for _, r := range g.rules {
			for answers := range 1 << len(g.tests) {
				v := l.variant(g, &l.p.Rules[r], answers)
				numbers[r][v] = append(numbers[r][v], uint8(g.number+answers))
			}
		}
	}
	list := l.guards()
	for i := range numbers {
		for v, zones := range numbers[i] {
			if len(zones) > 0 {
				list = append(list, l.rule(&l.p.Rules[i], variant(v), zones)...)
			}
		}
	}
	return append(list, l.defaults()...)
}

// variant is how a rule is read on a way whose tests were answered.
func (l *lowering) variant(g *group, r *policy.Rule, answers int) (v variant) {
	if g.pair.Stateless {
		v |= noState
	}
	if l.setTests(&r.Source, false, g.tests, answers) {
		v |= inSource
	}
	if l.setTests(&r.Destination, true, g.tests, answers) {
		v |= inDestination
	}
	return v
}

// defaults writes what becomes of packets that no rule matches.
func (l *lowering) defaults() (list []classify.Rule) {
	for i := range l.groups {
		g := &l.groups[i]
		if !g.open {
			continue
		}
		v := verdict(g.pair.Default, g.pair.Log && g.pair.Default != policy.Permit, g.pair.Stateless)
		if v.Action == filter.Drop || v.Action == filter.Permit && len(g.rules) > 0 {
			v.Counter = uint16(firstDefault(l.p) + g.number)
		}
		list = append(list, classify.Rule{Zones: g.numbers(), Verdict: v.Word()})
	}
	return list
}

// numbers are those of the group, one for each answer to its tests.
func (g *group) numbers() (list []uint8) {
	for answers := range 1 << len(g.tests) {
		list = append(list, uint8(g.number+answers))
	}
	return list
}

// verdict is what the fast path does for an action; the counter is to be filled in.
func verdict(a policy.Action, log, stateless bool) filter.Verdict {
	switch {
	case a == policy.Deny:
		return filter.Verdict{Action: filter.Drop, Log: log}
	case a == policy.Permit && stateless:
		return filter.Verdict{Action: filter.Permit, Log: log}
	}
	return filter.Verdict{Action: filter.Kernel}
}

// ruleVerdict is the verdict of a rule. One whose conditions are not all in the
// classifier's words is the kernel's: what matches the others is looked at there.
func ruleVerdict(r *policy.Rule, stateless bool) uint32 {
	if r.Limit != nil || beyondWords(r) {
		return filter.Verdict{Action: filter.Kernel}.Word()
	}
	v := verdict(r.Action, r.Log != nil, stateless)
	if v.Action != filter.Kernel {
		v.Counter = uint16(r.ID)
	}
	return v.Word()
}

// beyondWords reports whether a rule has conditions that the classifier doesn't know:
// a time, or what stands in services of the router only.
func beyondWords(r *policy.Rule) bool {
	return r.Interfaces != nil || r.HopLimit255 || r.Schedule != nil
}

// matchesAll reports whether no packet gets past a rule.
func matchesAll(r *policy.Rule) bool {
	return r.IPv4 && r.IPv6 && r.Protocols == nil && r.ICMP == nil && !beyondWords(r) &&
		r.Source.Any && r.Destination.Any && r.SourcePorts.Any && r.Ports.Any
}

// rule writes one rule for the ways with these numbers: none when it matches no
// packet, one for each protocol when it asks for types of ICMP.
func (l *lowering) rule(r *policy.Rule, v variant, zones []uint8) []classify.Rule {
	one := classify.Rule{Zones: zones, Verdict: ruleVerdict(r, v&noState != 0)}
	if r.IPv4 {
		one.Family |= classify.IPv4
	}
	if r.IPv6 {
		one.Family |= classify.IPv6
	}
	if r.Source.Not || r.Destination.Not {
		return l.negated(r, one, v)
	}
	var some [4]bool
	one.Source, some[0] = l.prefixes(&r.Source, v&inSource != 0)
	one.Destination, some[1] = l.prefixes(&r.Destination, v&inDestination != 0)
	one.SourcePorts, some[2] = l.ports(&r.SourcePorts)
	one.DestinationPorts, some[3] = l.ports(&r.Ports)
	if one.Family == 0 || slices.Contains(some[:], false) {
		return nil
	}
	if r.ICMP != nil {
		return icmp(r, one)
	}
	for _, p := range r.Protocols {
		one.Protocols.Add(p)
	}
	return []classify.Rule{one}
}

// negated writes a rule about packets whose source, or destination, is not in a set. Where the set is compiled into the rules
// rather than asked for, every packet may be meant, and the kernel looks.
func (l *lowering) negated(r *policy.Rule, one classify.Rule, v variant) []classify.Rule {
	side, in := &r.Source, v&inSource != 0
	if r.Destination.Not {
		side, in = &r.Destination, v&inDestination != 0
	}
	if in {
		return nil
	}
	if _, asked := l.byAddr[side.Sets[0]]; !asked {
		one.Verdict = filter.Verdict{Action: filter.Kernel}.Word()
	}
	return []classify.Rule{one}
}

// icmp writes a rule for ICMP of IPv4, and for that of IPv6.
func icmp(r *policy.Rule, one classify.Rule) (list []classify.Rule) {
	for _, f := range []struct {
		protocol uint8
		family   classify.Family
	}{{protoICMP, classify.IPv4}, {protoICMPv6, classify.IPv6}} {
		next := one
		next.Family &= f.family
		next.Protocols = classify.ProtocolSet(f.protocol)
		for _, t := range r.ICMP {
			if t.Protocol == f.protocol {
				next.ICMP = append(next.ICMP, classify.ICMPRange{Type: t.Type, LastCode: 255})
			}
		}
		if next.Family != 0 && next.ICMP != nil && (r.Protocols == nil || slices.Contains(r.Protocols, f.protocol)) {
			list = append(list, next)
		}
	}
	return list
}

// prefixes are the addresses of a side, nil for all. some is false when no address is among them.
func (l *lowering) prefixes(a *policy.Addresses, in bool) (list []netip.Prefix, some bool) {
	if a.Any || in {
		return nil, true
	}
	list = a.Prefixes
	for _, s := range a.Sets {
		if _, ok := l.byAddr[s]; ok {
			continue // the tests have said that the address is not there
		}
		if elements := l.p.Sets[s].Prefixes; len(list) == 0 {
			list = elements
		} else {
			list = slices.Concat(list, elements)
		}
	}
	return list, len(list) > 0
}

// ports are those of a side, nil for all. some is false when no port is among them.
func (l *lowering) ports(p *policy.Ports) (list []classify.Range, some bool) {
	if p.Any {
		return nil, true
	}
	add := func(ranges []policy.PortRange) {
		for _, r := range ranges {
			list = append(list, classify.Range{First: r.First, Last: r.Last})
		}
	}
	add(p.Ranges)
	for _, s := range p.Sets {
		add(l.p.Sets[s].Ports)
	}
	return list, len(list) > 0
}
