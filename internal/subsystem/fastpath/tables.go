// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
	"minne/internal/subsystem/bypass"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/filter"
)

// tables is the kernel's forwarding state as it was told, and its image in the
// program's maps. One goroutine at a time.
type tables struct {
	log     *slog.Logger
	prog    *program
	desired Desired

	links     map[int]*device
	addresses map[ownAddress]uint8    // rounds
	broadcast map[ownBroadcast]uint8  // IPv4 broadcast addresses, by table; rounds
	rules     map[rib.Rule]uint8      // with their rounds
	ruled     map[uint8]bool          // families of which rules were told: no rules then means that nothing is routed
	fallback  map[fallbackRoute]uint8 // routes of table default, with their rounds
	hops      *nextHops
	adjs      *adjTable
	v4        *family[key4]
	v6        *family[key6]
	others    map[uint32]*otherTable // all other tables, among them those of VRFs
	touched   map[*otherTable]bool   // of VRFs, to be published

	backups backups // for routes that are passed over

	lastVRF int // number of the last table that was opened in the image for VRFs

	read        settingsReader
	zones       [2]map[string]uint8              // of the firewall's two buffers, by interface
	firewall    *firewall                        // in force
	counters    [2]int                           // that may have counted, of each buffer
	evaluatedBy [2]atomic.Pointer[filter.Policy] // what each buffer was filled with; a capture reads it
	all4, all6  settings                         // settings of the pseudo-interface "all"
	bypassed    bypass.State                     // what else the kernel would do to packets
	unevaluated bool                             // the kernel has a firewall that could not be put here: everything is its
	attached    map[int]bool                     // ports with the program
	transmits   map[int]bool                     // ports that packets may leave by
	scatters    map[int]bool                     // of them, those that send frames in several buffers
	unsummed    map[int]bool                     // ports whose senders may leave checksums to hardware

	bridging bridging // what is known of bridges

	round    uint8 // of the account under way or finished
	telling  bool  // between Begin and End
	complete bool  // an account was finished: the maps are true
	full     [2]error
	times    updateTimes
}

type ownAddress struct {
	address netip.Prefix
	ifindex int
}

type ownBroadcast struct {
	address netip.Addr
	table   uint32
}

// updateTimes is how long changes took.
type updateTimes struct {
	begun   time.Time
	Sync    time.Duration // the last full account, from Begin to End
	Fill    time.Duration // of it, compiling the routing tables
	Routes  uint64        // route changes since the start, the accounts included
	Last    time.Duration // the last batch of route changes
	Batch   int           // how many it had
	Longest time.Duration // the longest batch since the last account
}

func newTables(log *slog.Logger, prog *program, read settingsReader) *tables {
	t := &tables{
		log: log, prog: prog, read: read,
		links: map[int]*device{}, addresses: map[ownAddress]uint8{}, broadcast: map[ownBroadcast]uint8{}, rules: map[rib.Rule]uint8{}, ruled: map[uint8]bool{},
		fallback: map[fallbackRoute]uint8{},
		v4:       newFamily(4, makeKey4, key4.prefix),
		v6:       newFamily(6, makeKey6, key6.prefix),
		others:   map[uint32]*otherTable{}, touched: map[*otherTable]bool{},
		bridging: newBridging(),
		attached: map[int]bool{}, transmits: map[int]bool{}, scatters: map[int]bool{}, unsummed: map[int]bool{},
	}
	t.adjs = newAdjTable(t)
	t.hops = newNextHops(t)
	prog.nexthops.store(0, stopWord(Reason(routerReasonREASON_NO_ROUTE)))
	t.renderControl()
	return t
}

// maxIndex is the highest next-hop index that the FIB can hold.
func (t *tables) maxIndex() uint32 {
	if t.prog.structure == fib.Direct24 {
		return 32766
	}
	return maxNextHops - 1
}

// Begin starts a full account of the kernel's state.
func (t *tables) Begin() {
	t.round++
	t.telling = true
	t.times.begun = time.Now()
	t.all4, t.all6 = t.read.all()
}

