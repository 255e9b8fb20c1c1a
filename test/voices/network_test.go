// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"minne/internal/lab/fulltable"
	"minne/internal/model/packet"
	"minne/internal/model/rib"
	"minne/internal/testing/reference"
	"minne/internal/testing/testframes"
)

// The network that all three voices route in: six ports with different source
// checks and MTUs, neighbours that are resolved and some that never answer, a
// sample of the real Internet table and a collection of special routes.
//
// Port i (1 to 6) has the link networks 198.18.i.0/24 and fd00:0:0:i::/64 with
// the router at .1, routers at .2 and .3, and honest senders behind .2 in
// 10.i.0.0/16 and fd00:1:i::/48. The addresses .9 and ::9 never answer.

const (
	strictPort = iota + 1 // strict source check
	openPort              // no source check
	loosePort             // loose source check
	jumboPort             // MTU 3400, the largest that veth takes with XDP
	smallPort             // MTU 1280, strict
	slowPort              // fast path off
	lastPort   = slowPort
)

// firstIndex is the ifindex of port 0, in every namespace that has the ports.
const firstIndex = 100

// sampled is how many routes of each family come from the full table.
const sampled = 4000

// network is the routers' whole state.
type network struct {
	reference.State

	routed, odd        map[bool][]netip.Prefix // by family (true for IPv6): sampled routes, special routes
	connected, nowhere map[bool][]netip.Prefix // hosts on the links, destinations without a route
}

var portChecks = map[int]reference.SourceCheck{
	strictPort: reference.SourceStrict,
	loosePort:  reference.SourceLoose,
	smallPort:  reference.SourceStrict,
}

var portMTUs = map[int]int{jumboPort: 3400, smallPort: 1280}

// newNetwork builds the state.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{
		routed: map[bool][]netip.Prefix{}, odd: map[bool][]netip.Prefix{},
		connected: map[bool][]netip.Prefix{}, nowhere: map[bool][]netip.Prefix{},
	}
	for i := 1; i <= lastPort; i++ {
		n.addPort(i)
	}
	n.Ports[openPort-1].Addresses = append(n.Ports[openPort-1].Addresses,
		netip.MustParsePrefix("198.18.100.1/30"), netip.MustParsePrefix("fd00:0:100::1/127"))
	n.Ports[loosePort-1].Addresses = append(n.Ports[loosePort-1].Addresses,
		netip.MustParsePrefix("198.18.101.0/31"), netip.MustParsePrefix("198.18.102.1/32"), netip.MustParsePrefix("fd00:0:102::1/128"))
	n.neighbour(openPort, "198.18.100.2")
	n.neighbour(openPort, "fd00:0:100::")
	n.neighbour(loosePort, "198.18.101.1")
	n.special4()
	n.special6()
	n.sample(t)
	n.nowhere[false] = prefixes("100.64.0.0/10", "192.88.99.0/24", "0.9.0.0/16", "255.255.0.0/16")
	n.nowhere[true] = prefixes("fd99::/16", "4000::/3", "::/96", "::ffff:0:0/96")
	return n
}

// addDefaults adds default routes.
func (n *network) addDefaults() {
	n.add("0.0.0.0/0", hop(openPort, "198.18.2.3"))
	n.add("::/0", hop(openPort, "fd00:0:0:2::3"))
}

// addPort adds port i with its link networks, neighbours and the senders behind them.
func (n *network) addPort(i int) {
	p := reference.Port{
		Index: firstIndex + i, Name: portName(firstIndex + i), MAC: portMAC(i), MTU: 1500, SourceCheck: portChecks[i], SlowPath: i == slowPort,
		Addresses: prefixes(fmt.Sprintf("198.18.%d.1/24", i), fmt.Sprintf("fd00:0:0:%d::1/64", i), "fe80::1/64"),
	}
	if mtu := portMTUs[i]; mtu != 0 {
		p.MTU = mtu
	}
	n.Ports = append(n.Ports, p)
	for host := 2; host <= 20; host++ {
		if host == 9 {
			continue
		}
		n.neighbour(i, fmt.Sprintf("198.18.%d.%d", i, host))
		n.neighbour(i, fmt.Sprintf("fd00:0:0:%d::%d", i, host))
	}
	n.neighbour(i, "fe80::2")
	n.add(senders(i, false).String(), hop(i, fmt.Sprintf("198.18.%d.2", i)))
	n.add(senders(i, true).String(), hop(i, fmt.Sprintf("fd00:0:0:%d::2", i)))
	n.connected[false] = append(n.connected[false], prefixes(fmt.Sprintf("198.18.%d.0/27", i), fmt.Sprintf("198.18.%d.252/30", i))...)
	n.connected[true] = append(n.connected[true], prefixes(fmt.Sprintf("fd00:0:0:%d::/123", i))...)
}

