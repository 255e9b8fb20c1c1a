// SPDX-License-Identifier: Apache-2.0

// Package campus is the lab's main scenario: a campus with two upstream ISPs
// behind one Minne router.
//
//	                 ┌── isp-a ──┐
//	desk ── core ── border       world
//	                 └── isp-b ──┘
//
// border is the Minne router: BGP with both ISPs over IPv4 and IPv6, OSPFv2 and
// OSPFv3 with core. isp-a and isp-b are BIRD and tell it the full Internet table;
// each also has a customer (host-a, host-b) in a prefix that only it announces.
// world answers to every address of the Internet and reaches the campus through
// whichever ISP tells it the way. core is BIRD too, desk a host in the campus.
//
// The demo (`minne lab campus`) and the end-to-end test are the same code with
// tables of different size.
package campus

import (
	"fmt"
	"net/netip"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/lab"
)

// AS numbers of the documentation range (RFC 5398).
const (
	borderAS = 64496
	ispAAS   = 64501
	ispBAS   = 64502
	worldAS  = 64510
)

// Networks and hosts have documentation addresses (RFC 5737, RFC 3849); what is
// behind the ISPs has real ones of the table.
var desk4 = netip.MustParseAddr("203.0.113.130")

// Secrets of the sessions. They guard namespaces on this host from nothing: they are here so that
// authentication is part of the scenario.
const (
	bgpPassword  = "campus-bgp-key"
	ospfPassword = "campus-ospf-key"
)

// tables are the prefixes that the ISPs announce.
type tables struct {
	a, b   []netip.Prefix // what each announces
	common []netip.Prefix // what both announce
	hasA   map[netip.Prefix]bool
	hostA  customer
	hostB  customer
}

// customer is a host in a network of one ISP.
type customer struct {
	host4, host6       netip.Prefix // its addresses
	gateway4, gateway6 netip.Prefix // the ISP's on its port
}

// share splits the table between the ISPs: each lacks another twentieth, so that
// a tenth of the prefixes is behind one of them alone.
func share(table []netip.Prefix) (tables, error) {
	t := tables{hasA: make(map[netip.Prefix]bool, len(table))}
	for i, p := range table {
		switch i % 20 {
		case 7:
			t.b = append(t.b, p)
			t.hostB.settle(p)
		case 13:
			t.a = append(t.a, p)
			t.hostA.settle(p)
		default:
			t.a, t.b, t.common = append(t.a, p), append(t.b, p), append(t.common, p)
		}
	}
	for _, p := range t.a {
		t.hasA[p] = true
	}
	if !t.hostA.settled() || !t.hostB.settled() {
		return t, fmt.Errorf("a table of %d prefixes has no /24 or no /48 that one ISP has alone", len(table))
	}
	return t, nil
}

// settle gives the host addresses in p when it still needs some of that family and p fits.
func (c *customer) settle(p netip.Prefix) {
	if p.Addr().Is4() && p.Bits() == 24 && !c.host4.IsValid() {
		gateway := p.Addr().Next()
		c.gateway4, c.host4 = netip.PrefixFrom(gateway, 24), netip.PrefixFrom(gateway.Next(), 24)
	}
	if p.Addr().Is6() && p.Bits() == 48 && !c.host6.IsValid() {
		gateway := p.Addr().Next()
		c.gateway6, c.host6 = netip.PrefixFrom(gateway, 64), netip.PrefixFrom(gateway.Next(), 64)
	}
}

// holds says whether an address is in the customer's networks.
func (c *customer) holds(a netip.Addr) bool {
	return c.host4.Masked().Contains(a) || c.host6.Masked().Contains(a)
}

func (c *customer) settled() bool { return c.host4.IsValid() && c.host6.IsValid() }

