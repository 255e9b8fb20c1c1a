// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"net/netip"
	"slices"

	"minne/internal/model/packet"
	"minne/internal/model/rib"
)

// SourceCheck is the anti-spoof mode of a port (RFC 3704).
type SourceCheck uint8

// The modes.
const (
	SourceAny    SourceCheck = iota
	SourceLoose              // some route leads to the source
	SourceStrict             // the route to the source leads back through the port
)

// Port is one interface of the router.
type Port struct {
	Index       int
	Name        string
	MAC         packet.MAC
	MTU         int // largest network packet in bytes
	SourceCheck SourceCheck
	Addresses   []netip.Prefix // own addresses with host bits
	Parent      int            // the port that carries this one's frames; 0 for a real port
	Tag         packet.Tag     // of a port with a parent
	SlowPath    bool           // what arrives here or leaves here is the kernel's
}

// neighbourKey is an address on a link.
type neighbourKey struct {
	port int
	addr netip.Addr
}

// Router is the state that verdicts are made from. It is filled first and then
// only read, so Decide may be called from many goroutines.
type Router struct {
	ports      map[int]*Port
	neighbours map[neighbourKey]packet.MAC
	hops       map[uint32]rib.NextHopGroup
	own        map[netip.Addr]bool
	v4, v6     table
}

// State is the forwarding state of a router. Routes that follow from the ports'
// addresses are not among Routes.
type State struct {
	Ports      []Port
	Neighbours []rib.Neighbour
	NextHops   []rib.NextHopGroup
	Routes     []rib.Route
}

// New returns the router with that state.
func New(s State) *Router {
	r := &Router{
		ports:      make(map[int]*Port),
		neighbours: make(map[neighbourKey]packet.MAC),
		hops:       make(map[uint32]rib.NextHopGroup),
		own:        make(map[netip.Addr]bool),
	}
	for _, p := range s.Ports {
		r.ports[p.Index] = &p
		for _, a := range p.Addresses {
			r.own[a.Addr()] = true
		}
	}
	for _, n := range s.Neighbours {
		if len(n.MAC) == 6 { // an unresolved one is as good as none
			r.neighbours[neighbourKey{n.Interface, n.Address}] = packet.MAC(n.MAC)
		}
	}
	for _, g := range s.NextHops {
		r.hops[g.ID] = g
	}
	for _, route := range slices.Concat(Connected(s.Ports), s.Routes) {
		t := &r.v6
		if route.Prefix.Addr().Is4() {
			t = &r.v4
		}
		t.add(route)
	}
	return r
}

// Tell tells a listener the whole state in the kernel's words, as if it had been read from netlink.
func (s State) Tell(to rib.Listener) {
	to.Begin()
	for _, p := range s.Ports {
		link := rib.Link{Index: p.Index, Name: p.Name, Kind: "veth", MAC: p.MAC[:], MTU: p.MTU, Up: true, Running: true}
		if p.Parent != 0 {
			link.Kind, link.Parent, link.VLANID, link.VLANProto = "vlan", p.Parent, p.Tag.TCI, p.Tag.Type
		}
		to.Links([]rib.Link{link})
		for _, a := range p.Addresses {
			to.Addresses([]rib.LinkAddress{{Address: a, Interface: p.Index}})
		}
	}
	to.Neighbours(s.Neighbours)
	to.NextHops(s.NextHops)
	var changes []rib.RouteChange
	for _, route := range slices.Concat(Connected(s.Ports), s.Routes) {
		changes = append(changes, rib.RouteChange{Route: route})
	}
	to.Routes(changes)
	to.End()
}

// Connected is the routes that a router has from its addresses alone: the
// networks, its own addresses, the broadcast addresses of IPv4 (RFC 1812
// 4.2.3.1; none on /31 and /32, RFC 3021) and the subnet-router anycast of IPv6
// (RFC 4291 2.6.1; none on /127 and /128, RFC 6164).
func Connected(ports []Port) []rib.Route {
	routes := []rib.Route{
		{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Table: rib.TableLocal, Type: rib.Local},
		{Prefix: netip.MustParsePrefix("::1/128"), Table: rib.TableLocal, Type: rib.Local},
		{Prefix: netip.MustParsePrefix("ff00::/8"), Table: rib.TableLocal, Type: rib.Multicast},
	}
	for _, p := range ports {
		hop := []rib.Hop{{Interface: p.Index, Weight: 1}}
		add := func(prefix netip.Prefix, table uint32, kind rib.RouteType) {
			routes = append(routes, rib.Route{Prefix: prefix, Table: table, Type: kind, Hops: hop})
		}
		for _, a := range p.Addresses {
			network, bits := a.Masked(), a.Addr().BitLen()
			add(netip.PrefixFrom(a.Addr(), bits), rib.TableLocal, rib.Local)
			if a.Bits() < bits {
				add(network, rib.TableMain, rib.Unicast)
			}
			if a.Bits() >= bits-1 {
				continue
			}
			if a.Addr().Is4() {
				add(netip.PrefixFrom(lastAddress(network), bits), rib.TableLocal, rib.Broadcast)
			} else {
				add(netip.PrefixFrom(network.Addr(), bits), rib.TableLocal, rib.Anycast)
			}
		}
	}
	return routes
}

// lastAddress is the address of p with all host bits set.
func lastAddress(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// table finds routes by trying every prefix length from the longest. The local
// table is asked before the main one, as the kernel's rules do.
type table struct {
	local, main lengths
}

func (t *table) add(route rib.Route) {
	switch route.Table {
	case rib.TableLocal:
		t.local.add(route)
	case rib.TableMain:
		t.main.add(route)
	}
}

func (t *table) lookup(a netip.Addr) (rib.Route, bool) {
	if route, ok := t.local.lookup(a); ok {
		return route, true
	}
	return t.main.lookup(a)
}

// lengths holds the routes of one table by prefix; of several to one prefix, the lowest metric.
type lengths struct {
	routes map[netip.Prefix]rib.Route
	used   []int // prefix lengths in use, longest first
}

func (l *lengths) add(route rib.Route) {
	if l.routes == nil {
		l.routes = make(map[netip.Prefix]rib.Route)
	}
	if old, ok := l.routes[route.Prefix]; ok && old.Metric <= route.Metric {
		return
	}
	l.routes[route.Prefix] = route
	bits := route.Prefix.Bits()
	if !slices.Contains(l.used, bits) {
		l.used = append(l.used, bits)
		slices.Sort(l.used)
		slices.Reverse(l.used)
	}
}

func (l *lengths) lookup(a netip.Addr) (rib.Route, bool) {
	for _, bits := range l.used {
		prefix, _ := a.Prefix(bits)
		if route, ok := l.routes[prefix]; ok {
			return route, true
		}
	}
	return rib.Route{}, false
}

// nextHops is the set of next hops that a packet along this route may take;
// blackhole tells that the route's next-hop object discards.
func (r *Router) nextHops(route rib.Route) (hops []rib.Hop, blackhole, foreign bool) {
	if route.Encap {
		return nil, false, true
	}
	if route.NextHopID == 0 {
		return route.Hops, false, false
	}
	group, ok := r.hops[route.NextHopID]
	if !ok || group.Encap {
		return nil, false, true
	}
	if len(group.Members) == 0 {
		return []rib.Hop{group.Hop}, group.Blackhole, false
	}
	for _, m := range group.Members {
		member, ok := r.hops[m.ID]
		if !ok || member.Encap || member.Blackhole {
			return nil, false, true
		}
		hops = append(hops, member.Hop)
	}
	return hops, false, false
}