// senders is where the honest senders behind port i are.
func senders(i int, v6 bool) netip.Prefix {
	if v6 {
		return netip.MustParsePrefix(fmt.Sprintf("fd00:1:%d::/48", i))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i))
}

func portName(index int) string { return fmt.Sprintf("p%d", index-firstIndex) }

func portMAC(i int) packet.MAC { return packet.MAC{2, 0, 0, 0, 1, byte(i)} }

// neighbour adds a resolved neighbour with a MAC address of its own.
func (n *network) neighbour(port int, address string) {
	serial := len(n.Neighbours)
	n.Neighbours = append(n.Neighbours, rib.Neighbour{
		Address: netip.MustParseAddr(address), Interface: firstIndex + port, State: rib.NeighPermanent,
		MAC: net.HardwareAddr{2, 1, byte(port), 0, byte(serial >> 8), byte(serial)},
	})
}

// hop is a next hop; no gateway means that destinations are on the link.
func hop(port int, gateway string) rib.Hop {
	h := rib.Hop{Interface: firstIndex + port, Weight: 1}
	if gateway != "" {
		h.Gateway = netip.MustParseAddr(gateway)
	}
	return h
}

func weighted(weight uint16, h rib.Hop) rib.Hop {
	h.Weight = weight
	return h
}

// add adds a unicast route of the main table and returns it for changes.
func (n *network) add(prefix string, hops ...rib.Hop) *rib.Route {
	n.Routes = append(n.Routes, rib.Route{Prefix: netip.MustParsePrefix(prefix), Table: rib.TableMain, Type: rib.Unicast,
		Metric: 20, Protocol: 4, Hops: hops})
	return &n.Routes[len(n.Routes)-1]
}

// addOdd adds a special route whose destinations are tried on purpose.
func (n *network) addOdd(prefix string, hops ...rib.Hop) *rib.Route {
	p := netip.MustParsePrefix(prefix)
	n.odd[p.Addr().Is6()] = append(n.odd[p.Addr().Is6()], p)
	return n.add(prefix, hops...)
}

// special4 adds IPv4 routes of every kind.
func (n *network) special4() {
	n.addOdd("198.51.100.0/24").Type = rib.Blackhole
	n.addOdd("198.51.100.16/28", hop(openPort, "198.18.2.4"))
	n.addOdd("203.0.113.0/25").Type = rib.Unreachable
	n.addOdd("203.0.113.128/25").Type = rib.Prohibit
	n.addOdd("203.0.113.129/32", hop(loosePort, "198.18.3.4"))
	n.addOdd("192.0.2.0/26", hop(openPort, "198.18.2.9")) // gateway never answers
	onlink := hop(loosePort, "198.19.0.1")
	onlink.Flags = rib.HopOnLink
	n.addOdd("192.0.2.64/26", onlink)
	n.neighbour(loosePort, "198.19.0.1")
	n.addOdd("192.0.2.128/26", hop(jumboPort, "fe80::2")) // IPv4 through an IPv6 gateway, RFC 8950
	n.addOdd("198.19.128.0/18", hop(openPort, "198.18.2.5")).MTU = 1000
	n.addOdd("198.19.192.0/18", hop(jumboPort, "198.18.4.5")).MTU = 1400
	n.addOdd("198.19.64.0/19", hop(openPort, "198.18.2.6"), hop(loosePort, "198.18.3.6"))
	n.addOdd("198.19.96.0/19", weighted(1, hop(openPort, "198.18.2.7")), weighted(5, hop(jumboPort, "198.18.4.7")), weighted(2, hop(smallPort, "198.18.5.7")))
	n.addOdd("198.19.32.0/19", hop(openPort, "198.18.2.9"), hop(jumboPort, "198.18.4.8")) // one never answers
	n.addOdd("198.19.20.0/24", hop(slowPort, "198.18.6.4"))
	n.addOdd("198.19.21.0/24", hop(slowPort, "198.18.6.4"), hop(openPort, "198.18.2.4"))
	n.add("198.19.4.0/22", hop(openPort, "198.18.2.8")).Metric = 30
	n.addOdd("198.19.4.0/22", hop(loosePort, "198.18.3.8")) // the better metric
	n.addOdd("198.19.8.0/22", hop(jumboPort, ""))           // on the link without an address there
	n.neighbour(jumboPort, "198.19.8.1")
	n.addOdd("198.19.8.1/32", hop(jumboPort, ""))
	n.addOdd("240.0.0.0/8", hop(openPort, "198.18.2.10"))
	n.addOdd("0.1.0.0/16", hop(openPort, "198.18.2.11"))
	n.addOdd("169.254.0.0/16", hop(openPort, "198.18.2.12"))
	n.addOdd("127.5.0.0/16", hop(openPort, "198.18.2.13"))
	n.addOdd("198.19.112.0/20", hop(strictPort, "198.18.1.6"), hop(openPort, "198.18.2.6")) // also sends: from both
	n.object(10, hop(openPort, "198.18.2.14"))
	n.object(11, hop(jumboPort, "198.18.4.14"))
	n.NextHops = append(n.NextHops, rib.NextHopGroup{ID: 12, Members: []rib.NextHopMember{{ID: 10, Weight: 1}, {ID: 11, Weight: 3}}})
	n.NextHops = append(n.NextHops, rib.NextHopGroup{ID: 13, Blackhole: true})
	n.addOdd("198.19.16.0/24").NextHopID = 10
	n.addOdd("198.19.17.0/24").NextHopID = 12
	n.addOdd("198.19.18.0/24").NextHopID = 13
	for bits := 12; bits <= 32; bits++ { // one inside the other
		p := netip.PrefixFrom(netip.MustParseAddr("172.16.5.77"), bits).Masked()
		n.addOdd(p.String(), hop(openPort+bits%4, fmt.Sprintf("198.18.%d.%d", openPort+bits%4, 2+bits%7)))
	}
}

