// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// Uplinks that fail: two rules of policy routing that the program repeats, "lookup main suppress_ifgroup GROUP" and behind it
// "lookup BACKUP". The kernel looks a destination up in main; when the route that it finds leaves by an interface of the
// group, it goes on as if main had none, to table BACKUP, and only then to main as it is (fib4_rule_suppress and
// fib6_rule_suppress). Here each next hop of main that leaves by such an interface gets the word of BACKUP's default route: one
// store for all prefixes that lead to it. What main has no route to takes that default route, too: it stands in the place of
// main's default route where main has none.
//
// BACKUP has default routes and the networks of the uplinks, which main has, too. A packet to such a network is the kernel's
// while its interface is in the group. So is a next hop of several ways with one of them: the kernel looks at the first way
// only (IPv4), or at the one that the packet takes (IPv6). With anything else in BACKUP, or with routes of main to a part of
// such a network, the family is the kernel's.

// passRules says by which rules routes of main are passed over; zero when by none.
type passRules struct {
	group uint32 // of interfaces
	table uint32 // that is asked instead
}

// backups is what the tables know of the table that is asked for what is passed over, by family (0 IPv4, 1 IPv6).
type backups struct {
	rules  [2]passRules
	hop    [2]uint16                        // next hop of its default route, 0 for none
	stands [2]uint16                        // in the FIB in the place of main's default route, 0 for none
	nets   [2]map[netip.Prefix]bool         // its other prefixes
	inside [2]map[netip.Prefix]netip.Prefix // prefixes of main within one of those
	dirty  [2]bool                          // main's default route or its table changed since they were looked at
}

var families = [2]uint8{unix.AF_INET, unix.AF_INET6}

func whichOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// inGroup says whether routes by an interface are passed over.
func (t *tables) inGroup(which, ifindex int) bool {
	p, l := t.backups.rules[which], t.links[ifindex]
	return p.table != 0 && l != nil && l.Group == p.group
}

// anyInGroup says so of any interface.
func (t *tables) anyInGroup(p passRules) bool {
	for _, l := range t.links {
		if l.Group == p.group {
			return true
		}
	}
	return false
}

// backupWords says why the table that is asked for what is passed over is more than the program can follow.
func (t *tables) backupWords(family uint8, p passRules) string {
	which := 0
	if family == unix.AF_INET6 {
		which = 1
	}
	if len(t.backups.inside[which]) > 0 && t.anyInGroup(p) {
		for inner, outer := range t.backups.inside[which] {
			return fmt.Sprintf("table %d has %v, and table main has %v within it", p.table, outer, inner)
		}
	}
	for net := range t.backups.nets[which] {
		if !t.sameInMain(which, p.table, net) {
			return fmt.Sprintf("table %d has another route to %v than table main", p.table, net)
		}
	}
	return ""
}

// sameInMain says whether a prefix has a route to the same link, without a gateway, in main and in another table.
func (t *tables) sameInMain(which int, table uint32, net netip.Prefix) bool {
	var a, b uint16
	o, special := t.others[table], t.hops.special.index
	if o == nil {
		return false
	}
	if which == 0 {
		a, b = t.v4.main.best(makeKey4(net), special), o.v4.main.best(makeKey4(net), special)
	} else {
		a, b = t.v6.main.best(makeKey6(net), special), o.v6.main.best(makeKey6(net), special)
	}
	if a == 0 || b == 0 {
		return false
	}
	x, y := t.hops.byIndex[a].spec, t.hops.byIndex[b].spec
	onLink := func(s hopSpec) bool {
		return s.stop == 0 && s.kind == rib.Unicast && s.object == 0 && s.many == "" && !s.one.Gateway.IsValid()
	}
	return onLink(x) && onLink(y) && x.one.Interface == y.one.Interface && x.mtu == y.mtu
}

// heedBackup takes in that a route was told, of main or of another table, whose prefix has one now or not.
func (t *tables) heedBackup(table uint32, p netip.Prefix, there bool) {
	b, which := &t.backups, whichOf(p)
	switch {
	case table == rib.TableMain && p.Bits() == 0:
		b.dirty[which] = true
	case table == rib.TableMain && len(b.nets[which]) > 0:
		if b.nets[which][p] {
			b.dirty[which] = true
		}
		if _, was := b.inside[which][p]; was && !there {
			delete(b.inside[which], p)
			b.dirty[which] = true
		}
		if there {
			t.noteInside(which, p)
		}
	case table == b.rules[which].table && table != 0:
		b.dirty[which] = true
	}
}

// noteInside keeps a prefix of main that is within one of the other table's.
func (t *tables) noteInside(which int, p netip.Prefix) {
	b := &t.backups
	for net := range b.nets[which] {
		if net.Bits() < p.Bits() && net.Contains(p.Addr()) {
			if b.inside[which] == nil {
				b.inside[which] = map[netip.Prefix]netip.Prefix{}
			}
			b.inside[which][p], b.dirty[which] = net, true
			return
		}
	}
}

// renderBackups brings all up to date that follows from the rules and from the table that is asked for what is passed over.
func (t *tables) renderBackups(all bool) {
	changed := false
	for which, family := range families {
		b := &t.backups
		if !all && !b.dirty[which] {
			continue
		}
		b.dirty[which] = false
		p, _ := t.readRules(family)
		was, hop := b.rules[which], b.hop[which]
		b.rules[which] = p
		t.readBackup(which)
		t.standIn(which)
		changed = changed || was != p || hop != b.hop[which]
	}
	if changed {
		t.hops.renderAll()
	}
	t.renderControl()
}