// topology is the network; image, unless it is "", is what the border router boots.
func topology(t tables, image string) lab.Topology {
	all4, all6 := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")
	via := func(v4, v6 string) []lab.Route {
		return []lab.Route{{To: all4, Via: netip.MustParseAddr(v4)}, {To: all6, Via: netip.MustParseAddr(v6)}}
	}
	behind := func(c customer) []lab.Route {
		return []lab.Route{{To: all4, Via: c.gateway4.Addr()}, {To: all6, Via: c.gateway6.Addr()}}
	}
	border := lab.Node{Name: "border"}
	if image != "" {
		border.Machine, border.Image = lab.QEMU, image
	}
	return lab.Topology{
		Name: "campus",
		Nodes: []lab.Node{
			border,
			{Name: "isp-a", Forwards: true, Routes: via("198.51.100.10", "2001:db8:a1::2")},
			{Name: "isp-b", Forwards: true, Routes: via("198.51.100.14", "2001:db8:b1::2")},
			{Name: "world", EverywhereBut: ipnet.Must("203.0.113.0/24", "198.51.100.0/24", "2001:db8::/32")},
			{Name: "host-a", Routes: behind(t.hostA)},
			{Name: "host-b", Routes: behind(t.hostB)},
			{Name: "core", Forwards: true},
			{Name: "desk", Routes: via("203.0.113.129", "2001:db8:113:2::129")},
		},
		Links: []lab.Link{
			{A: port("border", "isp-a"), B: port("isp-a", "border", "198.51.100.1/30", "2001:db8:a::1/64")},
			{A: port("border", "isp-b"), B: port("isp-b", "border", "198.51.100.5/30", "2001:db8:b::1/64")},
			{A: port("border", "core"), B: port("core", "border", "203.0.113.2/30", "2001:db8:113:1::2/64")},
			{A: port("core", "lan", "203.0.113.129/25", "2001:db8:113:2::129/64"), B: port("desk", "lan", "203.0.113.130/25", "2001:db8:113:2::130/64")},
			{A: port("isp-a", "world", "198.51.100.9/30", "2001:db8:a1::1/64"), B: port("world", "isp-a", "198.51.100.10/30", "2001:db8:a1::2/64")},
			{A: port("isp-b", "world", "198.51.100.13/30", "2001:db8:b1::1/64"), B: port("world", "isp-b", "198.51.100.14/30", "2001:db8:b1::2/64")},
			{A: port("isp-a", "customer", t.hostA.gateway4.String(), t.hostA.gateway6.String()), B: port("host-a", "isp", t.hostA.host4.String(), t.hostA.host6.String())},
			{A: port("isp-b", "customer", t.hostB.gateway4.String(), t.hostB.gateway6.String()), B: port("host-b", "isp", t.hostB.host4.String(), t.hostB.host6.String())},
		},
	}
}

func port(node, name string, addresses ...string) lab.Port {
	p := lab.Port{Node: node, Name: name}
	p.Addresses = ipnet.Must(addresses...)
	return p
}

// peers makes the two sessions, one per family, between this end and the other.
func peers(name string, own, other uint32, local4, remote4, local6, remote6 string, template lab.BIRDPeer) []lab.BIRDPeer {
	v4, v6 := template, template
	v4.Name, v6.Name = name+"4", name+"6"
	v4.LocalAS, v6.LocalAS, v4.PeerAS, v6.PeerAS = own, own, other, other
	v4.Local, v4.Remote = netip.MustParseAddr(local4), netip.MustParseAddr(remote4)
	v6.Local, v6.Remote = netip.MustParseAddr(local6), netip.MustParseAddr(remote6)
	return []lab.BIRDPeer{v4, v6}
}

