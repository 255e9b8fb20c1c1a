// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"
	"strings"
)

// Bonds: the program is attached to the bond, and the kernel puts it on the bond's ports. What comes in by a port that the
// bond uses has come in by the bond (bpf/bond.h); what leaves by the bond leaves by the port of the bond's own choice.

// hasBonds says whether a bond should have the fast path.
func (d Desired) hasBonds() bool {
	for _, i := range d.Interfaces {
		if i.Bond && i.FastPath {
			return true
		}
	}
	return false
}

// bondEntries are the sizes of maps that hang on whether a bond has the fast path.
func (s shape) bondEntries() map[string]uint32 {
	if s.bonds {
		return nil
	}
	return map[string]uint32{routerMapBonds: none}
}

// renderBonds writes which port of a bond its frames have come in by.
func (t *tables) renderBonds() {
	if !t.prog.shape.bonds {
		return
	}
	for index, l := range t.links {
		if index >= maxIfindex {
			continue
		}
		bond := uint64(0)
		if m := t.links[l.Master]; m != nil && m.Kind == "bond" && l.InUse && l.Up && t.attached[m.Index] {
			bond = uint64(m.Index)
		}
		t.prog.bondsAt.store(index, bond)
	}
}

// devices are the names of those whose frames the program of a port sees: the ports of a bond, else itself.
func (t *tables) devices(ifindex int) (names []string) {
	l := t.links[ifindex]
	if l == nil || l.Kind != "bond" {
		return []string{t.nameOf(ifindex)}
	}
	for _, p := range t.portsOfBond(l) {
		names = append(names, p.Name)
	}
	return names
}

// portsOfBond are the ports of a bond, in the order of their names; none of what is no bond.
func (t *tables) portsOfBond(bond *device) (ports []*device) {
	if bond.Kind != "bond" {
		return nil
	}
	for _, l := range t.links {
		if l.Master == bond.Index {
			ports = append(ports, l)
		}
	}
	slices.SortFunc(ports, func(a, b *device) int { return strings.Compare(a.Name, b.Name) })
	return ports
}
