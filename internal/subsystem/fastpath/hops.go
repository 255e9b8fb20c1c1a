// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"log/slog"
	"math"
	"net/netip"
	"slices"

	"minne/internal/model/rib"
)

// Next hops: what the prefixes lead to. Routes with the same type, MTU and hops (or
// kernel next-hop object) share one, so a million routes need a handful. Each has
// an index, which stands in the FIB, and a word, which says what it means now.

// Kinds in a next hop's word and the flag in a via, as in bpf/maps.h.
const (
	hopStop   = 0
	hopVia    = 1
	hopGroup  = 2
	viaOnLink = 1 << 31

	maxNextHops = 65536
	maxMembers  = 32768
	maxGroup    = 64
)

// hopSpec is the identity of a next hop.
type hopSpec struct {
	kind   rib.RouteType
	stop   Reason // not a route at all: always this
	mtu    uint16
	object uint32  // kernel next-hop object
	one    rib.Hop // when there is exactly one
	many   string  // several hops, encoded
	family uint8   // 4 or 6, of routes that lead on: what passes them over differs (uplinks.go)
	other  bool    // of another table than main, whose routes nothing passes over
}

// specOf is the next hop of a route.
func specOf(r *rib.Route) hopSpec {
	if r.Encap {
		return hopSpec{stop: Reason(routerReasonREASON_SPECIAL_ROUTE)}
	}
	if r.Type != rib.Unicast {
		return hopSpec{kind: r.Type}
	}
	s := hopSpec{kind: r.Type, object: r.NextHopID, mtu: uint16(min(r.MTU, math.MaxUint16)), family: 6, other: r.Table != rib.TableMain}
	if r.Prefix.Addr().Is4() {
		s.family = 4
	}
	switch {
	case r.NextHopID != 0:
	case len(r.Hops) == 1:
		s.one = r.Hops[0]
		s.one.Flags = 0
	default:
		s.many = encodeHops(r.Hops)
	}
	return s
}

// encodeHops writes hops as a string that can be a map's key.
func encodeHops(hops []rib.Hop) string {
	var b []byte
	for _, h := range hops {
		addr := h.Gateway.AsSlice()
		b = append(b, byte(len(addr)))
		b = append(b, addr...)
		b = binary.BigEndian.AppendUint32(b, uint32(h.Interface))
		b = binary.BigEndian.AppendUint16(b, h.Weight)
	}
	return string(b)
}

// nextHop is one entry of the next-hop table.
type nextHop struct {
	spec    hopSpec
	hops    []rib.Hop // of a spec with many
	index   uint16
	refs    int
	word    uint64       // as published
	held    []*adjacency // that its word or members refer to
	first   uint32       // run of members
	members []uint64     // as published there
}

// nextHops is the next-hop table.
type nextHops struct {
	log     *slog.Logger
	t       *tables
	bySpec  map[hopSpec]*nextHop
	byIndex []*nextHop
	indexes *pool
	runs    *pool
	objects map[uint32]*object
	special *nextHop
	freed   []*nextHop // released, but perhaps still in the FIB until it is published
	full    bool       // said so already
}

// object is a kernel next-hop object.
type object struct {
	rib.NextHopGroup
	round uint8
}

func newNextHops(t *tables) *nextHops {
	n := &nextHops{log: t.log, t: t, bySpec: map[hopSpec]*nextHop{}, byIndex: make([]*nextHop, 1, 256),
		indexes: newPool(1, maxNextHops), runs: newPool(0, maxMembers), objects: map[uint32]*object{}}
	n.special = n.get(hopSpec{stop: Reason(routerReasonREASON_SPECIAL_ROUTE)})
	n.hold(n.special)
	return n
}

// intern returns the index of the next hop of that identity, with one more reference to it.
func (n *nextHops) intern(s hopSpec) uint16 {
	h := n.get(s)
	n.hold(h)
	return h.index
}

func (n *nextHops) get(s hopSpec) *nextHop {
	if h := n.bySpec[s]; h != nil {
		return h
	}
	index, ok := n.indexes.take(1)
	if limit := n.t.maxIndex(); !ok || index > limit {
		if !n.full {
			n.log.Error("next-hop table full: the kernel forwards routes to further next hops", "limit", limit)
			n.full = true
		}
		return n.special
	}
	h := &nextHop{spec: s, index: uint16(index)}
	if s.many != "" {
		h.hops = decodeHops(s.many)
	}
	n.bySpec[s] = h
	for len(n.byIndex) <= int(index) {
		n.byIndex = append(n.byIndex, nil)
	}
	n.byIndex[index] = h
	n.render(h)
	return h
}