// End finishes it: what was not repeated is gone.
func (t *tables) End() {
	for _, l := range t.links {
		if l.round != t.round {
			t.dropLink(l)
		}
	}
	for a, round := range t.addresses {
		if round != t.round {
			delete(t.addresses, a)
		}
	}
	for b, round := range t.broadcast {
		if round != t.round {
			delete(t.broadcast, b)
		}
	}
	for k, round := range t.rules {
		if round != t.round {
			delete(t.rules, k)
		}
	}
	for r, round := range t.fallback {
		if round != t.round {
			delete(t.fallback, r)
		}
	}
	t.adjs.sweep(t.round)
	for id, o := range t.hops.objects {
		if o.round != t.round {
			delete(t.hops.objects, id)
		}
	}
	t.renderLinks()
	t.renderOwn()
	t.endRoutes()
	t.telling, t.complete = false, true
	t.backups.nets = [2]map[netip.Prefix]bool{} // all prefixes are looked at again
	t.renderBackups(true)
	t.times.Sync = time.Since(t.times.begun)
	t.times.Longest = 0
}

func (t *tables) endRoutes() {
	if !t.complete {
		_ = t.v4.sweep(t, nil) // nothing to write yet, so nothing to fail
		_ = t.v6.sweep(t, nil)
		t.sweepOthers()
		t.fill()
		return
	}
	err4, err6 := t.v4.sweep(t, t.prog.table4), t.v6.sweep(t, t.prog.table6)
	t.published(0, errors.Join(err4, t.prog.table4.Publish()))
	t.published(1, errors.Join(err6, t.prog.table6.Publish()))
	t.sweepOthers()
	t.hops.settle()
}

// fill compiles all routes at once.
func (t *tables) fill() {
	start := time.Now()
	t.published(0, t.v4.fill(t, t.prog.table4))
	t.published(1, t.v6.fill(t, t.prog.table6))
	t.fillOthers()
	t.hops.settle()
	t.times.Fill = time.Since(start)
}

// published takes in how publishing a family's table went.
func (t *tables) published(which int, err error) {
	if err != nil && t.full[which] == nil {
		t.log.Error("routing table does not fit into the fast path: the kernel forwards this family",
			"family", []string{"IPv4", "IPv6"}[which], "error", err)
	}
	changed := (err == nil) != (t.full[which] == nil)
	t.full[which] = err
	if changed {
		t.renderControl()
	}
}

// renderControl writes what holds for all packets.
func (t *tables) renderControl() {
	off := func(which int, family uint8) uint32 {
		switch {
		case t.unevaluated:
			return routerNumber(routerReasonREASON_FIREWALL)
		case !t.complete:
			return routerNumber(routerReasonREASON_NOT_READY)
		case t.full[which] != nil:
			return routerNumber(routerReasonREASON_TABLE_FULL)
		case len(t.bypassed.Families[which]) > 0:
			return uint32(heldBy(t.bypassed.Families[which]))
		}
		if t.rulesWords(family) != "" {
			return routerNumber(routerReasonREASON_POLICY_RULES)
		}
		return 0
	}
	t.prog.control.store(0, pair(off(0, unix.AF_INET), off(1, unix.AF_INET6)))
	t.renderHash()
}

func routerNumber(r routerReason) uint32 { return uint32(r) }

// Links takes in links.
func (t *tables) Links(links []rib.Link) {
	for _, l := range links {
		old := t.links[l.Index]
		if l.Deleted {
			if old != nil {
				t.dropLink(old)
			}
			continue
		}
		if old == nil {
			old = &device{}
			t.links[l.Index] = old
		}
		old.Link, old.round = l, t.round
		old.settings = t.read.of(l.Index, l.Name)
	}
	if !t.telling {
		t.renderLinks()
		t.renderControl()
	}
}

// forgetPort takes out what is known of a port that has the program no more.
func (t *tables) forgetPort(ifindex int) {
	for _, known := range []map[int]bool{t.attached, t.transmits, t.scatters, t.unsummed} {
		delete(known, ifindex)
	}
}

