// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/fib"
)

// VRFs: what comes in by an interface in one is routed by the VRF's table, in which the router's addresses on these
// interfaces are, too. Each table has a number in the image that they share (bpf/fib_vrf.h), which stands beside the flags of
// the interfaces. Next hops and neighbours are those of all tables.
//
// Routes of all tables but main and local are kept, whoever asks these tables: a VRF may come later than its routes.

// ifVRFShift is where a VRF's number stands above an interface's flags, as in bpf/maps.h.
const ifVRFShift = 10

// vrfRoom is the size of the image for VRFs.
type vrfRoom int

const (
	noVRFs vrfRoom = iota
	smallVRFs
	fullVRFs
)

// layout is that of the image for VRFs.
func (r vrfRoom) layout() fib.SharedLayout {
	switch r {
	case smallVRFs:
		return fib.LayoutShared(fib.Small)
	case fullVRFs:
		return fib.LayoutShared(fib.Full)
	}
	return fib.SharedLayout{}
}

// otherTable is a routing table that is neither main nor local.
type otherTable struct {
	v4     *family[key4]
	v6     *family[key6]
	number int      // in the image for VRFs; 0 for none
	full   [2]error // of a VRF's
}

// vrfTables are the compilers of one VRF's tables.
type vrfTables struct {
	v4 *fib.Table4
	v6 *fib.Table6
}

// other is a table by the kernel's number for it.
func (t *tables) other(table uint32) *otherTable {
	o := t.others[table]
	if o == nil {
		o = &otherTable{v4: newFamily(4, makeKey4, key4.prefix), v6: newFamily(6, makeKey6, key6.prefix)}
		t.others[table] = o
	}
	return o
}

// compilers are those of a VRF's table; nil for one that is not compiled.
func (t *tables) compilers(o *otherTable) (to4, to6 fibTable) {
	if o.number == 0 || t.prog.vrfs == nil {
		return nil, nil
	}
	c := t.prog.vrfTables[o.number]
	return c.v4, c.v6
}

// changeOther takes a route of another table than main and local in or out.
func (t *tables) changeOther(c *rib.RouteChange) {
	table := c.Route.Table
	if t.others[table] == nil && c.Deleted {
		return
	}
	o := t.other(table)
	var to4, to6 fibTable // of what is not complete yet, all will be compiled at once
	if t.complete {
		to4, to6 = t.compilers(o)
	}
	var err error
	which := 0
	if c.Route.Prefix.Addr().Is4() {
		err = o.v4.change(t, c, to4)
	} else {
		which, err = 1, o.v6.change(t, c, to6)
	}
	if to4 != nil {
		t.touched[o] = true
	}
	o.full[which] = errors.Join(o.full[which], err)
	if o.number == 0 && o.v4.prefixes() == 0 && o.v6.prefixes() == 0 {
		delete(t.others, table)
	}
}

// publishOthers makes the routes of VRFs visible that were told since the last time.
func (t *tables) publishOthers() {
	changed := false
	for o := range t.touched {
		was := o.full
		t.publishOther(o)
		changed = changed || (was[0] == nil) != (o.full[0] == nil) || (was[1] == nil) != (o.full[1] == nil)
	}
	clear(t.touched)
	if changed {
		t.renderLinks()
	}
}

func (t *tables) publishOther(o *otherTable) {
	if to4, to6 := t.compilers(o); to4 != nil {
		o.full = [2]error{to4.Publish(), to6.Publish()}
	}
}

// fillOthers compiles all routes of VRFs.
func (t *tables) fillOthers() {
	for _, o := range t.others {
		t.fillOther(o)
	}
}

func (t *tables) fillOther(o *otherTable) {
	if to4, to6 := t.compilers(o); to4 != nil {
		o.full = [2]error{o.v4.fill(t, to4), o.v6.fill(t, to6)}
	}
}

