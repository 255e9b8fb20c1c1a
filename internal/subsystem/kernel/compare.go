// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// Comparing the ledger with a dump. Routes of one identity come one after the
// other in a dump, so each identity is settled when the next begins. What a
// complete dump did not show is gone.

// beginDump starts a comparison of one family.
func (l *ledger) beginDump(family uint8) {
	if family == unix.AF_INET {
		l.seen4 ^= seenBit
	} else {
		l.seen6 ^= seenBit
	}
	l.dumped = l.dumped[:0]
}

// dump takes the next route of the dump.
func (l *ledger) dump(r *routeMessage) {
	if len(l.dumped) > 0 && !sameIdentity(&l.at, &r.Route) {
		l.settle()
	}
	if len(l.dumped) == 0 {
		l.at = rib.Route{Prefix: r.Prefix, Source: r.Source, Table: r.Table, Metric: r.Metric, TOS: r.TOS}
	}
	n := l.number(&r.Route)
	l.use(n) // held until settled, or another identity's change could forget it
	if slices.Contains(l.dumped, n) {
		l.release(n)
		return
	}
	l.dumped = append(l.dumped, n)
}

func sameIdentity(a, b *rib.Route) bool {
	return a.Prefix == b.Prefix && a.Table == b.Table && a.Metric == b.Metric && a.TOS == b.TOS && a.Source == b.Source
}

// settle writes the shapes met of one identity into the ledger.
func (l *ledger) settle() {
	if len(l.dumped) == 0 {
		return
	}
	if l.at.Prefix.Addr().Is4() {
		k := keyOf4(&l.at)
		e, ok := l.v4[k]
		l.v4[k], _ = l.put(e, ok, l.dumped, l.seen4, &l.at)
	} else {
		k := l.keyOf6(&l.at)
		e, ok := l.v6[k]
		l.v6[k], _ = l.put(e, ok, l.dumped, l.seen6, &l.at)
	}
	for _, n := range l.dumped {
		l.release(n)
	}
	l.dumped = l.dumped[:0]
}

// endDump settles the last identity. When the dump was complete, what it did not show is deleted.
func (l *ledger) endDump(family uint8, complete bool) {
	l.settle()
	if !complete {
		return
	}
	if family == unix.AF_INET {
		for k, e := range l.v4 {
			if e&seenBit != l.seen4 {
				identity := k.route()
				l.put(e, true, nil, 0, &identity)
				delete(l.v4, k)
			}
		}
		return
	}
	for k, e := range l.v6 {
		if e&seenBit != l.seen6 {
			identity := l.route6(k)
			l.put(e, true, nil, 0, &identity)
			delete(l.v6, k)
		}
	}
}

// dropNextHop deletes the routes of a next-hop object that is gone, as the kernel does without a word.
func (l *ledger) dropNextHop(id uint32) {
	if !slices.ContainsFunc(l.list, func(s shape) bool { return s.used > 0 && s.route.NextHopID == id }) {
		return
	}
	for k, e := range l.v4 {
		if after, gone := l.withoutNextHop(l.shapesOf(e, true), id); gone {
			identity := k.route()
			if e, keep := l.put(e, true, after, l.seen4, &identity); keep {
				l.v4[k] = e
			} else {
				delete(l.v4, k)
			}
		}
	}
	for k, e := range l.v6 {
		if after, gone := l.withoutNextHop(l.shapesOf(e, true), id); gone {
			identity := l.route6(k)
			if e, keep := l.put(e, true, after, l.seen6, &identity); keep {
				l.v6[k] = e
			} else {
				delete(l.v6, k)
			}
		}
	}
}

func (l *ledger) withoutNextHop(before []uint32, id uint32) (after []uint32, gone bool) {
	uses := func(n uint32) bool { return l.list[n].route.NextHopID == id }
	if !slices.ContainsFunc(before, uses) {
		return nil, false
	}
	l.after = slices.DeleteFunc(append(l.after[:0], before...), uses)
	return l.after, true
}
