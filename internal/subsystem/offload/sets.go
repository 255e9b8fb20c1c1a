// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"cmp"
	"maps"
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/filter"
)

// LargeSet is how many elements a set can have and still be compiled into the rules.
const LargeSet = 512

// setsOf are the sets of addresses that rules speak of.
func (l *lowering) setsOf(rules []int) map[int]sides {
	uses := map[int]sides{}
	for _, i := range rules {
		r := &l.p.Rules[i]
		for _, s := range r.Source.Sets {
			u := uses[s]
			u.source = true
			uses[s] = u
		}
		for _, s := range r.Destination.Sets {
			u := uses[s]
			u.destination = true
			uses[s] = u
		}
	}
	return uses
}

// candidates are the sets to be asked for by address, the largest first.
func (l *lowering) candidates() (list []int) {
	used := map[int]bool{}
	for i := range l.groups {
		for s := range l.groups[i].uses {
			if set := &l.p.Sets[s]; len(set.Prefixes) > LargeSet || set.Timeout > 0 || set.Fed {
				used[s] = true
			}
		}
	}
	size := func(s int) int { return len(l.p.Sets[s].Prefixes) }
	return slices.SortedFunc(maps.Keys(used), func(a, b int) int { return cmp.Or(size(b)-size(a), a-b) })
}

// chooseSets gives the groups their tests. It returns whether there was room for all.
func (l *lowering) chooseSets() (all bool) {
	all, l.byAddr = true, map[int]uint8{}
	for _, s := range l.candidates() {
		if len(l.byAddr) == filter.MaxSets || !l.fits(s) {
			all = false
			continue
		}
		at := uint8(len(l.byAddr))
		l.byAddr[s] = at
		for i := range l.groups {
			g := &l.groups[i]
			if g.uses[s].source {
				g.tests = append(g.tests, filter.Test{Set: at})
			}
			if g.uses[s].destination {
				g.tests = append(g.tests, filter.Test{Set: at, Destination: true})
			}
		}
	}
	return all
}

// fits reports whether one more set can be asked for by address on all ways that use it.
func (l *lowering) fits(set int) bool {
	numbers := 0
	for i := range l.groups {
		tests := len(l.groups[i].tests) + l.groups[i].uses[set].count()
		if tests > filter.MaxTests {
			return false
		}
		numbers += 1 << tests
	}
	return numbers <= room
}

// setTests is what tests say of a side of a rule: in is true when the packet's address is in one of
// the sets that the rule names.
func (l *lowering) setTests(a *policy.Addresses, destination bool, tests []filter.Test, answers int) (in bool) {
	for _, s := range a.Sets {
		at, ok := l.byAddr[s]
		if !ok {
			continue
		}
		if t := slices.Index(tests, filter.Test{Set: at, Destination: destination}); answers>>t&1 != 0 {
			return true
		}
	}
	return false
}
