// SPDX-License-Identifier: Apache-2.0

package fastpath

import "minne/internal/subsystem/fastpath/filter"

// moveTo writes everything into the maps of another program, whose tables are empty. Indexes stay
// what they are; only runs of group members are laid out anew.
func (t *tables) moveTo(p *program) {
	if t.firewall != nil {
		t.firewall.takeChanges(&t.prog.firewall)
	}
	t.prog = p
	t.takeSessions()
	t.openVRFs()
	p.nexthops.store(0, stopWord(Reason(routerReasonREASON_NO_ROUTE)))
	for _, a := range t.adjs.all {
		a.listed = false
		t.adjs.refresh(a)
	}
	t.hops.runs = newPool(0, maxMembers)
	for _, h := range t.hops.byIndex {
		if h != nil {
			h.members = nil
		}
	}
	t.hops.renderAll()
	for _, l := range t.links {
		l.vlan = nil
		t.renderInterface(l)
	}
	t.renderSessions()
	t.renderBonds()
	t.bridging.forgetProgram()
	t.renderBridges()
	t.renderOwn()
	if t.complete {
		t.fill()
	}
	t.renderBackups(true)
}

// place is what tables remember of the maps of the program that they are written to.
type place struct {
	prog        *program
	listed      map[*adjacency]bool
	groups      map[*nextHop]run
	runs        *pool
	vlans       map[*device]*routerVlanKey
	vrfs        map[*otherTable]int
	bridging    bridging // as far as the program has been told
	zones       [2]map[string]uint8
	counters    [2]int
	evaluatedBy [2]*filter.Policy
}

// run is where the members of a group stand.
type run struct {
	first   uint32
	members []uint64
}

// place is where the tables are now.
func (t *tables) place() place {
	p := place{prog: t.prog, runs: t.hops.runs, bridging: t.bridging, zones: t.zones, counters: t.counters,
		listed: map[*adjacency]bool{}, groups: map[*nextHop]run{}, vlans: map[*device]*routerVlanKey{}, vrfs: map[*otherTable]int{}}
	for _, o := range t.others {
		p.vrfs[o] = o.number
	}
	for _, a := range t.adjs.all {
		p.listed[a] = a.listed
	}
	for _, h := range t.hops.byIndex {
		if h != nil {
			p.groups[h] = run{h.first, h.members}
		}
	}
	for _, l := range t.links {
		p.vlans[l] = l.vlan
	}
	for i := range p.evaluatedBy {
		p.evaluatedBy[i] = t.evaluatedBy[i].Load()
	}
	return p
}

// moveBack is for a program that could not take the place of another one: its tables are as they were,
// since nothing has been told meanwhile. Only routes are compiled anew, since next hops were freed.
func (t *tables) moveBack(p place) {
	t.prog, t.hops.runs, t.zones, t.counters = p.prog, p.runs, p.zones, p.counters
	t.takeSessions()
	for a, listed := range p.listed {
		a.listed = listed
	}
	for h, was := range p.groups {
		h.first, h.members = was.first, was.members
	}
	for o, number := range p.vrfs {
		o.number = number
	}
	for l, vlan := range p.vlans {
		l.vlan = vlan
	}
	t.bridging.listed, t.bridging.vlans = p.bridging.listed, p.bridging.vlans
	for i, policy := range p.evaluatedBy {
		t.evaluatedBy[i].Store(policy)
	}
	if t.complete {
		t.fill()
	}
	t.renderControl()
}
