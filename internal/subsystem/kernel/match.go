// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// Finding the link of a configured interface, and who may have which name.
// Names and alternative names are unique together, so a link renamed earlier is
// found by its former name as well.

// Groups mark what Minne made or changed, in the link itself (IFLA_GROUP), so that a new daemon knows.
// 0 is the group of every other link.
const (
	ownedGroup   = 0x4d69 // "Mi": Minne made the link and may remove it
	resizedGroup = 0x4d6a // the link has its MTU from a configuration
)

// ours says whether Minne made a link, or changed its MTU.
func (l *link) ours() bool { return l.Group == ownedGroup || l.Group == resizedGroup }

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

// InterfaceError says why one interface can't be put in place, though its link may be there.
type InterfaceError struct {
	Interface string // the interface's name in the configuration
	Reason    string
}

func (e *InterfaceError) Error() string { return "interface " + e.Interface + ": " + e.Reason }

// bound is a configured interface together with its link; link is nil for one still to be made
// and for a missing link.
type bound struct {
	DesiredInterface
	link    *link
	parents []*bound
	members []*bound // what belongs to it
	master  *bound   // what it belongs to
	former  *link    // that has the name and goes, since another one is made in its place
	missing bool     // nothing is done about it
	why     error    // of missing; nil for an interface whose parent is missing
	odd     string   // the link was found, but only because it had been found before
}

// leaveOut makes an interface one that nothing is done about.
func (b *bound) leaveOut(why error) { b.link, b.missing, b.why = nil, true, why }

// bind finds the link of every interface. One that is missing, or that can't be told from another, is
// an error; the interface and what sits on it are left out. had says which link was an interface's
// before: it stays so when another comes that looks the same.
func bind(interfaces []DesiredInterface, links []link, had func(name string, index int) bool) ([]*bound, error) {
	var all []*bound
	var failures []error
	byName := map[string]*bound{}
	taken := map[int]string{}
	for _, i := range interfaces {
		b := &bound{DesiredInterface: i}
		all, byName[i.Name] = append(all, b), b
		var err error
		for _, p := range i.Kind.Parents {
			b.parents = append(b.parents, byName[p.Name])
		}
		switch {
		case i.Made != nil:
			b.bindMade(links)
		case i.Kind.Brought && !slices.ContainsFunc(links, func(l link) bool { return l.Name == i.Name }):
			b.leaveOut(nil) // there is no link now
		default:
			b.link, b.odd, err = find(i, links, had)
		}
		if err == nil && b.link != nil {
			if other := taken[b.link.Index]; other != "" {
				err = &InterfaceError{i.Name, fmt.Sprintf("interfaces %s and %s both match link %s; match each by a name, MAC address or path of its own",
					other, i.Name, b.link.Name)}
			} else {
				taken[b.link.Index] = i.Name
			}
		}
		if err != nil {
			b.leaveOut(err)
			failures = append(failures, err)
		}
	}
	join(all, byName)
	return all, errors.Join(failures...)
}

// find returns the link that an interface matches; odd says what is wrong with it nevertheless.
func find(i DesiredInterface, links []link, had func(name string, index int) bool) (l *link, odd string, err error) {
	var wanted string
	var fits func(l *link) bool
	switch m := i.Match; {
	case m.MAC != config.MAC{}:
		wanted = "MAC address " + net.HardwareAddr(m.MAC[:]).String()
		fits = func(l *link) bool {
			if slices.Contains(borrowers, l.Kind) {
				return false // a VLAN, bridge or bond shows the MAC of a link below
			}
			if l.PermMAC != [6]byte{} {
				return l.PermMAC == m.MAC
			}
			return l.MAC == m.MAC
		}
	case m.Path != "":
		wanted = "bus path " + m.Path
		fits = func(l *link) bool { return l.BusPath == m.Path && !slices.Contains(borrowers, l.Kind) }
	default:
		name := m.Name
		name = cmp.Or(name, i.Name)
		wanted = "name " + name
		fits = func(l *link) bool { return l.Name == name || slices.Contains(l.AltNames, name) }
	}
	var found []*link
	for n := range links {
		if fits(&links[n]) {
			found = append(found, &links[n])
		}
	}
	if i.Match.MAC != (config.MAC{}) {
		found = withoutChildren(found)
	}
	switch len(found) {
	case 1:
		return found[0], "", nil
	case 0:
		return nil, "", &MissingError{Interface: i.Name, Wanted: wanted, Present: describe(links)}
	}
	reason := fmt.Sprintf("several links have %s: %s; %s", wanted, namesOf(found), distinguish(found))
	known := slices.DeleteFunc(slices.Clone(found), func(l *link) bool { return !had(i.Name, l.Index) })
	if len(known) == 1 {
		return known[0], fmt.Sprintf("%s (until then %s stays this interface, but after a reboot none would be)", reason, known[0].Name), nil
	}
	return nil, "", &InterfaceError{i.Name, reason}
}

// withoutChildren leaves out links that sit on another one of the list and have its MAC address
// from there: VLANs, MACsec, and whatever kinds are to come. Of a veth, the link beneath is the other end.
func withoutChildren(found []*link) []*link {
	return slices.DeleteFunc(slices.Clone(found), func(l *link) bool {
		return l.Parent != 0 && l.Kind != "veth" && slices.ContainsFunc(found, func(p *link) bool { return p.Index == l.Parent })
	})
}

func namesOf(list []*link) string {
	names := make([]string, len(list))
	for n, l := range list {
		names[n] = l.Name
	}
	return strings.Join(names, ", ")
}

// distinguish says what to write instead of a match that several links have.
func distinguish(list []*link) string {
	words := make([]string, len(list))
	for n, l := range list {
		words[n] = "name: " + l.Name
		if l.BusPath != "" && !slices.ContainsFunc(list, func(o *link) bool { return o != l && o.BusPath == l.BusPath }) {
			words[n] = "path: " + l.BusPath
		}
	}
	return fmt.Sprintf("write match: {%s}", strings.Join(words, "} or match: {"))
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

// sysctlName is the name under which the interface's settings are found now.
func (b *bound) sysctlName() string {
	if b.link == nil {
		return b.Name
	}
	return b.link.Name
}
