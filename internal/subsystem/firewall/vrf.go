// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"slices"

	"minne/internal/model/policy"
)

// Interfaces in VRFs. What comes in by one reaches the hooks input and forward as a packet of the VRF: there the
// interface is the slave's (sdifname). Before routing it is its own still; after it, only a mark that the hook
// forward has set says where a packet is from. What goes out is seen with its own interface everywhere.
//
// Connections of a VRF are in a zone of conntrack with the number of its table. So a packet is of no connection
// in another VRF, whatever its addresses. The fast path asks for connections in the same zone.

// arrival is a hook, by what it can say of the interface that a packet came in by.
type arrival int

const (
	beforeRouting arrival = iota
	filtering             // input and forward
	afterRouting
)

// Bits of the packet's mark that have the zone where a packet of a VRF is from.
const (
	zoneMarks = 0x0fff0000
	zoneShift = 16
)

// from matches packets that came in by one of some interfaces: none, one or two alternatives.
func (t *text) from(hook arrival, zones []policy.ZoneID) (list []string) {
	var plain, inside []string
	for _, z := range zones {
		main, slaves := t.split(t.p.Zones[z].Interfaces)
		plain = append(plain, main...)
		switch {
		case len(slaves) == 0:
		case hook == beforeRouting:
			plain = append(plain, slaves...)
		case hook == filtering:
			inside = append(inside, slaves...)
		default:
			list = append(list, fmt.Sprintf("iifname %s meta mark & %#08x == %#08x", oneOf(quoted(t.vrfsOf(slaves))), zoneMarks, int(z)<<zoneShift))
		}
	}
	if len(inside) > 0 {
		list = append(list, "meta sdifname "+oneOf(quoted(inside)))
	}
	if len(plain) > 0 {
		list = slices.Insert(list, 0, "iifname "+oneOf(quoted(plain)))
	}
	return list
}

// vrfsOf are the VRFs that some interfaces are in.
func (t *text) vrfsOf(names []string) (list []string) {
	for _, name := range names {
		if v := t.p.VRFOf(name); !slices.Contains(list, v.Name) {
			list = append(list, v.Name)
		}
	}
	return list
}

// to matches packets that go out by an interface of some zones.
func (t *text) to(zones []policy.ZoneID) string {
	var names []string
	for _, z := range zones {
		names = append(names, t.p.Zones[z].Interfaces...)
	}
	return "oifname " + oneOf(quoted(names))
}

// split divides interfaces into those of the main table and those in VRFs.
func (t *text) split(names []string) (main, slaves []string) {
	for _, name := range names {
		if t.p.VRFOf(name) == nil {
			main = append(main, name)
		} else {
			slaves = append(slaves, name)
		}
	}
	return main, slaves
}

// dispatch are the lines that go on by the interface a packet came in by.
func dispatch(main, slaves []string) (lines []string) {
	if len(main) > 0 {
		lines = append(lines, "iifname vmap "+braces(main))
	}
	if len(slaves) > 0 {
		lines = append(lines, "meta sdifname vmap "+braces(slaves))
	}
	return lines
}

// marked is a chain that marks packets of a VRF with their zone before it goes on to the chain of that zone.
func (t *text) marked(zone policy.ZoneID, chain string) string {
	if len(t.p.NAT) == 0 {
		return chain
	}
	t.chain("vrf_"+chain, fmt.Sprintf("meta mark set meta mark & %#08x | %#08x", ^uint32(zoneMarks), int(zone)<<zoneShift), "goto "+chain)
	return "vrf_" + chain
}

// vrfs gives the connections of VRFs their zones. What a program sends in a VRF passes the hook output twice,
// untracked by the VRF, then by its interface.
func (t *text) vrfs() {
	var entries []string
	for _, v := range t.p.VRFs {
		for _, name := range v.Interfaces {
			entries = append(entries, fmt.Sprintf("%q : %d", name, v.Table))
		}
	}
	if len(entries) == 0 {
		return
	}
	t.chain("vrf_in", "type filter hook prerouting priority raw; policy accept;", "ct zone set iifname map "+braces(entries))
	t.chain("vrf_out", "type filter hook output priority raw; policy accept;", "ct zone set oifname map "+braces(entries))
}

// loops are the VRFs' own links, by which the router reaches itself in them, as by lo.
func (t *text) loops() []string {
	var names []string
	for _, v := range t.p.VRFs {
		if len(v.Interfaces) > 0 {
			names = append(names, v.Name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"meta sdifname " + oneOf(quoted(names)) + " accept"}
}