// sweepOthers removes what the account did not repeat, and makes that visible.
func (t *tables) sweepOthers() {
	for table, o := range t.others {
		var to4, to6 fibTable
		if t.complete {
			to4, to6 = t.compilers(o)
		}
		_, _ = o.v4.sweep(t, to4), o.v6.sweep(t, to6) // what does not fit is told when it is published
		if t.complete {
			t.touched[o] = true
		}
		if o.number == 0 && o.v4.prefixes() == 0 && o.v6.prefixes() == 0 {
			delete(t.others, table)
		}
	}
	t.publishOthers()
}

// vrfOf is the VRF that an interface is in, nil for none.
func (t *tables) vrfOf(l *device) *device {
	if m := t.links[l.Master]; m != nil && m.Kind == "vrf" {
		return m
	}
	return nil
}

// tableOf is the number of the table by which the kernel routes what comes in by an interface.
func (t *tables) tableOf(l *device) uint32 {
	if vrf := t.vrfOf(l); vrf != nil {
		return vrf.Table
	}
	return 0
}

// openVRFs gives each VRF tables in the program's image. It returns the numbers of those that are gone, to be closed when
// no interface has them any more.
func (t *tables) openVRFs() (gone []int) {
	if t.prog.vrfs == nil {
		for _, o := range t.others {
			o.number, o.full = 0, [2]error{}
		}
		return nil
	}
	there := map[uint32]bool{}
	for _, l := range t.links {
		if l.Kind == "vrf" && l.Up && l.Table != 0 {
			there[l.Table] = true
		}
	}
	for table, o := range t.others {
		if o.number != 0 && !there[table] {
			gone = append(gone, o.number)
			o.number, o.full = 0, [2]error{}
		}
	}
	for _, table := range slices.Sorted(maps.Keys(there)) {
		t.openVRF(table)
	}
	return gone
}

func (t *tables) openVRF(table uint32) {
	o := t.other(table)
	if o.number != 0 && t.prog.vrfTables[o.number].v4 != nil {
		return
	}
	number := cmp.Or(o.number, t.freeVRF())
	if number == 0 {
		return
	}
	v4, v6, err := t.prog.vrfs.Open(number)
	if err != nil {
		o.number, o.full = 0, [2]error{err, err}
		return
	}
	t.prog.vrfTables[number] = vrfTables{v4, v6}
	if table <= math.MaxUint16 {
		t.prog.vrfs.Zone(number, uint16(table))
	}
	o.number = number
	t.fillOther(o)
}

// freeVRF is a number that no table has, 0 when there is none. One that was given up is used again last: a packet may be on its
// way with it.
func (t *tables) freeVRF() int {
	for range fib.MaxShared - 1 {
		t.lastVRF = t.lastVRF%(fib.MaxShared-1) + 1
		used := t.prog.vrfTables[t.lastVRF].v4 != nil
		for _, o := range t.others {
			used = used || o.number == t.lastVRF
		}
		if !used {
			return t.lastVRF
		}
	}
	return 0
}

func (t *tables) closeVRFs(gone []int) {
	for _, number := range gone {
		t.prog.vrfs.Close(number)
		t.prog.vrfTables[number] = vrfTables{}
	}
}

// vrfsFull says whether a VRF has no room in an image that can be made larger.
func (t *tables) vrfsFull() bool {
	if t.prog.shape.vrfs != smallVRFs {
		return false
	}
	for _, o := range t.others {
		if o.full != ([2]error{}) {
			return true
		}
	}
	return false
}

// vrfWords says why what comes in by an interface in a VRF is the kernel's, by family; "" when it is not, or the interface is in
// no VRF.
func (t *tables) vrfWords(l *device, which int) string {
	vrf := t.vrfOf(l)
	if vrf == nil {
		return ""
	}
	o := t.others[vrf.Table]
	switch {
	case !vrf.Up:
		return fmt.Sprintf("VRF %s is down", vrf.Name)
	case o != nil && o.full[which] != nil:
		return fmt.Sprintf("the routes of VRF %s do not fit into the fast path", vrf.Name)
	case o == nil || o.number == 0:
		return fmt.Sprintf("VRF %s has no table in the fast path, which has room for %d", vrf.Name, fib.MaxShared-1)
	}
	if why := t.vrfRuleWords([2]uint8{unix.AF_INET, unix.AF_INET6}[which]); why != "" {
		return fmt.Sprintf("in VRF %s: %s", vrf.Name, why)
	}
	return ""
}