// birds returns the BIRD configuration of every node that runs one.
func birds(t tables, p pace) map[string]lab.BIRD {
	upstream := lab.BIRDPeer{Password: bgpPassword, BFD: p.bfd, Full: true}
	transit := lab.BIRDPeer{BFD: true}
	preferred := lab.BIRDPeer{BFD: true, Preference: 200}
	return map[string]lab.BIRD{
		"isp-a": {RouterID: netip.MustParseAddr("198.51.100.1"), Announced: withDefault(t.a), BGP: append(
			peers("border", ispAAS, borderAS, "198.51.100.1", "198.51.100.2", "2001:db8:a::1", "2001:db8:a::2", upstream),
			peers("world", ispAAS, worldAS, "198.51.100.9", "198.51.100.10", "2001:db8:a1::1", "2001:db8:a1::2", transit)...)},
		"isp-b": {RouterID: netip.MustParseAddr("198.51.100.5"), Announced: withDefault(t.b), BGP: append(
			peers("border", ispBAS, borderAS, "198.51.100.5", "198.51.100.6", "2001:db8:b::1", "2001:db8:b::2", upstream),
			peers("world", ispBAS, worldAS, "198.51.100.13", "198.51.100.14", "2001:db8:b1::1", "2001:db8:b1::2", transit)...)},
		"world": {RouterID: netip.MustParseAddr("198.51.100.10"), BGP: append(
			peers("isp_a", worldAS, ispAAS, "198.51.100.10", "198.51.100.9", "2001:db8:a1::2", "2001:db8:a1::1", preferred),
			peers("isp_b", worldAS, ispBAS, "198.51.100.14", "198.51.100.13", "2001:db8:b1::2", "2001:db8:b1::1", transit)...)},
		"core": {RouterID: netip.MustParseAddr("203.0.113.2"), OSPF: []lab.BIRDOSPF{
			{Family: 4, Port: "border", Password: ospfPassword, Dead: p.ospfDead, Stubs: []string{"lan"}},
			{Family: 6, Port: "border", Dead: p.ospfDead, Stubs: []string{"lan"}},
		}},
	}
}

func withDefault(table []netip.Prefix) []netip.Prefix {
	return append([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, table...)
}

// borderConfig is the file that makes the border router.
const borderConfig = `# Border router of the campus lab.
version: 1
system:
  hostname: border
  router-id: 203.0.113.1
interfaces:
  isp-a:
    description: upstream ISP A
    addresses: [198.51.100.2/30, "2001:db8:a::2/64"]
  isp-b:
    description: upstream ISP B
    addresses: [198.51.100.6/30, "2001:db8:b::2/64"]
  core:
    description: campus core
    addresses: [203.0.113.1/30, "2001:db8:113:1::1/64"]
    anti-spoof: strict
uplinks:
  isp-a: {priority: 1}
  isp-b: {priority: 2}
routing:
  bgp:
    asn: 64496
    bogons: accept # the lab's AS numbers and addresses are documentation ones
    announce: [203.0.113.0/24, "2001:db8:113::/48"]
    peers:
      isp-a-ipv4: {address: 198.51.100.1, asn: 64501, password: upstream, bfd: on, import: {preference: 200}}
      isp-a-ipv6: {address: "2001:db8:a::1", asn: 64501, password: upstream, bfd: on, import: {preference: 200}}
      isp-b-ipv4: {address: 198.51.100.5, asn: 64502, password: upstream, bfd: on, import: {preference: 100}}
      isp-b-ipv6: {address: "2001:db8:b::1", asn: 64502, password: upstream, bfd: on, import: {preference: 100}}
  ospf:
    default-route: bgp
    areas:
      0:
        interfaces:
          core: {network: point-to-point, hello: 1s, dead: 4s, auth: {key-id: 1, secret: core}}
  ospf3:
    default-route: bgp
    areas:
      0:
        interfaces:
          core: {network: point-to-point, hello: 1s, dead: 4s}
`

const borderSecrets = "upstream: " + bgpPassword + "\ncore: " + ospfPassword + "\n"

// BorderConfig returns the router's file, with a change when description is not empty.
func (c *Campus) BorderConfig(description string) string {
	text := borderConfig
	if !c.pace.bfd {
		text = strings.ReplaceAll(text, "bfd: on", fmt.Sprintf("hold-time: %s", c.pace.holdTime))
	}
	text = strings.ReplaceAll(text, "dead: 4s", fmt.Sprintf("dead: %s", c.pace.ospfDead))
	if description == "" {
		return text
	}
	return strings.Replace(text, "upstream ISP B", description, 1)
}
