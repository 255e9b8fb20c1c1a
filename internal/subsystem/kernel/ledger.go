// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// The ledger holds every route that the listener was told, so that the watcher
// can tell what the kernel does not:
//
//   - IPv4 routes that go because their link went down, lost a preferred source
//     address, or lost their next-hop object, go without a notification. A new
//     dump is compared with the ledger, and only the differences are told. For a
//     deleted next-hop object the ledger itself knows its routes.
//   - Several routes may share what identifies a route to the listener (prefix,
//     table, metric, TOS): the kernel uses the first of them, and after that one
//     goes, the next. The ledger keeps them in the kernel's order and tells the first.
//   - IPv6 deletes next hops of a route one by one: the ledger knows what is left.
//   - Notifications that change nothing are not passed on.
//
// What a route leads to, without its identity, is a shape (shape.go). The ledger
// maps an identity to the number of a shape: no pointers, so the collector passes
// by. A full table of 901,899 IPv4 and 160,147 IPv6 routes takes 41 MB.

// key4 identifies an IPv4 route.
type key4 struct {
	addr          [4]byte
	table, metric uint32
	bits, tos     uint8
}

// key6 identifies an IPv6 route.
type key6 struct {
	addr          [16]byte
	table, metric uint32
	source        uint16 // number of the source prefix, 0 for none
	bits, tos     uint8
}

// entry is the number of a shape, or with severalBit that of a list of shapes. seenBit tells
// entries that a comparison has met from those it has not.
type entry uint32

const (
	severalBit entry = 1 << 31
	seenBit    entry = 1 << 30
	numberMask       = seenBit - 1
)

type ledger struct {
	shapes
	v4    map[key4]entry
	v6    map[key6]entry
	seen4 entry // seenBit or 0: how entries met last are marked
	seen6 entry

	lists  [][]uint32 // of identities that the kernel has more than once: their shapes in its order
	unused []uint32   // numbers of empty lists

	sources  []netip.Prefix // of IPv6 source-specific routes; few
	sourceOf map[netip.Prefix]uint16

	one    [1]uint32 // room for shapesOf
	after  []uint32  // room for the shapes after a change
	dumped []uint32  // shapes of the identity that a comparison is at
	at     rib.Route // that identity

	out    []rib.RouteChange // what the listener has to be told, up to a batch
	listen func([]rib.RouteChange)
}

// routeBatch is how many route changes are told at once.
const routeBatch = 4096

func newLedger(listen func([]rib.RouteChange)) *ledger {
	return &ledger{
		listen: listen, out: make([]rib.RouteChange, 0, routeBatch),
		shapes: newShapes(), v4: map[key4]entry{}, v6: map[key6]entry{},
		sources: []netip.Prefix{{}}, sourceOf: map[netip.Prefix]uint16{{}: 0},
	}
}

func keyOf4(r *rib.Route) key4 {
	return key4{addr: r.Prefix.Addr().As4(), bits: uint8(r.Prefix.Bits()), table: r.Table, metric: r.Metric, tos: r.TOS}
}

func (l *ledger) keyOf6(r *rib.Route) key6 {
	source, ok := l.sourceOf[r.Source]
	if !ok {
		source = uint16(len(l.sources))
		l.sources = append(l.sources, r.Source)
		l.sourceOf[r.Source] = source
	}
	return key6{addr: r.Prefix.Addr().As16(), bits: uint8(r.Prefix.Bits()), table: r.Table, metric: r.Metric, tos: r.TOS, source: source}
}

func (k key4) route() rib.Route {
	return rib.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4(k.addr), int(k.bits)), Table: k.table, Metric: k.metric, TOS: k.tos}
}

func (l *ledger) route6(k key6) rib.Route {
	return rib.Route{Prefix: netip.PrefixFrom(netip.AddrFrom16(k.addr), int(k.bits)), Source: l.sources[k.source],
		Table: k.table, Metric: k.metric, TOS: k.tos}
}