// reread asks for the settings of all links again.
func (t *tables) reread() {
	t.all4, t.all6 = t.read.all()
	for _, l := range t.links {
		l.settings = t.read.of(l.Index, l.Name)
	}
	t.renderControl()
	t.renderLinks()
}

// Addresses takes in addresses of the router.
func (t *tables) Addresses(addresses []rib.LinkAddress) {
	for _, a := range addresses {
		k := ownAddress{a.Address, a.Interface}
		if a.Deleted {
			delete(t.addresses, k)
		} else {
			t.addresses[k] = t.round
		}
	}
	if !t.telling {
		t.renderOwn()
	}
}

// changeBroadcast takes a broadcast address in or out. As a source it is none that the kernel forwards once there are rules or a
// source check.
func (t *tables) changeBroadcast(c *rib.RouteChange) {
	b := ownBroadcast{c.Route.Prefix.Addr(), c.Route.Table}
	if c.Deleted {
		delete(t.broadcast, b)
	} else {
		t.broadcast[b] = t.round
	}
	if !t.telling {
		t.renderOwn()
	}
}

// Rules takes in policy-routing rules (rules.go).
func (t *tables) Rules(rules []rib.Rule) {
	for _, r := range rules {
		deleted := r.Deleted
		r.Deleted = false
		if deleted {
			delete(t.rules, r)
		} else {
			t.rules[r] = t.round
		}
		t.ruled[r.Family] = true
	}
	if t.telling {
		t.renderControl()
		return
	}
	t.renderBackups(true)
	if t.prog.vrfs != nil {
		t.renderLinks()
	}
}

// Neighbours takes in neighbours.
func (t *tables) Neighbours(neighbours []rib.Neighbour) {
	for _, n := range neighbours {
		t.adjs.change(n, t.round)
	}
}

// NextHops takes in kernel next-hop objects.
func (t *tables) NextHops(objects []rib.NextHopGroup) {
	for _, o := range objects {
		if o.Deleted {
			delete(t.hops.objects, o.ID)
		} else {
			t.hops.objects[o.ID] = &object{o, t.round}
		}
	}
	if !t.telling {
		t.hops.renderObjects()
	}
}

// Routes takes in routes and makes them visible to packets, except during the first account.
func (t *tables) Routes(changes []rib.RouteChange) {
	start := time.Now()
	var to4, to6 fibTable
	if t.complete {
		to4, to6 = t.prog.table4, t.prog.table6
	}
	var err4, err6 error
	for i := range changes {
		c := &changes[i]
		if c.Route.Table == rib.TableDefault {
			t.changeFallback(c)
		}
		if c.Route.Type == rib.Broadcast {
			t.changeBroadcast(c)
		}
		if c.Route.Table != rib.TableMain && c.Route.Table != rib.TableLocal {
			t.changeOther(c)
			continue
		}
		if c.Route.Prefix.Addr().Is4() {
			err4 = errors.Join(err4, t.v4.change(t, c, to4))
		} else {
			err6 = errors.Join(err6, t.v6.change(t, c, to6))
		}
	}
	t.times.Routes += uint64(len(changes))
	if !t.complete {
		return
	}
	t.publishOthers()
	t.published(0, errors.Join(err4, t.prog.table4.Publish()))
	t.published(1, errors.Join(err6, t.prog.table6.Publish()))
	if t.backups.dirty[0] || t.backups.dirty[1] {
		t.renderBackups(false)
	}
	t.hops.settle()
	t.times.Last, t.times.Batch = time.Since(start), len(changes)
	t.times.Longest = max(t.times.Longest, t.times.Last)
}

// describe is one line for logs.
func (t *tables) describe() string {
	return fmt.Sprintf("%d IPv4 and %d IPv6 prefixes, %d next hops, %d neighbours",
		t.v4.prefixes(), t.v6.prefixes(), len(t.hops.bySpec), len(t.adjs.all))
}