// special6 adds IPv6 routes of every kind.
func (n *network) special6() {
	n.addOdd("2001:db8:100::/48").Type = rib.Blackhole
	n.addOdd("2001:db8:100:16::/64", hop(openPort, "fd00:0:0:2::4"))
	n.addOdd("2001:db8:101::/64").Type = rib.Unreachable
	n.addOdd("2001:db8:102::/64").Type = rib.Prohibit
	n.addOdd("2001:db8:102::/126", hop(loosePort, "fd00:0:0:3::4"))
	n.addOdd("2001:db8:103::/48", hop(openPort, "fd00:0:0:2::9")) // gateway never answers
	n.addOdd("2001:db8:104::/48", hop(jumboPort, "fe80::2"))
	n.addOdd("2001:db8:105::/48", hop(strictPort, "fe80::2"))
	n.addOdd("2001:db8:106::/48", hop(jumboPort, "fd00:0:0:4::5")).MTU = 1400
	n.addOdd("2001:db8:107::/48", hop(openPort, "fd00:0:0:2::6"), hop(loosePort, "fd00:0:0:3::6"))
	n.addOdd("2001:db8:108::/48", weighted(1, hop(openPort, "fd00:0:0:2::7")), weighted(5, hop(jumboPort, "fd00:0:0:4::7")), weighted(2, hop(smallPort, "fd00:0:0:5::7")))
	n.addOdd("2001:db8:120::/48", hop(slowPort, "fd00:0:0:6::4"))
	n.addOdd("2001:db8:121::/48", hop(slowPort, "fd00:0:0:6::4"), hop(openPort, "fd00:0:0:2::4"))
	n.add("2001:db8:109::/48", hop(openPort, "fd00:0:0:2::8")).Metric = 30
	n.addOdd("2001:db8:109::/48", hop(loosePort, "fd00:0:0:3::8")) // the better metric
	n.addOdd("2001:db8:10a::/126", hop(jumboPort, ""))             // on the link without an address there
	n.neighbour(jumboPort, "2001:db8:10a::1")
	n.addOdd("::ffff:203.0.113.0/120", hop(openPort, "fd00:0:0:2::10"))
	n.addOdd("2001:db8:112::/48", hop(strictPort, "fd00:0:0:1::6"), hop(openPort, "fd00:0:0:2::6")) // also sends: from both
	n.object(20, hop(openPort, "fd00:0:0:2::14"))
	n.object(21, hop(jumboPort, "fd00:0:0:4::14"))
	n.NextHops = append(n.NextHops, rib.NextHopGroup{ID: 22, Members: []rib.NextHopMember{{ID: 20, Weight: 1}, {ID: 21, Weight: 3}}})
	n.addOdd("2001:db8:110::/64").NextHopID = 20
	n.addOdd("2001:db8:111::/64").NextHopID = 22
	for bits := 36; bits <= 128; bits++ { // one inside the other
		p := netip.PrefixFrom(netip.MustParseAddr("2001:db8:5555:5555:aaaa:5555:aaaa:5555"), bits).Masked()
		port := openPort + bits%4
		n.addOdd(p.String(), hop(port, fmt.Sprintf("fd00:0:0:%d::%d", port, 2+bits%7)))
	}
}