// shapesOf returns the shapes of an entry, valid until the next call or change.
func (l *ledger) shapesOf(e entry, ok bool) []uint32 {
	if !ok {
		return nil
	}
	if e&severalBit != 0 {
		return l.lists[e&numberMask]
	}
	l.one[0] = uint32(e & numberMask)
	return l.one[:]
}

// change takes a notification into the ledger and tells what it means. sure is false when the
// ledger can't tell what the kernel has now: the family has to be compared with a dump.
func (l *ledger) change(r *routeMessage, deleted bool, flags uint16) (sure bool) {
	if r.Prefix.Addr().Is4() {
		k := keyOf4(&r.Route)
		e, ok := l.v4[k]
		after, sure := l.next4(l.shapesOf(e, ok), &r.Route, deleted, flags)
		if ne, keep := l.put(e, ok, after, l.seen4, &r.Route); keep {
			l.v4[k] = ne
		} else if ok {
			delete(l.v4, k)
		}
		return sure
	}
	k := l.keyOf6(&r.Route)
	e, ok := l.v6[k]
	after, sure := l.next6(l.shapesOf(e, ok), &r.Route, deleted, flags)
	if ne, keep := l.put(e, ok, after, l.seen6, &r.Route); keep {
		l.v6[k] = ne
	} else if ok {
		delete(l.v6, k)
	}
	return sure
}

// put replaces the shapes of an identity and tells the difference. keep is false when none is left.
func (l *ledger) put(old entry, had bool, after []uint32, seen entry, identity *rib.Route) (e entry, keep bool) {
	before := l.shapesOf(old, had)
	if slices.Equal(before, after) {
		return old&^seenBit | seen, had
	}
	switch {
	case len(after) == 0:
		l.notify(identity, before[0], true)
	case len(before) == 0 || before[0] != after[0]:
		l.notify(identity, after[0], false)
	}
	for _, s := range after {
		l.use(s)
	}
	for _, s := range before {
		l.release(s)
	}
	var list uint32
	reuse := had && old&severalBit != 0
	if reuse {
		list = uint32(old & numberMask)
	}
	if len(after) < 2 {
		if reuse {
			l.lists[list] = nil
			l.unused = append(l.unused, list)
		}
		if len(after) == 0 {
			return 0, false
		}
		return entry(after[0]) | seen, true
	}
	if !reuse {
		list = l.newList()
	}
	l.lists[list] = slices.Clone(after)
	return entry(list) | severalBit | seen, true
}

func (l *ledger) newList() uint32 {
	if n := len(l.unused); n > 0 {
		list := l.unused[n-1]
		l.unused = l.unused[:n-1]
		return list
	}
	l.lists = append(l.lists, nil)
	return uint32(len(l.lists) - 1)
}

// flush tells the changes collected so far.
func (l *ledger) flush() {
	if len(l.out) > 0 {
		l.listen(l.out)
		clear(l.out)
		l.out = l.out[:0]
	}
}

// notify collects a change for the listener.
func (l *ledger) notify(identity *rib.Route, shape uint32, deleted bool) {
	route := l.list[shape].route
	route.Prefix, route.Source, route.Table = identity.Prefix, identity.Source, identity.Table
	route.Metric, route.TOS = identity.Metric, identity.TOS
	if l.out = append(l.out, rib.RouteChange{Route: route, Deleted: deleted}); len(l.out) == routeBatch {
		l.flush()
	}
}

