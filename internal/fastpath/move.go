// SPDX-License-Identifier: Apache-2.0

package fastpath

// moveTo writes everything into the maps of another program, whose tables are empty. Indexes stay
// what they are; only runs of group members are laid out anew.
func (t *tables) moveTo(p *program) {
	if t.firewall != nil {
		t.firewall.takeChanges(&t.prog.firewall)
	}
	t.prog = p
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
	t.renderOwn()
	if t.complete {
		t.fill()
	}
	t.renderControl()
}