// object adds a next-hop object.
func (n *network) object(id uint32, h rib.Hop) {
	n.NextHops = append(n.NextHops, rib.NextHopGroup{ID: id, Hop: h})
}

// sample adds routes of the real table, spread over the ports without strict source check.
func (n *network) sample(t *testing.T) {
	t.Helper()
	v4, v6, err := fulltable.Load()
	if err != nil {
		t.Fatal(err)
	}
	ports := []int{openPort, loosePort, jumboPort, smallPort}
	for i, from := range [][]netip.Prefix{v4, v6} {
		format := []string{"198.18.%d.%d", "fd00:0:0:%d::%d"}[i]
		for k := range sampled {
			p := from[k*(len(from)/sampled)]
			port := ports[k%len(ports)]
			n.add(p.String(), hop(port, fmt.Sprintf(format, port, 2+k%7)))
			n.routed[i == 1] = append(n.routed[i == 1], p)
		}
	}
}

// world is what the generator has to know to make traffic of one family.
func (n *network) world(v6 bool) testframes.World {
	w := testframes.World{
		Destinations: []testframes.Pool{{Weight: 50, Prefixes: n.routed[v6]}, {Weight: 25, Prefixes: n.odd[v6]},
			{Weight: 8, Prefixes: n.connected[v6]}, {Weight: 5, Prefixes: n.nowhere[v6]}},
		EgressMTUs: []int{1500, 1500, 1280, 1400, 1000, 3400},
	}
	manyWays := map[bool]string{false: "198.19.112.0/20", true: "2001:db8:112::/48"}[v6]
	var own, back []netip.Prefix
	for i := 1; i <= lastPort; i++ {
		e := testframes.Entry{Port: firstIndex + i, MAC: portMAC(i), MTU: n.Ports[i-1].MTU,
			Sources: []netip.Prefix{senders(i, v6), senders(i, v6), senders(i, v6), netip.MustParsePrefix(manyWays)}}
		w.Entries = append(w.Entries, e)
		if i != slowPort { // where every frame has the same fate
			w.Entries = append(w.Entries, e, e)
		}
		back = append(back, senders(i, v6))
		own = append(own, n.Ports[i-1].Addresses...)
	}
	w.Destinations = append(w.Destinations, testframes.Pool{Weight: 12, Prefixes: back})
	for _, p := range own {
		if p.Addr().Is6() == v6 {
			w.Specials = append(w.Specials, p.Addr())
		}
	}
	w.Specials = append(w.Specials, specials[v6]...)
	return w
}

// specials are the addresses that a router must think about.
var specials = map[bool][]netip.Addr{
	false: addresses("0.0.0.0", "0.0.0.1", "0.1.2.3", "127.0.0.1", "127.5.5.5", "224.0.0.1", "224.0.0.5", "239.1.2.3",
		"240.1.2.3", "255.255.255.254", "255.255.255.255", "169.254.1.1", "198.18.1.0", "198.18.1.255", "198.18.2.255",
		"198.18.100.0", "198.18.100.3", "198.18.101.1", "198.18.2.9", "198.51.100.1", "198.51.100.17", "203.0.113.1", "203.0.113.200", "172.16.5.77"),
	true: addresses("::", "::1", "::2", "::ffff:192.0.2.1", "::ffff:203.0.113.5", "::192.0.2.1", "ff00::1", "ff01::1", "ff02::1", "ff02::2", "ff02::1:ff00:1", "ff05::2", "ff0e::1",
		"fe80::", "fe80::2", "fe80::99", "febf::1", "fec0::1", "fc00::1", "fd00:0:0:1::", "fd00:0:0:2::", "fd00:0:100::", "fd00:0:0:2::9", "fd00:1:2::", "64:ff9b::1", "2002:c000:201::1",
		"2001:db8:100::1", "2001:db8:101::1", "2001:db8:102::9", "2001:db8:5555:5555:aaaa:5555:aaaa:5555"),
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func addresses(list ...string) []netip.Addr {
	out := make([]netip.Addr, len(list))
	for i, s := range list {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}
