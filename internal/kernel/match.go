// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"minne/internal/config"
)

// Finding the link of a configured interface, and who may have which name.
// Names and alternative names are unique together, so a link renamed earlier is
// found by its former name as well.

// ownedGroup marks what Minne made or changed, in the link itself (IFLA_GROUP), so that a new
// daemon knows: a VLAN with it may be removed, another link with it has an MTU from a
// configuration. "Mi" in ASCII; 0 is the group of every other link.
const ownedGroup = 0x4d69

// MissingError says that the link of an interface is not there.
type MissingError struct {
	Interface string // the interface's name in the configuration
	Wanted    string // how it is matched
	Present   []string
}

func (e *MissingError) Error() string {
	present := "there are no links"
	if len(e.Present) > 0 {
		present = "present: " + strings.Join(e.Present, ", ")
	}
	return fmt.Sprintf("interface %s: no link with %s; %s", e.Interface, e.Wanted, present)
}

// bound is a configured interface together with its link; link is nil for a VLAN still to be made
// and for a missing link.
type bound struct {
	DesiredInterface
	link    *link
	missing bool
}

// bind finds the link of every interface. A missing link is an error and marks the interface,
// and the VLANs on it, as missing.
func bind(interfaces []DesiredInterface, links []link) ([]*bound, error) {
	var all []*bound
	var failures []error
	byName := map[string]*bound{}
	taken := map[int]string{}
	for _, i := range interfaces {
		b := &bound{DesiredInterface: i}
		all, byName[i.Name] = append(all, b), b
		var err error
		if i.VLAN != nil {
			err = b.bindVLAN(byName[i.VLAN.Parent], links)
		} else {
			b.link, err = find(i, links)
			b.missing = b.link == nil
		}
		if err == nil && b.link != nil {
			if other := taken[b.link.Index]; other != "" {
				err = fmt.Errorf("interfaces %s and %s: both match link %s", other, i.Name, b.link.Name)
			}
			taken[b.link.Index] = i.Name
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return all, errors.Join(failures...)
}

// find returns the link that an interface matches.
func find(i DesiredInterface, links []link) (*link, error) {
	var wanted string
	var fits func(l *link) bool
	switch m := i.Match; {
	case m.MAC != config.MAC{}:
		wanted = "MAC address " + net.HardwareAddr(m.MAC[:]).String()
		fits = func(l *link) bool {
			if stacked(l) {
				return false // a VLAN, bridge or bond shows the MAC of a link below
			}
			if l.PermMAC != [6]byte{} {
				return l.PermMAC == m.MAC
			}
			return l.MAC == m.MAC
		}
	case m.Path != "":
		wanted = "bus path " + m.Path
		fits = func(l *link) bool { return l.BusPath == m.Path && !stacked(l) }
	default:
		name := m.Name
		if name == "" {
			name = i.Name
		}
		wanted = "name " + name
		fits = func(l *link) bool { return l.Name == name || slices.Contains(l.AltNames, name) }
	}
	var found []*link
	for n := range links {
		if fits(&links[n]) {
			found = append(found, &links[n])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &MissingError{Interface: i.Name, Wanted: wanted, Present: describe(links)}
	}
	names := make([]string, len(found))
	for n, l := range found {
		names[n] = l.Name
	}
	return nil, fmt.Errorf("interface %s: several links have %s: %s; match one of them by name",
		i.Name, wanted, strings.Join(names, ", "))
}

// stacked says whether a link sits on others and borrows their MAC address.
func stacked(l *link) bool {
	switch l.Kind {
	case "vlan", "macvlan", "bridge", "bond", "team", "vrf":
		return true
	}
	return false
}

// describe lists links for an operator who has to pick one.
func describe(links []link) []string {
	var words []string
	for _, l := range links {
		text := l.Name
		if l.Ethernet {
			text += " " + net.HardwareAddr(l.MAC[:]).String()
		}
		if l.BusPath != "" {
			text += " at " + l.BusPath
		}
		words = append(words, text)
	}
	return words
}

// tagType is the EtherType of a VLAN's tag.
func tagType(v *config.VLAN) uint16 {
	if v.Protocol == vlan8021ad {
		return 0x88a8
	}
	return 0x8100
}

// bindVLAN finds the VLAN with the right tag on the right parent, whatever its name.
func (b *bound) bindVLAN(parent *bound, links []link) error {
	if parent == nil || parent.missing {
		b.missing = true
		return nil // the parent's own error says it
	}
	if parent.link == nil {
		return nil
	}
	for n := range links {
		l := &links[n]
		if l.Kind == "vlan" && l.Parent == parent.link.Index && l.VLANID == b.VLAN.ID && l.VLANType == tagType(b.VLAN) {
			b.link = l
			return nil
		}
	}
	return nil
}

// sysctlName is the name under which the interface's settings are found now.
func (b *bound) sysctlName() string {
	if b.link == nil {
		return b.Name
	}
	return b.link.Name
}
