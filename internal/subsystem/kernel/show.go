// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// What `minne show` prints of the kernel's state.

// Interface is a link with its addresses and counters.
type Interface struct {
	Name        string   `json:"name"`
	Index       int      `json:"index"`
	Former      []string `json:"former_names,omitempty"`
	Kind        string   `json:"kind,omitempty"` // "veth", "vlan"; "" for hardware
	Description string   `json:"description,omitempty"`
	State       string   `json:"state"` // "up", "no-carrier" (administratively up) or "down"
	MAC         string   `json:"mac,omitempty"`
	MTU         int      `json:"mtu"`
	Parent      string   `json:"parent,omitempty"`
	VLAN        int      `json:"vlan,omitempty"`
	Detail      string   `json:"detail,omitempty"` // what its kind says of it: "VLAN 20"
	Membership
	Driver    string         `json:"driver,omitempty"`
	BusPath   string         `json:"bus_path,omitempty"`
	Speed     uint32         `json:"speed_mbit,omitempty"` // Mbit/s; 0 when unknown
	Duplex    string         `json:"duplex,omitempty"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	RX        Counters       `json:"rx"`
	TX        Counters       `json:"tx"`
}

// Port says whether a link is a port: hardware, or in a container the end of a veth pair.
func (i Interface) Port() bool { return i.MAC != "" && (i.Kind == "" || i.Kind == "veth") }

// Counters of one direction of a link since it exists.
type Counters struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	Errors  uint64 `json:"errors"`
	Drops   uint64 `json:"drops"`
}

// RouteEntry is a route of the kernel's main table.
type RouteEntry struct {
	Prefix   netip.Prefix `json:"prefix"`
	Source   string       `json:"source,omitempty"` // of an IPv6 source-specific route
	Type     string       `json:"type"`             // "unicast", "blackhole", …
	Protocol string       `json:"protocol"`         // who installed it
	// What the route's protocol gave it. The kernel knows one number for both, of which routing
	// daemons make no use: for their routes it is for them to say, and nil until then.
	Distance  *uint32   `json:"distance,omitempty"` // administrative
	Metric    *uint32   `json:"metric,omitempty"`
	Priority  uint32    `json:"kernel_metric"` // by which the kernel chooses among routes to one prefix
	MTU       uint32    `json:"mtu,omitempty"`
	NextHopID uint32    `json:"next_hop_id,omitempty"`
	NextHops  []NextHop `json:"next_hops,omitempty"`
}

// NextHop is where a RouteEntry leads.
type NextHop struct {
	Gateway   string `json:"gateway,omitempty"`
	Interface string `json:"interface"`
	Weight    uint16 `json:"weight"`
	Down      bool   `json:"down,omitempty"` // not used now
}

// Neighbour is an entry of the ARP or ND table.
type Neighbour struct {
	Address   netip.Addr `json:"address"`
	Interface string     `json:"interface"`
	MAC       string     `json:"mac,omitempty"`
	State     string     `json:"state"`
}

// Interfaces reads all links of the namespace, by index.
func (k *Kernel) Interfaces(ctx context.Context) ([]Interface, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	list, err := dumpAll(ctx, a, "links", unix.RTM_GETLINK, ifInfoLen, nil, decodeInterface)
	if err != nil {
		return nil, err
	}
	addresses, err := dumpAll(ctx, a, "addresses", unix.RTM_GETADDR, ifAddrLen, nil, decodeAddress)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, i := range list {
		names[i.Index] = i.Name
	}
	shown, masters := make([]Interface, 0, len(list)), map[string]int{}
	for _, i := range list {
		masters[i.Name] = i.master
		i.Parent = names[i.parent]
		driver := tool.Driver(i.Name)
		i.Driver, i.BusPath = driver.Name, driver.Bus
		i.Speed, i.Duplex = tool.Speed(i.Name)
		for _, address := range addresses {
			if address.Interface == i.Index {
				i.Addresses = append(i.Addresses, address.Address)
			}
		}
		shown = append(shown, i.Interface)
	}
	belong(shown, masters)
	return shown, nil
}

// interfaceMessage is an Interface while names of other links are not known.
type interfaceMessage struct {
	Interface
	parent, master int
}

// decodeInterface reads an RTM_NEWLINK body with its statistics.
func decodeInterface(m nlmsg.Message) (i interfaceMessage, ok bool) {
	l, ok := decodeLink(m)
	if !ok {
		return i, false
	}
	i.parent, i.master = l.Parent, l.Master
	i.Interface = Interface{Name: l.Name, Index: l.Index, Kind: l.Kind, MTU: l.MTU, VLAN: int(l.VLANID), State: "down"}
	switch {
	case l.Up && l.Running:
		i.State = "up"
	case l.Up:
		i.State = "no-carrier"
	}
	if !l.Loopback && len(l.MAC) == 6 {
		i.MAC = l.MAC.String()
	}
	if k, as := typed(l.Kind, m.Body); k != nil {
		i.Detail = k.words(as)
	}
	for kind, value := range nlmsg.Attributes(m.Body[ifInfoLen:]) {
		switch kind {
		case unix.IFLA_LINKINFO:
			i.Membership = membershipOf(value)
		case unix.IFLA_IFALIAS:
			i.Description = unix.ByteSliceToString(value)
		case unix.IFLA_PROP_LIST:
			i.Former = altNames(value)
		case unix.IFLA_STATS64:
			i.RX, i.TX = counters(value)
		}
	}
	return i, true
}

func altNames(b []byte) (names []string) {
	for kind, value := range nlmsg.Attributes(b) {
		if kind == unix.IFLA_ALT_IFNAME {
			names = append(names, unix.ByteSliceToString(value))
		}
	}
	return names
}

// counters reads the head of struct rtnl_link_stats64.
func counters(b []byte) (rx, tx Counters) {
	if len(b) < 8*8 {
		return
	}
	at := func(i int) uint64 { return native.Uint64(b[8*i:]) }
	return Counters{Packets: at(0), Bytes: at(2), Errors: at(4), Drops: at(6)},
		Counters{Packets: at(1), Bytes: at(3), Errors: at(5), Drops: at(7)}
}

// Routes reads the routes of a family (unix.AF_INET or unix.AF_INET6) in order of prefix: those of the main table, or of a
// VRF's, without the entries for the router's own addresses, which the kernel keeps in the VRF's table too.
// The zero prefix takes all. A valid one takes the routes to exactly it, and with longer those inside
// it too; an address (a full-length prefix) takes the routes of the longest prefix that contains it.
func (k *Kernel) Routes(ctx context.Context, vrf string, family uint8, prefix netip.Prefix, longer bool) ([]RouteEntry, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	names, err := linkNames(ctx, a)
	if err != nil {
		return nil, err
	}
	table := uint32(rib.TableMain)
	if vrf != "" {
		if table, err = VRFTable(vrf); err != nil {
			return nil, err
		}
	}
	prefix = prefix.Masked()
	address := prefix.IsValid() && prefix.IsSingleIP() && !longer
	nextHops := map[uint32]rib.NextHopGroup{}
	list := []RouteEntry{}
	var r routeMessage
	best := -1
	_, err = a.dump(ctx, unix.RTM_GETROUTE, rtMsgLen, func(body []byte, b *builder) {
		body[0] = family
		b.attr32(unix.RTA_TABLE, table)
	}, func(m nlmsg.Message) error {
		if err := r.decode(m.Body); err != nil {
			return err
		}
		switch {
		case vrf != "" && (r.Type == rib.Local || r.Type == rib.Broadcast || r.Type == rib.Anycast || r.Type == rib.Multicast):
			return nil
		case !prefix.IsValid() || r.Prefix == prefix:
		case longer && r.Prefix.Bits() > prefix.Bits() && prefix.Contains(r.Prefix.Addr()):
		case address && r.Prefix.Contains(prefix.Addr()) && r.Prefix.Bits() >= best:
		default:
			return nil
		}
		if address && r.Prefix.Bits() > best {
			best, list = r.Prefix.Bits(), list[:0]
		}
		if r.NextHopID != 0 {
			nextHops[r.NextHopID] = rib.NextHopGroup{}
		}
		list = append(list, routeEntry(&r.Route, names))
		return nil
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // the kernel has no table yet: there was never a route
		return nil, fmt.Errorf("read routes: %w", err)
	}
	if len(nextHops) > 0 {
		if err := resolve(ctx, a, list, names); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b RouteEntry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits(), cmp.Compare(a.Priority, b.Priority))
	})
	return list, nil
}

// VRFTable is the table of a VRF's routes.
func VRFTable(name string) (uint32, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return 0, fmt.Errorf("there is no VRF %s: minne show interfaces lists them", name)
	}
	if err != nil {
		return 0, fmt.Errorf("VRF %s: %w", name, err)
	}
	vrf, is := link.(*netlink.Vrf)
	if !is {
		return 0, fmt.Errorf("%s is no VRF: minne show interfaces lists them", name)
	}
	return vrf.Table, nil
}

func linkNames(ctx context.Context, a *asker) (map[int]string, error) {
	links, err := dumpAll(ctx, a, "links", unix.RTM_GETLINK, ifInfoLen, nil, decodeLink)
	names := map[int]string{}
	for _, l := range links {
		names[l.Index] = l.Name
	}
	return names, err
}

func routeEntry(r *rib.Route, names map[int]string) RouteEntry {
	e := RouteEntry{Prefix: r.Prefix, Type: typeWords[r.Type], Protocol: protocolWords(r.Protocol),
		Priority: r.Metric, MTU: r.MTU, NextHopID: r.NextHopID}
	if distance, metric, ok := rank(r); ok {
		e.Distance, e.Metric = &distance, &metric
	}
	if r.Source.IsValid() {
		e.Source = r.Source.String()
	}
	for _, h := range r.Hops {
		e.NextHops = append(e.NextHops, nextHop(h, names))
	}
	return e
}

// rank is the administrative distance and the metric of a route, where its metric in the kernel tells: see Metric.
func rank(r *rib.Route) (distance, metric uint32, ok bool) {
	switch {
	case r.Protocol == unix.RTPROT_KERNEL:
		return 0, 0, true
	case r.Protocol >= unix.RTPROT_BGP && r.Protocol <= unix.RTPROT_EIGRP, r.Protocol == unix.RTPROT_ZEBRA, r.Protocol >= protocolStaticd:
		return 0, 0, false // FRR's have the same metric in the kernel, whatever theirs is
	case r.Metric >= 1<<24:
		return r.Metric >> 24, r.Metric & (1<<24 - 1), true
	case r.Protocol == protocolStatic && r.Metric < 20:
		return r.Metric, 0, true
	}
	return 0, r.Metric, true
}

func nextHop(h rib.Hop, names map[int]string) NextHop {
	n := NextHop{Interface: names[h.Interface], Weight: h.Weight, Down: h.Flags&(rib.HopDead|rib.HopLinkDown) != 0}
	if h.Gateway.IsValid() {
		n.Gateway = h.Gateway.String()
	}
	return n
}

// resolve fills in the next hops of routes by next-hop object.
func resolve(ctx context.Context, a *asker, list []RouteEntry, names map[int]string) error {
	objects, err := dumpAll(ctx, a, "next hops", rtmGetNextHop, nextHopLn, nil, decodeNextHop)
	if err != nil {
		return err
	}
	byID := map[uint32]rib.NextHopGroup{}
	for _, o := range objects {
		byID[o.ID] = o
	}
	for i := range list {
		e := &list[i]
		object, ok := byID[e.NextHopID]
		switch {
		case !ok:
		case object.Blackhole:
			e.Type = typeWords[rib.Blackhole]
		case len(object.Members) == 0:
			e.NextHops = append(e.NextHops, nextHop(object.Hop, names))
		default:
			for _, m := range object.Members {
				hop := byID[m.ID].Hop
				hop.Weight = m.Weight
				e.NextHops = append(e.NextHops, nextHop(hop, names))
			}
		}
	}
	return nil
}

// Neighbours reads the ARP and ND tables, without multicast and other fixed entries.
func (k *Kernel) Neighbours(ctx context.Context) ([]Neighbour, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	names, err := linkNames(ctx, a)
	if err != nil {
		return nil, err
	}
	found, err := dumpAll(ctx, a, "neighbours", unix.RTM_GETNEIGH, neighLen, nil, decodeNeighbour)
	if err != nil {
		return nil, err
	}
	list := []Neighbour{}
	for _, n := range found {
		if n.State&rib.NeighNoARP == 0 {
			list = append(list, Neighbour{Address: n.Address, Interface: names[n.Interface], MAC: macWords(n.MAC), State: cmp.Or(rib.NeighbourState(n.State), "none")})
		}
	}
	slices.SortFunc(list, func(a, b Neighbour) int {
		return cmp.Or(strings.Compare(a.Interface, b.Interface), a.Address.Compare(b.Address))
	})
	return list, nil
}

func macWords(m net.HardwareAddr) string {
	if len(m) == 0 {
		return ""
	}
	return m.String()
}

var typeWords = map[rib.RouteType]string{
	rib.Unicast: "unicast", rib.Local: "local", rib.Broadcast: "broadcast", rib.Anycast: "anycast", rib.Multicast: "multicast",
	rib.Blackhole: "blackhole", rib.Unreachable: "unreachable", rib.Prohibit: "prohibit", rib.Throw: "throw",
}

// protocolStaticd is FRR's number for its own static routes, the first of those that have no name in the kernel.
const protocolStaticd = 196

// protocolWords names an RTPROT_ value as `ip route` does.
func protocolWords(p uint8) string {
	switch p {
	case unix.RTPROT_REDIRECT:
		return "redirect"
	case unix.RTPROT_KERNEL:
		return "connected"
	case unix.RTPROT_BOOT:
		return "boot"
	case unix.RTPROT_STATIC, protocolStaticd:
		return "static"
	case unix.RTPROT_RA:
		return "ra"
	case unix.RTPROT_ZEBRA:
		return "zebra"
	case unix.RTPROT_BIRD:
		return "bird"
	case unix.RTPROT_DHCP:
		return "dhcp"
	case unix.RTPROT_BGP:
		return "bgp"
	case unix.RTPROT_ISIS:
		return "isis"
	case unix.RTPROT_OSPF:
		return "ospf"
	case unix.RTPROT_BABEL:
		return "babel"
	case unix.RTPROT_RIP:
		return "rip"
	}
	return fmt.Sprint("protocol ", p)
}
