// SPDX-License-Identifier: Apache-2.0

// Package offloadtest lets the fast path's rules speak about single packets, so
// that tests can hold them against the reference: as package offload lowers
// them, and as package classify compiles that. It says anew, packet by packet, what
// offload says for all packets at once.
package offloadtest

import (
	"fmt"
	"net/netip"
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/offload"
)

// noRule is the verdict of packets that no rule matches; there are none.
const noRule = 3

// Voice is a policy as the fast path has it.
type Voice struct {
	Policy   *policy.Policy
	Lowered  *filter.Policy
	tables   *classify.Tables
	counters offload.Counters
}

// New lowers and compiles a policy.
func New(p *policy.Policy) (*Voice, error) {
	v := &Voice{Policy: p, Lowered: offload.Lower(p)}
	if v.Lowered.Kernel != "" {
		return nil, fmt.Errorf("left to the kernel: %s", v.Lowered.Kernel)
	}
	v.counters = offload.CountersOf(p, v.Lowered)
	var err error
	v.tables, err = classify.Compile(v.Lowered.Rules, classify.Options{None: noRule})
	return v, err
}

// Ask asks about a packet that belongs to no known connection. wrong says where the
// rules, the tables made of them, and the reference differ; "" when they don't. The
// packet comes when all schedules hold: at other times a rule that has one is the kernel's too.
// icmpCode is the code of a message, fragment tells of one behind the first.
func (v *Voice) Ask(w policy.Packet, icmpCode uint8, fragment bool) (verdict filter.Verdict, wrong string) {
	way, ok := v.way(w)
	pair := v.Policy.Pair(policy.ZoneID(way.From), policy.ZoneID(way.To))
	want := v.want(w, pair, fragment)
	if !ok {
		return verdict, fmt.Sprintf("way %v is not known to the fast path", way)
	}
	k := v.key(w, way, icmpCode, fragment)
	rules, tables := classify.Match(v.Lowered.Rules, &k, noRule), v.tables.Lookup(&k)
	if rules == want.Word() && tables == rules {
		return want, ""
	}
	return want, fmt.Sprintf("%+v\n  fragment: %t, way %v, its number %d\n  reference: %s\n  rules:     %s\n  tables:    %s",
		w, fragment, way, k.Zone, words(want.Word()), words(rules), words(tables))
}

func words(word uint32) string {
	v := filter.VerdictOf(word)
	return fmt.Sprintf("%s, log %t, counter %d", [...]string{"kernel", "permit", "drop", "no rule"}[v.Action], v.Log, v.Counter)
}

// way is the way of a packet that is forwarded.
func (v *Voice) way(w policy.Packet) (filter.ZonePair, bool) {
	way := filter.ZonePair{From: v.Lowered.Zones[w.In], To: v.Lowered.Zones[w.Out]}
	_, ok := v.Lowered.Pairs[way]
	return way, ok
}

// key is what the program makes of a packet for the classifier.
func (v *Voice) key(w policy.Packet, way filter.ZonePair, icmpCode uint8, fragment bool) classify.Key {
	pair := v.Lowered.Pairs[way]
	k := classify.Key{Source: classify.KeyAddress(w.Source), Destination: classify.KeyAddress(w.Destination),
		Kind: uint16(w.Protocol), Zone: pair.ID, IPv6: w.Source.Is6()}
	switch {
	case fragment:
		k.Kind |= classify.KindFragment
	case w.Protocol == 1, w.Protocol == 58:
		k.DestinationPort = uint16(w.ICMPType)<<8 | uint16(icmpCode)
	case slices.Contains([]uint8{6, 17, 33, 132, 136}, w.Protocol):
		k.SourcePort, k.DestinationPort = w.SourcePort, w.DestPort
	}
	for i, t := range pair.Tests {
		address := w.Source
		if t.Destination {
			address = w.Destination
		}
		if slices.ContainsFunc(v.Lowered.Sets[t.Set].Prefixes, func(p netip.Prefix) bool { return p.Contains(address) }) {
			k.Zone += 1 << i
		}
	}
	return k
}

// want is the verdict that the reference's means for the fast path.
func (v *Voice) want(w policy.Packet, pair *policy.Pair, fragment bool) filter.Verdict {
	said := policy.Evaluate(v.Policy, w, policy.New)
	if fragment || v.guarded(w, pair) || said.Action == policy.Reject || said.Action == policy.Permit && !pair.Stateless ||
		said.Rule != nil && (said.Rule.Limit != nil || said.Rule.Schedule != nil) {
		return filter.Verdict{Action: filter.Kernel}
	}
	verdict := filter.Verdict{Action: filter.Drop, Log: said.Log}
	if said.Action == policy.Permit {
		verdict.Action = filter.Permit
	}
	switch {
	case said.Rule != nil:
		verdict.Counter = uint16(offload.RuleCounter(said.Rule))
	case len(pair.Rules) > 0:
		verdict.Counter = uint16(v.counters.Unmatched[filter.ZonePair{From: uint8(pair.From), To: uint8(pair.To)}])
	case said.Action == policy.Deny: // which counter that is, the sum over Denied doesn't care
		k := v.key(w, filter.ZonePair{From: uint8(pair.From), To: uint8(pair.To)}, 0, false)
		got := filter.VerdictOf(classify.Match(v.Lowered.Rules, &k, noRule))
		if slices.Contains(v.counters.Denied, int(got.Counter)) {
			verdict.Counter = got.Counter
		}
	}
	return verdict
}

// guarded reports whether a packet is the kernel's whatever the rules say.
func (v *Voice) guarded(w policy.Packet, pair *policy.Pair) bool {
	lookedUp := w.Protocol == 6 || w.Protocol == 17
	switch {
	case !lookedUp && !pair.Stateless:
		return true
	case w.Source.Is6() && slices.Contains([]uint8{0, 43, 44, 51, 60}, w.Protocol) && pair.Stateless:
		return true
	}
	return slices.ContainsFunc(v.Policy.NAT, func(n policy.NAT) bool {
		return n.Kind == policy.OneToOne && n.Outside.Contains(w.Destination) ||
			n.Kind == policy.PortForward && n.Protocol == w.Protocol && n.Address == w.Destination &&
				n.Ports.First <= w.DestPort && w.DestPort <= n.Ports.Last
	})
}
