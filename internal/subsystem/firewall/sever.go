// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/gaissmai/bart"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/policy"
)

// Connections that a new policy forbids end with it. Conntrack keeps them, and
// the rules let pass what conntrack keeps, so each is evaluated again by the
// reference, and forgotten when it would not be permitted today. Its next packet
// is then one without a connection, about which the rules decide.
//
// Conntrack does not know interfaces: the routes to both ends tell them. Where
// they tell wrongly (ways there and back differ), a connection without
// translation goes on, as its next packet is permitted by the rules themselves.

// noConnections says whether conntrack has none at all: looking through its table would cost more.
func noConnections() (bool, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	return strings.TrimSpace(string(text)) == "0", err
}

// sever forgets the connections that p forbids, and returns how many. Of these it looks only at
// those with an address in one of the changed prefixes; at all for nil.
func sever(p *policy.Policy, changed []netip.Prefix) (int, error) {
	var about *bart.Lite
	if changed != nil {
		about = &bart.Lite{}
		for _, c := range changed {
			about.Insert(c)
		}
	}
	r := newRoutes()
	total, failed := 0, []error(nil)
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, forbidden{p, r, about})
		total += int(n)
		if err != nil && !errors.Is(err, unix.ENOENT) { // nothing to delete any more
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return total, fmt.Errorf("ending the connections that the new policy forbids: %w", err)
	}
	return total, nil
}

// forbidden finds connections that a policy would not permit to begin.
type forbidden struct {
	p *policy.Policy
	r *routes

	about *bart.Lite // addresses of which one must be in it; nil for all
}

// MatchConntrackFlow reports whether the policy forbids a connection.
func (f forbidden) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	from, to := addr(flow.Forward.SrcIP), addr(flow.Reverse.SrcIP) // where it is answered from, after translation
	if f.about != nil && !f.about.Contains(from) && !f.about.Contains(to) {
		return false
	}
	vrf, known := f.vrf(flow.Zone)
	if !known {
		return false
	}
	in, ok1 := f.r.towards(vrf, from)
	out, ok2 := f.r.towards(vrf, to)
	if !ok1 || !ok2 || in == "" && out == "" {
		return false
	}
	packet := policy.Packet{In: in, Out: out, Source: from, Destination: to, Protocol: flow.Forward.Protocol,
		SourcePort: flow.Forward.SrcPort, DestPort: flow.Reverse.SrcPort, HopLimit: 64}
	switch packet.Protocol {
	case unix.IPPROTO_ICMP: // of all messages, these begin what is kept
		packet.ICMPType, packet.SourcePort, packet.DestPort = 8, 0, 0
	case unix.IPPROTO_ICMPV6:
		packet.ICMPType, packet.SourcePort, packet.DestPort = 128, 0, 0
	}
	return policy.Evaluate(f.p, packet, policy.New).Action != policy.Permit
}

// vrf is the VRF of a zone of conntrack, "" for none; connections in zones of others are not Minne's.
func (f forbidden) vrf(zone uint16) (name string, known bool) {
	for _, v := range f.p.VRFs {
		if v.Table == zone {
			return v.Name, true
		}
	}
	return "", zone == 0
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// exit is the interface towards an address, "" for the router itself.
type exit struct {
	iface string
	ok    bool
}

// routes remembers the ways: connections share few addresses.
type routes struct {
	links map[int]string
	known map[place]exit
}

// place is an address in a VRF, "" for the main table.
type place struct {
	vrf     string
	address netip.Addr
}

func newRoutes() *routes { return &routes{links: map[int]string{}, known: map[place]exit{}} }

func (r *routes) towards(vrf string, a netip.Addr) (iface string, ok bool) {
	at := place{vrf, a}
	if w, ok := r.known[at]; ok {
		return w.iface, w.ok
	}
	w := exit{}
	w.iface, w.ok = r.ask(at)
	r.known[at] = w
	return w.iface, w.ok
}

func (r *routes) ask(at place) (string, bool) {
	if !at.address.IsValid() {
		return "", false
	}
	found, err := netlink.RouteGetWithOptions(at.address.AsSlice(), &netlink.RouteGetOptions{VrfName: at.vrf})
	if err != nil || len(found) == 0 {
		return "", false
	}
	if found[0].Type == unix.RTN_LOCAL {
		return "", true
	}
	if found[0].Type != unix.RTN_UNICAST {
		return "", false
	}
	index := found[0].LinkIndex
	if name, ok := r.links[index]; ok {
		return name, name != ""
	}
	l, err := netlink.LinkByIndex(index)
	if err == nil {
		r.links[index] = l.Attrs().Name
	}
	return r.links[index], err == nil
}