// readBackup reads the table that is asked for what is passed over.
func (t *tables) readBackup(which int) {
	b := &t.backups
	nets, special := map[netip.Prefix]bool{}, t.hops.special.index
	b.hop[which] = 0
	o := t.others[b.rules[which].table]
	switch {
	case o == nil:
	case which == 0:
		b.hop[0] = o.v4.main.best(0, special)
		for k := range o.v4.main.heads {
			if p := k.prefix(); p.Bits() > 0 {
				nets[p] = true
			}
		}
	default:
		b.hop[1] = o.v6.main.best(key6{}, special)
		for k := range o.v6.main.heads {
			if p := k.prefix(); p.Bits() > 0 {
				nets[p] = true
			}
		}
	}
	more := false
	for p := range nets {
		more = more || !b.nets[which][p]
	}
	b.nets[which] = nets
	for inner, outer := range b.inside[which] {
		if !nets[outer] {
			delete(b.inside[which], inner)
		}
	}
	if !more {
		return
	}
	b.inside[which] = nil
	if which == 0 {
		for k := range t.v4.main.heads {
			t.noteInside(0, k.prefix())
		}
	} else {
		for k := range t.v6.main.heads {
			t.noteInside(1, k.prefix())
		}
	}
}

// standIn puts the other table's default route into the place of main's where main has none.
func (t *tables) standIn(which int) {
	b, special := &t.backups, t.hops.special.index
	if !t.complete {
		return
	}
	own, to, all := t.v4.main.best(0, special), fibTable(t.prog.table4), netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if which == 1 {
		own, to, all = t.v6.main.best(key6{}, special), fibTable(t.prog.table6), netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	want := uint16(0)
	if own == 0 {
		want = b.hop[which]
	}
	if want == 0 && b.stands[which] == 0 {
		return
	}
	if own == 0 {
		t.published(which, writeAndPublish(to, all, want))
	}
	b.stands[which] = want
}

func writeAndPublish(to fibTable, p netip.Prefix, hop uint16) error {
	if err := write(to, p, hop, false); err != nil {
		return err
	}
	return to.Publish()
}

// isBackup says whether next hops that are passed over have the word of this one.
func (t *tables) isBackup(h *nextHop) bool {
	return h.spec.other && (h.index == t.backups.hop[0] || h.index == t.backups.hop[1])
}

// passedOver is the word of a next hop whose routes are passed over now.
func (n *nextHops) passedOver(h *nextHop, members []member) (word uint64, over bool) {
	if h.spec.other {
		return 0, false
	}
	which := 0
	if h.spec.family == 6 {
		which = 1
	}
	passed := false
	ways := n.ways(h)
	for _, w := range ways {
		passed = passed || n.t.inGroup(which, w.Interface)
	}
	if !passed {
		return 0, false
	}
	kernel := stopWord(Reason(routerReasonREASON_POLICY_RULES))
	if len(ways) > 1 {
		return kernel, true
	}
	hop := members[0].hop
	if (!hop.Gateway.IsValid() || hop.Gateway.IsUnspecified()) && !n.t.pointToPoint(hop.Interface) {
		return kernel, true
	}
	if b := n.t.backups.hop[which]; b != 0 {
		return n.byIndex[b].word, true
	}
	return 0, false // nothing is asked instead: main again
}

// ways are all hops of a next hop, also those that can't be used now.
func (n *nextHops) ways(h *nextHop) []rib.Hop {
	switch o := n.objects[h.spec.object]; {
	case h.spec.object == 0 && h.hops != nil:
		return h.hops
	case h.spec.object == 0:
		return []rib.Hop{h.spec.one}
	case o == nil:
		return nil
	case len(o.Members) == 0:
		return []rib.Hop{o.Hop}
	default:
		var list []rib.Hop
		for _, m := range o.Members {
			if one := n.objects[m.ID]; one != nil {
				list = append(list, one.Hop)
			}
		}
		return list
	}
}

// renderPassed brings the next hops up to date that have another one's word.
func (n *nextHops) renderPassed() {
	for _, h := range n.byIndex {
		if h != nil && !h.spec.other {
			n.render(h)
		}
	}
}

// PassOver says that an interface is in a group of interfaces, before the kernel's notification comes.
func (f *FastPath) PassOver(ifindex int, group uint32) {
	f.locked(func() {
		l := f.tables.links[ifindex]
		if l == nil || l.Group == group || f.tables.telling {
			return
		}
		l.Group = group
		f.tables.hops.renderAll()
		f.tables.renderControl()
	})
}

// RouteChanges is how many changes of routes have been told so far.
func (f *FastPath) RouteChanges() (n uint64) {
	f.locked(func() { n = f.tables.times.Routes })
	return n
}

// RoutesBy is how many routes of table main, of IPv4 and IPv6, lead to gateways on an interface. known is false while the
// fast path has no account of the kernel's routes.
func (f *FastPath) RoutesBy(ifindex int) (routes [2]int, known bool) {
	f.locked(func() {
		known = f.tables.complete
		for _, h := range f.tables.hops.byIndex {
			if h == nil || h.spec.other || h.spec.family == 0 {
				continue
			}
			for _, w := range f.tables.hops.ways(h) {
				if w.Interface == ifindex && (w.Gateway.IsValid() || f.tables.pointToPoint(ifindex)) {
					routes[(h.spec.family-4)/2] += h.refs
					break
				}
			}
		}
	})
	return routes, known
}
