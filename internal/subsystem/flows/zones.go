// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/flowrecord"
)

// Conntrack does not know interfaces, so the zones of a connection are those that the routes lead to: the kernel is
// asked once for each address. Where ways there and back differ, that is the zone of the way there.

// Self is the router in the place of a zone.
const Self = "self"

// zones finds the zone of an address, and remembers it: connections share many addresses.
type zones struct {
	ctx    context.Context
	of     map[string]string // zone by interface
	routes *nlmsg.Socket
	links  map[uint32]string // zone by the index of a link
	called map[uint32]string // name by the index of a link
	known  map[place]string
	out    map[place]uint32 // of those known, the index of the link that leads there; 0 for the router itself
	vrfs   map[uint16]vrf   // by table; nil before they were asked for
	failed error
}

// vrf is the link of a VRF.
type vrf struct {
	index uint32
	name  string
}

// place is an address in the table of a VRF, 0 for the main table.
type place struct {
	table   uint16
	address netip.Addr
}

func newZones(ctx context.Context, of map[string]string) (*zones, error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &zones{ctx: ctx, of: of, routes: s, links: map[uint32]string{}, called: map[uint32]string{}, known: map[place]string{}, out: map[place]uint32{}}, nil
}

func (z *zones) close() { z.routes.Close() }

// zone is the zone towards an address: Self for the router's own, "" when it has none or no route leads there.
func (z *zones) zone(a place) string {
	if len(z.of) == 0 || z.failed != nil {
		return ""
	}
	name, ok := z.known[a]
	if !ok {
		name = z.ask(a)
		z.known[a] = name
	}
	return name
}

// way is where an address is.
func (z *zones) way(a place) flowrecord.Way {
	w := flowrecord.Way{Zone: z.zone(a), Index: z.out[a]}
	w.Interface = z.called[w.Index]
	return w
}

// ask makes the route lookup of `ip route get`.
func (z *zones) ask(at place) string {
	var buffer [unix.SizeofRtMsg + 2*unix.SizeofRtAttr + 16 + 4]byte
	body := buffer[:unix.SizeofRtMsg]
	body[0], body[1] = unix.AF_INET, 32
	if at.address.Is6() {
		body[0], body[1] = unix.AF_INET6, 128
	}
	body = nlmsg.AppendAttr(body, unix.RTA_DST, at.address.AsSlice())
	if at.table != 0 {
		in, ok := z.allVRFs()[at.table]
		if !ok {
			return ""
		}
		body = nlmsg.AppendAttr(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, in.index))
	}
	var name string
	_, err := z.routes.Ask(z.ctx, unix.RTM_GETROUTE, 0, body, func(m nlmsg.Message) error {
		answer := m.Body
		if len(answer) < unix.SizeofRtMsg {
			return nlmsg.ErrShort
		}
		switch answer[7] { // rtm_type
		case unix.RTN_LOCAL:
			name = Self
		case unix.RTN_UNICAST:
			for kind, value := range nlmsg.Attributes(answer[unix.SizeofRtMsg:]) {
				if kind == unix.RTA_OIF && len(value) == 4 {
					index := binary.NativeEndian.Uint32(value)
					name, z.out[at] = z.link(index), index
				}
			}
		}
		return nil
	})
	if _, refused := err.(unix.Errno); err != nil && !refused { // the kernel refuses what it has no route for
		z.failed = err
	}
	return name
}

// allVRFs are the router's VRFs by their tables.
func (z *zones) allVRFs() map[uint16]vrf {
	if z.vrfs == nil {
		z.vrfs = map[uint16]vrf{}
		links, err := netlink.LinkList()
		if err != nil {
			z.failed = err
		}
		for _, l := range links {
			if v, is := l.(*netlink.Vrf); is && v.Table <= math.MaxUint16 {
				z.vrfs[uint16(v.Table)] = vrf{uint32(v.Index), v.Name}
			}
		}
	}
	return z.vrfs
}

// vrfName is the name of a table's VRF, "" of the main table. A VRF that is no more leaves its table's number.
func (z *zones) vrfName(table uint16) string {
	if table == 0 {
		return ""
	}
	if v, ok := z.allVRFs()[table]; ok {
		return v.name
	}
	return fmt.Sprintf("table %d", table)
}

// check refuses a filter by a zone or a VRF that is not there.
func (z *zones) check(f *Filter) error {
	if f.Zone != "" && !z.exists(f.Zone) {
		return fmt.Errorf("zone %q: expected %s", f.Zone, z.names())
	}
	if f.VRF == "" {
		return nil
	}
	var names []string
	for _, v := range z.allVRFs() {
		names = append(names, v.name)
	}
	slices.Sort(names)
	switch {
	case slices.Contains(names, f.VRF):
		return nil
	case len(names) == 0:
		return fmt.Errorf("vrf %q: the router has no VRF", f.VRF)
	}
	return fmt.Errorf("vrf %q: expected one of %s", f.VRF, strings.Join(names, ", "))
}

func (z *zones) link(index uint32) string {
	name, ok := z.links[index]
	if !ok {
		if i, err := net.InterfaceByIndex(int(index)); err == nil {
			name, z.called[index] = z.of[i.Name], i.Name
		}
		z.links[index] = name
	}
	return name
}

// exists says whether there is a zone of that name.
func (z *zones) exists(name string) bool { return slices.Contains(z.sorted(), name) }

// names are all zones, for whoever named another.
func (z *zones) names() string {
	if len(z.of) == 0 {
		return "none, as no interface has a zone"
	}
	return "one of " + strings.Join(z.sorted(), ", ")
}

func (z *zones) sorted() []string {
	if len(z.of) == 0 {
		return nil
	}
	return append(slices.Compact(slices.Sorted(maps.Values(z.of))), Self)
}