// next4 is what the kernel has of an IPv4 identity after a notification. It puts a new route in front
// (NLM_F_CREATE alone), at the end (NLM_F_APPEND) or in the place of the first (NLM_F_REPLACE), and
// never has two that are the same.
func (l *ledger) next4(before []uint32, r *rib.Route, deleted bool, flags uint16) (after []uint32, sure bool) {
	l.after = append(l.after[:0], before...)
	if deleted {
		if len(before) == 0 {
			return before, true
		}
		i := slices.IndexFunc(l.after, func(s uint32) bool { return l.same(s, r) })
		if i < 0 {
			if len(before) > 1 {
				return before, false
			}
			i = 0
		}
		l.after = slices.Delete(l.after, i, i+1)
		return l.after, true
	}
	s := l.number(r)
	switch i := slices.Index(l.after, s); {
	case len(before) == 0:
		l.after = append(l.after, s)
	case flags&unix.NLM_F_REPLACE != 0:
		if i < 0 {
			l.after[0] = s
		}
	case flags&unix.NLM_F_APPEND != 0:
		if i >= 0 {
			l.after = slices.Delete(l.after, i, i+1)
		}
		l.after = append(l.after, s)
	default:
		if i >= 0 {
			l.after = slices.Delete(l.after, i, i+1)
		}
		l.after = slices.Insert(l.after, 0, s)
	}
	return l.after, true
}

// next6 is what the kernel has of an IPv6 identity after a notification. Routes with gateways form
// one group, told whole with each addition and deleted hop by hop or whole; others (on the link, by
// next-hop object, rejecting) stand beside it.
func (l *ledger) next6(before []uint32, r *rib.Route, deleted bool, flags uint16) (after []uint32, sure bool) {
	if deleted {
		return l.without6(before, r)
	}
	if len(before) == 0 || flags&unix.NLM_F_EXCL != 0 {
		l.after = append(l.after[:0], l.number(r))
		return l.after, true
	}
	l.after = append(l.after[:0], before...)
	i := slices.IndexFunc(l.after, func(s uint32) bool { return grouping(&l.list[s].route) == grouping(r) })
	switch {
	case flags&unix.NLM_F_REPLACE != 0:
		l.after[max(i, 0)] = l.number(r)
		return l.after, true
	case grouping(r) && i >= 0:
		hops, sure := inOrder(l.list[l.after[i]].route.Hops, r.Hops)
		r.Hops = hops
		l.after[i] = l.number(r)
		return l.after, sure
	}
	s := l.number(r)
	if !slices.Contains(l.after, s) {
		l.after = append(l.after, s)
	}
	return l.after, true
}

// without6 takes a deleted route, or deleted hops, away.
func (l *ledger) without6(before []uint32, r *rib.Route) (after []uint32, sure bool) {
	l.after = append(l.after[:0], before...)
	if i := slices.IndexFunc(l.after, func(s uint32) bool { return l.same(s, r) }); i >= 0 {
		l.after = slices.Delete(l.after, i, i+1)
		return l.after, true
	}
	for i, s := range l.after {
		group := l.list[s].route
		if !grouping(&group) || !grouping(r) || len(r.Hops) >= len(group.Hops) {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(group.Hops), func(h rib.Hop) bool {
			return slices.ContainsFunc(r.Hops, func(d rib.Hop) bool { return d.Gateway == h.Gateway && d.Interface == h.Interface })
		})
		if len(left) != len(group.Hops)-len(r.Hops) {
			continue
		}
		if len(left) == 1 {
			left[0].Weight = 1 // a single next hop has no weight to show
		}
		group.Hops = left
		l.after[i] = l.number(&group)
		return l.after, true
	}
	return l.after, len(before) == 0
}

// grouping says whether an IPv6 route joins others of its identity as further next hops.
func grouping(r *rib.Route) bool {
	const protocolRA = 9 // RTPROT_RA
	return r.NextHopID == 0 && r.Protocol != protocolRA && len(r.Hops) > 0 && r.Hops[0].Gateway.IsValid()
}

// inOrder puts the hops of a grown group into the kernel's order, which its hash goes by: the
// notification of a single addition has the new hop first, though it is the last.
func inOrder(before, now []rib.Hop) (hops []rib.Hop, sure bool) {
	n := len(now)
	switch {
	case n >= len(before) && sameHops(before, now[:len(before)]):
		return now, true
	case n == len(before)+1 && sameHops(before, now[1:]):
		return append(append(make([]rib.Hop, 0, n), now[1:]...), now[0]), true
	}
	return now, false
}