func (n *nextHops) hold(h *nextHop) { h.refs++ }

// release gives one reference back. The place is free once the FIB has been published.
func (n *nextHops) release(index uint16) {
	if index == 0 {
		return
	}
	h := n.byIndex[index]
	h.refs--
	if h.refs == 0 {
		n.freed = append(n.freed, h)
	}
}

// settle frees next hops that the FIB no longer names. Call it after publishing.
func (n *nextHops) settle() {
	for _, h := range n.freed {
		if h.refs > 0 || n.byIndex[h.index] != h {
			continue
		}
		delete(n.bySpec, h.spec)
		n.byIndex[h.index] = nil
		n.replaceMembers(h, nil)
		n.replaceHeld(h, nil)
		n.indexes.give(uint32(h.index), 1)
	}
	n.freed = n.freed[:0]
}

// renderAll brings every next hop up to date: a link changed.
func (n *nextHops) renderAll() {
	for _, h := range n.byIndex {
		if h != nil {
			n.render(h)
		}
	}
}

// renderObjects brings those up to date that follow a kernel object.
func (n *nextHops) renderObjects() {
	for _, h := range n.byIndex {
		if h != nil && h.spec.object != 0 {
			n.render(h)
		}
	}
}

// member is a hop of a next hop that can be used now.
type member struct {
	hop    rib.Hop
	weight uint64
	bad    bool // its neighbour does not answer: passed over, but it keeps its share of the hash
}

// render writes what the next hop means now.
func (n *nextHops) render(h *nextHop) {
	if stop := h.spec.stopReason(); stop != 0 {
		n.publish(h, stopWord(stop), nil, nil)
		return
	}
	members, stop := n.membersOf(h)
	if stop != 0 {
		n.publish(h, stopWord(stop), nil, nil)
		return
	}
	if word, over := n.passedOver(h, members); over {
		n.publish(h, word, nil, nil)
		return
	}
	var held []*adjacency
	vias := make([]uint32, len(members))
	for i, m := range members {
		vias[i] = n.via(m.hop, &held)
	}
	mtu := uint64(h.spec.mtu) << 16
	if len(members) == 1 {
		n.publish(h, hopVia|mtu|uint64(vias[0])<<32, nil, held)
		return
	}
	n.publish(h, hopGroup|mtu, bounds(members, vias), held)
}

// stopReason is the reason with which packets to such a route end or go up; 0 for routes that lead on.
func (s *hopSpec) stopReason() Reason {
	if s.stop != 0 {
		return s.stop
	}
	switch s.kind {
	case rib.Unicast:
		return 0
	case rib.Local, rib.Anycast:
		return Reason(routerReasonREASON_LOCAL)
	case rib.Broadcast:
		return Reason(routerReasonREASON_BROADCAST)
	case rib.Multicast:
		return Reason(routerReasonREASON_MULTICAST)
	case rib.Blackhole:
		return Reason(routerReasonREASON_BLACKHOLE)
	case rib.Unreachable:
		return Reason(routerReasonREASON_UNREACHABLE)
	case rib.Prohibit:
		return Reason(routerReasonREASON_PROHIBIT)
	}
	return Reason(routerReasonREASON_SPECIAL_ROUTE)
}

func stopWord(r Reason) uint64 { return hopStop | uint64(r)<<8 }

// membersOf are the hops that can be used now, or why there are none.
func (n *nextHops) membersOf(h *nextHop) ([]member, Reason) {
	special := Reason(routerReasonREASON_SPECIAL_ROUTE)
	var members []member
	switch {
	case h.spec.object != 0:
		var stop Reason
		if members, stop = n.objectMembers(h.spec.object); stop != 0 {
			return nil, stop
		}
	case h.hops != nil:
		for _, hop := range h.hops {
			if n.t.alive(hop.Interface, false) {
				members = append(members, member{hop: hop, weight: uint64(max(hop.Weight, 1))})
			}
		}
	case n.t.alive(h.spec.one.Interface, false):
		members = []member{{hop: h.spec.one, weight: 1}}
	}
	if len(members) == 0 {
		return nil, Reason(routerReasonREASON_EGRESS)
	}
	if len(members) > maxGroup {
		return nil, special
	}
	return members, 0
}

