// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"minne/internal/base/plan"
)

// Links that belong to another one: ports of a bond or bridge, interfaces in a VRF. The kernel calls the
// other one their master.

// ipv6Off is the switch that takes IPv6 from an interface. Ports of bonds and bridges have none of their own: with
// it, Linux would report multicast groups on every port (MLDv2) from the master's MAC address, also on a bond's
// backup, and the switch would send there what is for the router.
func ipv6Off(name string) string { return "net/ipv6/conf/" + name + "/disable_ipv6" }

// join fills in who belongs to whom.
func join(all []*bound, byName map[string]*bound) {
	for _, b := range all {
		for _, p := range b.Kind.Members {
			if m := byName[p.Name]; m != nil && m.master == nil {
				m.master = b
				b.members = append(b.members, m)
			}
		}
	}
}

// releases takes links out of what they belong to, where nobody wants them there any more.
func (r *round) releases() {
	for n := range r.links {
		l := &r.links[n]
		at := slices.IndexFunc(r.links, func(m link) bool { return l.Master != 0 && m.Index == l.Master })
		if at < 0 {
			continue
		}
		master := &r.links[at]
		ours := master.made() != nil
		port := ""
		wanted := false
		for _, b := range r.bound {
			ours = ours || b.link == master && len(b.Kind.Members) > 0
			if b.link == l {
				port, wanted = b.Name, b.master != nil // where it belongs is for enslaves
			}
		}
		if !ours || wanted || port == "" && r.lenient && r.absent != nil {
			continue
		}
		name := cmp.Or(port, l.Name)
		r.add(plan.Change{Action: plan.Modify, Object: "master of " + name, From: master.Name, To: "none"},
			func(context.Context) error { return r.release(l) }).of(port, fmt.Sprintf("%s was put into %s", name, master.Name))
	}
}

func (r *round) release(l *link) error {
	if err := r.system.setMaster(l.Index, 0); err != nil {
		return err
	}
	now, ok, err := r.system.setting(ipv6Off(l.Name))
	usual, _, err2 := r.system.setting(ipv6Off("default"))
	if err != nil || err2 != nil || !ok || now == usual {
		return cmp.Or(err, err2)
	}
	return r.system.setSetting(ipv6Off(l.Name), usual)
}

// enslaves puts links into what they belong to, in the order in which it names them.
func (r *round) enslaves() {
	for _, m := range r.bound {
		for _, b := range m.members {
			if m.missing || b.missing || b.link != nil && m.link != nil && b.link.Master == m.link.Index {
				continue
			}
			from := "none"
			if b.link != nil && b.link.Master != 0 {
				if at := slices.IndexFunc(r.links, func(l link) bool { return l.Index == b.link.Master }); at >= 0 {
					from = r.links[at].Name
				}
			}
			r.add(plan.Change{Action: plan.Modify, Object: "master of " + b.Name, From: from, To: m.Name},
				r.on(b, func(index int) error { return r.enslave(index, m) })).
				of(b.Name, fmt.Sprintf("%s was taken out of %s", b.Name, m.Name))
		}
	}
}

func (r *round) enslave(index int, master *bound) error {
	to, err := r.index(master)
	if err != nil {
		return err
	}
	if master.Kind.Name == vrf.name {
		if err := r.closed(master); err != nil {
			return err
		}
	}
	if master.Kind.Name == bond.name { // which takes no link that is up, and sets it up itself
		if err := r.system.setUp(index, false); err != nil {
			return err
		}
	}
	return r.system.setMaster(index, to)
}