// vrfRuleWords says why the rules of a family do not lead packets of a VRF into its table first.
func (t *tables) vrfRuleWords(family uint8) string {
	if !t.ruled[family] {
		return ""
	}
	ours, other := uint64(math.MaxUint64), uint64(math.MaxUint64) // lowest priorities
	for r := range t.rules {
		switch {
		case r.Family != family:
		case r.VRF && !r.Partial:
			ours = min(ours, uint64(r.Priority))
		default:
			other = min(other, uint64(r.Priority))
		}
	}
	switch {
	case ours == math.MaxUint64:
		return "no ip rule for VRFs"
	case other <= ours: // of one priority, nothing tells which was made first
		return fmt.Sprintf("ip rule of priority %d comes before the one for VRFs", other)
	}
	return ""
}

// vrfFlags are the flags of an interface with its VRF's number, without those of families that are the kernel's in the VRF.
func (t *tables) vrfFlags(l *device, flags uint16) uint16 {
	if t.vrfOf(l) == nil {
		return flags
	}
	for which, forward := range []uint16{ifForward4, ifForward6} {
		if t.vrfWords(l, which) != "" {
			flags &^= forward
		}
	}
	if o := t.others[t.tableOf(l)]; o != nil {
		flags |= uint16(o.number) << ifVRFShift
	}
	return flags
}

// offAtIngress is why all that comes in by an interface, or all of a family, is the kernel's; Forwarded when it is not.
func (t *tables) offAtIngress(l *device) Reason {
	held := t.heldAtIngress(l.Index)
	if held == Forwarded && (t.vrfWords(l, 0) != "" || t.vrfWords(l, 1) != "") {
		return Reason(routerReasonREASON_VRF)
	}
	return held
}

// hasVRFs says whether an interface in a VRF should have the fast path.
func (d Desired) hasVRFs() bool {
	for _, i := range d.Interfaces {
		if i.VRF && i.FastPath {
			return true
		}
	}
	return false
}

// vrfRoomFor is the image for VRFs that a configuration and the links as they are need.
func (f *FastPath) vrfRoomFor(d Desired) vrfRoom {
	needed := d.hasVRFs()
	if f.tables != nil && !needed {
		for _, l := range f.tables.links {
			needed = needed || f.tables.vrfOf(l) != nil && d.Interfaces[l.Name].FastPath
		}
	}
	switch {
	case !needed:
		return noVRFs
	case f.prog != nil:
		return max(f.prog.shape.vrfs, smallVRFs)
	}
	return smallVRFs
}

// growVRFs loads a program that knows of VRFs, once an interface in one is to have the fast path.
func (f *FastPath) growVRFs() error {
	if f.prog.shape.vrfs != noVRFs || f.vrfRoomFor(f.desired) == noVRFs {
		return nil
	}
	s := f.prog.shape
	s.vrfs = smallVRFs
	return f.rebuild(s)
}

// observeVRFs are the VRFs with their tables, by name.
func (t *tables) observeVRFs() iter.Seq2[*device, *otherTable] {
	return func(yield func(*device, *otherTable) bool) {
		var vrfs []*device
		for _, l := range t.links {
			if l.Kind == "vrf" && t.others[l.Table] != nil && t.others[l.Table].number != 0 {
				vrfs = append(vrfs, l)
			}
		}
		slices.SortFunc(vrfs, func(a, b *device) int { return cmp.Compare(a.Name, b.Name) })
		for _, l := range vrfs {
			if !yield(l, t.others[l.Table]) {
				return
			}
		}
	}
}

// lookupIn is lookup for what comes in by an interface.
func (t *tables) lookupIn(ifindex int, a netip.Addr) (netip.Prefix, uint16) {
	var o *otherTable
	if l := t.links[ifindex]; l != nil && t.vrfOf(l) != nil {
		o = t.others[t.tableOf(l)]
	}
	switch {
	case o == nil:
		return t.lookup(a)
	case a.Is4():
		return longest(t, o.v4, a)
	}
	return longest(t, o.v6, a)
}