// objectMembers are the hops of a kernel next-hop object, whose groups pass over members with a
// dead neighbour (nexthop_select_path_hthr).
func (n *nextHops) objectMembers(id uint32) ([]member, Reason) {
	special := Reason(routerReasonREASON_SPECIAL_ROUTE)
	o := n.objects[id]
	switch {
	case o == nil || o.Encap:
		return nil, special
	case o.Blackhole:
		return nil, Reason(routerReasonREASON_BLACKHOLE)
	case len(o.Members) == 0:
		if !n.t.alive(o.Hop.Interface, true) {
			return nil, Reason(routerReasonREASON_EGRESS)
		}
		return []member{{hop: o.Hop, weight: 1}}, 0
	}
	var members []member
	for _, m := range o.Members {
		one := n.objects[m.ID]
		if one == nil || one.Encap || one.Blackhole || len(one.Members) > 0 {
			return nil, special
		}
		if !n.t.alive(one.Hop.Interface, true) {
			continue
		}
		members = append(members, member{hop: one.Hop, weight: uint64(max(m.Weight, 1)), bad: n.t.adjs.dead(one.Hop)})
	}
	return members, 0
}

// bounds are the words of a group: the highest 31-bit hash of each member, as the kernel cuts the
// range by weight (fib_rebalance, nh_hthr_group_rebalance). Members that are passed over are left
// out; if all are, the first stands for all.
func bounds(members []member, vias []uint32) []uint64 {
	var total, sum uint64
	for _, m := range members {
		total += m.weight
	}
	var group []uint64
	for i, m := range members {
		sum += m.weight
		if !m.bad {
			group = append(group, uint64(vias[i])<<32|((sum<<31+total/2)/total-1))
		}
	}
	if group == nil {
		group = []uint64{uint64(vias[0])<<32 | math.MaxInt32}
	}
	return group
}

// via is how a hop is reached. The adjacency it needs is added to held.
func (n *nextHops) via(h rib.Hop, held *[]*adjacency) uint32 {
	key := adjKey{h.Interface, h.Gateway.Unmap()}
	switch {
	case n.t.pointToPoint(h.Interface):
		key.addr = farEnd
	case !h.Gateway.IsValid() || h.Gateway.IsUnspecified():
		return viaOnLink | uint32(h.Interface)
	}
	a := n.t.adjs.get(key)
	if a == nil {
		return 0
	}
	a.refs++
	*held = append(*held, a)
	return a.index
}

// publish writes the members to a fresh place, then the word that refers to them, then lets go of
// what the next hop needed before.
func (n *nextHops) publish(h *nextHop, word uint64, members []uint64, held []*adjacency) {
	old := nextHop{first: h.first, members: h.members}
	if members != nil {
		if slices.Equal(members, h.members) {
			word |= uint64(len(members))<<8 | uint64(h.first)<<32
			old.members = nil
		} else if first, ok := n.runs.take(uint32(len(members))); ok {
			for i, m := range members {
				n.t.prog.members.store(int(first)+i, m)
			}
			h.first, h.members = first, members
			word |= uint64(len(members))<<8 | uint64(first)<<32
		} else {
			n.log.Error("multipath table full: the kernel forwards the routes of this group", "members", len(members))
			word, h.members = stopWord(Reason(routerReasonREASON_SPECIAL_ROUTE)), nil
		}
	} else {
		h.members = nil
	}
	n.t.prog.nexthops.store(int(h.index), word)
	changed := h.word != word
	h.word = word
	if changed && n.t.isBackup(h) {
		n.renderPassed() // before the members that they name are given away
	}
	if old.members != nil {
		n.runs.give(old.first, uint32(len(old.members)))
	}
	n.replaceHeld(h, held)
}

func (n *nextHops) replaceMembers(h *nextHop, members []uint64) {
	if h.members != nil {
		n.runs.give(h.first, uint32(len(h.members)))
	}
	h.members = members
}

func (n *nextHops) replaceHeld(h *nextHop, held []*adjacency) {
	before := h.held
	h.held = held
	for _, a := range before {
		a.refs--
		n.t.adjs.dropUnused(a)
	}
}

// decodeHops reads what encodeHops wrote.
func decodeHops(s string) []rib.Hop {
	var hops []rib.Hop
	for b := []byte(s); len(b) > 0; {
		n := int(b[0])
		addr, _ := netip.AddrFromSlice(b[1 : 1+n]) // none when n is 0
		b = b[1+n:]
		hops = append(hops, rib.Hop{Gateway: addr, Interface: int(binary.BigEndian.Uint32(b)), Weight: binary.BigEndian.Uint16(b[4:])})
		b = b[6:]
	}
	return hops
}
