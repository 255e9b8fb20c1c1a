// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/filter"
)

// firstNumber of ways: 0 stays free, so that it may stand for none.
const firstNumber = 1

// room is how many numbers ways can have.
const room = filter.MaxIDs - firstNumber

// lowering is a filter.Policy in the making.
type lowering struct {
	p      *policy.Policy
	groups []group
	byAddr map[int]uint8 // sets that are asked for by address: place in policy.Sets → place in filter.Sets
}

// group is ways that mean the same.
type group struct {
	pair   *policy.Pair // one of them
	rules  []int        // of the pair, up to one that matches everything
	open   bool         // packets may get past the rules
	ways   []filter.ZonePair
	uses   map[int]sides // sets of addresses that the rules speak of
	tests  []filter.Test
	number int
}

// sides is where a rule speaks of a set.
type sides struct{ source, destination bool }

func (s sides) count() (n int) {
	if s.source {
		n++
	}
	if s.destination {
		n++
	}
	return n
}

// Lower makes the fast path's firewall of a policy, nil of nil. Elements that sets
// have only while the router runs must be in the policy's sets. A policy that is
// too much for the fast path is left to the kernel: Kernel says why.
func Lower(p *policy.Policy) *filter.Policy {
	if p == nil {
		return nil
	}
	if n := len(p.Zones) - 1; n > filter.MaxZones {
		return &filter.Policy{Kernel: fmt.Sprintf("there are %d zones; the fast path supports %d", n, filter.MaxZones)}
	}
	l := &lowering{p: p}
	if !l.number() {
		return &filter.Policy{Kernel: fmt.Sprintf("the zone pairs have %d different policies; the fast path supports %d", len(l.groups), room)}
	}
	j := l.policy()
	if err := j.Check(); err != nil {
		return &filter.Policy{Kernel: err.Error()}
	}
	return j
}

// number finds the groups with their numbers and tests. false: there is no room.
func (l *lowering) number() bool {
	for _, alone := range []bool{true, false} {
		l.group(alone)
		if len(l.groups) <= room && l.chooseSets() {
			break
		}
	}
	next := firstNumber
	for i := range l.groups {
		l.groups[i].number = next
		next += 1 << len(l.groups[i].tests)
	}
	return next <= filter.MaxIDs
}

// group puts ways together that mean the same. alone leaves those apart whose
// defaults count.
func (l *lowering) group(alone bool) {
	l.groups, l.byAddr = nil, nil
	known := map[string]int{}
	for i := range l.p.Pairs {
		pair := &l.p.Pairs[i]
		if !l.forwards(pair) {
			continue
		}
		rules, open := l.reached(pair)
		key := meaning(pair, rules, open)
		if alone && open && len(rules) > 0 {
			key += fmt.Sprint(i)
		}
		at, ok := known[key]
		if !ok {
			at = len(l.groups)
			known[key] = at
			l.groups = append(l.groups, group{pair: pair, rules: rules, open: open, uses: l.setsOf(rules)})
		}
		l.groups[at].ways = append(l.groups[at].ways, filter.ZonePair{From: uint8(pair.From), To: uint8(pair.To)})
	}
}

// forwards reports whether packets can come along a way and be forwarded.
func (l *lowering) forwards(pair *policy.Pair) bool {
	return pair.From != policy.Self && pair.To != policy.Self &&
		len(l.p.Zones[pair.From].Interfaces) > 0 && len(l.p.Zones[pair.To].Interfaces) > 0
}

// reached are a pair's rules up to one that matches everything; open when none does.
func (l *lowering) reached(pair *policy.Pair) (rules []int, open bool) {
	for i, r := range pair.Rules {
		if matchesAll(&l.p.Rules[r]) {
			return pair.Rules[:i+1], false
		}
	}
	return pair.Rules, true
}

// meaning is equal for pairs that evaluate alike.
func meaning(pair *policy.Pair, rules []int, open bool) string {
	key := fmt.Appendf(nil, "%t %t ", pair.Stateless, open)
	if open {
		key = fmt.Appendf(key, "%d %t ", pair.Default, pair.Log)
	}
	for _, r := range rules {
		key = binary.LittleEndian.AppendUint32(key, uint32(r))
	}
	return string(append(key, ' '))
}

// policy writes what was found.
func (l *lowering) policy() *filter.Policy {
	j := &filter.Policy{
		Zones: map[string]uint8{}, VRFs: map[string]uint32{}, Pairs: map[filter.ZonePair]filter.Pair{},
		Stateful: len(l.p.NAT) > 0, Translates: len(l.p.NAT)+len(l.p.Portals) > 0, Beginnings: beginnings(l.p), MSSClamp: l.p.MSSClamp,
		Counters:    firstDefault(l.p) - 1,
		ICMPLimited: slices.ContainsFunc(l.p.Limits, func(s policy.SourceLimit) bool { return s.ICMP != nil }),
	}
	for i, z := range l.p.Zones[1:] {
		for _, name := range z.Interfaces {
			j.Zones[name] = uint8(i + 1)
			if v := l.p.VRFOf(name); v != nil {
				j.VRFs[name] = uint32(v.Table)
			}
		}
	}
	for i := range l.groups {
		g := &l.groups[i]
		j.Stateful = j.Stateful || !g.pair.Stateless
		j.Counters = max(j.Counters, firstDefault(l.p)+g.number)
		for _, way := range g.ways {
			j.Pairs[way] = filter.Pair{ID: uint8(g.number), Stateless: g.pair.Stateless, Tests: g.tests}
		}
	}
	j.Sets = make([]filter.Set, len(l.byAddr))
	for s, at := range l.byAddr {
		j.Sets[at] = filter.Set{Name: l.p.Sets[s].Name, Prefixes: l.p.Sets[s].Prefixes}
	}
	j.Rules = l.rules()
	l.name(j)
	return j
}

// name says how the operator knows zones, rules and defaults.
func (l *lowering) name(j *filter.Policy) {
	j.Names.Zones = make([]string, len(l.p.Zones)) // 0 is an interface without one
	for i, z := range l.p.Zones[1:] {
		j.Names.Zones[i+1] = z.Name
	}
	j.Names.Counters = make([]string, j.Counters+1)
	j.Names.Rules, j.Names.Defaults = make([]string, len(l.p.Rules)+1), firstDefault(l.p)
	for i := range l.p.Rules {
		r := &l.p.Rules[i]
		j.Names.Rules[RuleCounter(r)] = r.Name
		j.Names.Counters[RuleCounter(r)] = fmt.Sprintf("rule %d (%s)", r.ID, cmp.Or(r.Name, r.Text))
	}
	for i := range l.groups {
		j.Names.Counters[firstDefault(l.p)+l.groups[i].number] = "the default, " + l.groups[i].pair.Default.String()
	}
}
