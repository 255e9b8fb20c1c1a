// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/model/rib"
)

// What the kernel would do with a packet that it gets: its own answers, for
// minne explain. Nothing is sent and nothing changes.

// Question is a packet that arrives by an interface.
type Question struct {
	Source, Destination netip.Addr
	Interface           string // logical
	AntiSpoof           string // as configured for the interface: strict, loose, or neither
}

// Opinion is what the kernel says of it.
type Opinion struct {
	AntiSpoof string `json:"anti_spoof,omitempty"` // what the nftables rule says of the source; "" when there is none
	Dropped   bool   `json:"dropped"`              // by that rule, or by the routing decision
	Routing   string `json:"routing"`              // what routing decides
	Route     string `json:"route,omitempty"`      // the entry that matches the destination
	Neighbour string `json:"neighbour,omitempty"`  // state of the next hop's entry
	Egress    string `json:"egress,omitempty"`     // interface that it is forwarded by
	Local     bool   `json:"local,omitempty"`      // it is for the router itself
}

// Ask asks the kernel. Of the nftables rule the condition is repeated by route lookups, as the
// fib expression makes them.
func (k *Kernel) Ask(q Question) (Opinion, error) {
	link, err := netlink.LinkByName(q.Interface)
	if err != nil {
		return Opinion{}, fmt.Errorf("interface %s: %w", q.Interface, err)
	}
	in, vrf := link.Attrs().Index, vrfOf(link)
	var o Opinion
	if o.AntiSpoof, o.Dropped, err = askSource(q, in, vrf); err != nil {
		return o, err
	}
	matched, err := netlink.RouteGetWithOptions(q.Destination.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true, VrfName: vrf})
	if err == nil && len(matched) > 0 {
		o.Route = routeWords(matched[0])
	}
	decided, err := netlink.RouteGetWithOptions(q.Destination.AsSlice(),
		&netlink.RouteGetOptions{IifIndex: in, SrcAddr: q.Source.AsSlice()})
	if err != nil {
		o.Routing, o.Dropped = refusalWords(err), o.Dropped || silent(err)
		return o, nil
	}
	if len(decided) == 0 {
		o.Routing = "gives no answer"
		return o, nil
	}
	o.decide(decided[0], q.Destination)
	return o, nil
}

// decide puts the routing decision in words, with its neighbour.
func (o *Opinion) decide(r netlink.Route, to netip.Addr) {
	switch rib.RouteType(r.Type) {
	case rib.Local:
		o.Routing, o.Local = "takes it for itself", true
		return
	case rib.Broadcast, rib.Multicast:
		o.Routing = "treats it as " + typeWords[rib.RouteType(r.Type)]
		return
	case rib.Unicast:
	default:
		o.Routing = "route of type " + typeWords[rib.RouteType(r.Type)]
		return
	}
	gateway := to
	if len(r.Gw) > 0 {
		gateway, _ = netip.AddrFromSlice(r.Gw)
		gateway = gateway.Unmap()
	} else if v, ok := r.Via.(*netlink.Via); ok {
		gateway, _ = netip.AddrFromSlice(v.Addr)
	}
	o.Egress = nameOf(r.LinkIndex)
	o.Routing = "forwards it by " + o.Egress
	if gateway != to {
		o.Routing += fmt.Sprintf(" via %v", gateway)
	}
	o.Neighbour = neighbourWords(gateway, r.LinkIndex)
}

// vrfOf is the VRF that an interface is in, "" for the main table.
func vrfOf(link netlink.Link) string {
	master, err := netlink.LinkByIndex(link.Attrs().MasterIndex)
	if err != nil || master.Type() != "vrf" {
		return ""
	}
	return master.Attrs().Name
}

// askSource says what the rule of antispoof.go decides about a source.
func askSource(q Question, in int, vrf string) (words string, dropped bool, err error) {
	if q.AntiSpoof != "strict" && q.AntiSpoof != "loose" {
		return "", false, nil
	}
	options := &netlink.RouteGetOptions{FIBMatch: true, VrfName: vrf}
	if q.AntiSpoof == "strict" && q.Source.Is6() {
		options.VrfName, options.OifIndex = "", in // the lookup of "fib saddr . iif" keeps to the interface
	}
	found, err := netlink.RouteGetWithOptions(q.Source.AsSlice(), options)
	if err != nil || len(found) == 0 {
		return fmt.Sprintf("%s: drops it, no route leads to %v", q.AntiSpoof, q.Source), true, nil
	}
	r := found[0]
	route := routeWords(r)
	if rib.RouteType(r.Type) != rib.Unicast {
		return fmt.Sprintf("%s: drops it, %s is no unicast route", q.AntiSpoof, route), true, nil
	}
	if q.AntiSpoof == "strict" && !leadsOut(r, in) {
		return fmt.Sprintf("strict: drops it, the source's route %s leads elsewhere than %s", route, q.Interface), true, nil
	}
	return fmt.Sprintf("%s: accepts it, the source's route is %s", q.AntiSpoof, route), false, nil
}

func leadsOut(r netlink.Route, in int) bool {
	if r.LinkIndex == in {
		return true
	}
	return slices.ContainsFunc(r.MultiPath, func(h *netlink.NexthopInfo) bool { return h.LinkIndex == in })
}

// routeWords is a route as ip route prints it, in short.
func routeWords(r netlink.Route) string {
	text := "default"
	if r.Dst != nil {
		if ones, _ := r.Dst.Mask.Size(); ones > 0 || !r.Dst.IP.IsUnspecified() {
			text = r.Dst.String()
		}
	}
	if kind := rib.RouteType(r.Type); kind != rib.Unicast {
		text = typeWords[kind] + " " + text
	}
	hop := func(gateway net.IP, index int) {
		if len(gateway) > 0 {
			text += " via " + gateway.String()
		}
		if index != 0 {
			text += " dev " + nameOf(index)
		}
	}
	if len(r.MultiPath) == 0 {
		hop(r.Gw, r.LinkIndex)
	}
	for _, h := range r.MultiPath {
		hop(h.Gw, h.LinkIndex)
	}
	return text + " (" + protocolWords(uint8(r.Protocol)) + ")"
}

func nameOf(index int) string {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("link %d", index)
	}
	return l.Attrs().Name
}

// neighbourWords is the state of a neighbour's entry.
func neighbourWords(address netip.Addr, on int) string {
	family := netlink.FAMILY_V4
	if address.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(on, family) })
	if err != nil {
		return ""
	}
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == address {
			state := cmp.Or(rib.NeighbourState(uint16(n.State)), "none")
			if len(n.HardwareAddr) > 0 {
				return fmt.Sprintf("%v is %v (%s)", address, n.HardwareAddr, state)
			}
			return fmt.Sprintf("%v has not answered (%s)", address, state)
		}
	}
	return fmt.Sprintf("%v is not known yet: the kernel asks for it when it has a packet", address)
}

// refusalWords says what an error of the routing decision means for the packet
// (fib_validate_source and ip_route_input_slow).
func refusalWords(err error) string {
	switch {
	case errors.Is(err, unix.EXDEV):
		return "drops it: the reverse path filter (rp_filter)"
	case errors.Is(err, unix.EINVAL):
		return "drops it: an address that can't be routed here, or a blackhole"
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return "has no route: answers with ICMP unreachable"
	case errors.Is(err, unix.EACCES):
		return "is prohibited by a route or rule: answers with ICMP prohibited"
	}
	return "refuses it: " + err.Error()
}

// silent says whether the sender is told nothing.
func silent(err error) bool { return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) }
