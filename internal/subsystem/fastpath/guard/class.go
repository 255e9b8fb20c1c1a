// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"

	"minne/internal/model/config"
)

// Class is a kind of packets with a budget of its own; the numbers are those of bpf/guard_budget.h.
type Class int

// The classes.
const (
	Kernel Class = iota
	Session
	BGP
	Routing
	RoutingNew
	Neighbour
	ARP
	ARPOthers
	Link
	DHCP
	TCP
	UDP
	UDPClosed
	ICMP
	Protocols
	TTL
	NoRoute
	NoNeighbour
	Fragment
	Beginning
	Options
	Multicast
	Stray
	Classes // how many there are
)

// Budget is how many packets a second may go up to the kernel: of a class, and of one source in it.
// Each interface has an equal part of the class for itself. 0 is no limit.
type Budget struct {
	PerSecond int `json:"per_second,omitempty"`
	PerSource int `json:"per_source,omitempty"`
}

// class is what there is to say of a class.
type class struct {
	name   string // as in the configuration
	text   string
	hint   string // what to look at when many are dropped
	budget Budget
	// perCPU: these packets cost a processor's time and nobody else's, so each processor
	// has the budget. What a daemon reads has one budget for all.
	perCPU bool
	// sparing: sources have no more than their share only while half of what the class may have at
	// once is used up. A tunnel is one source, and may have what nobody else wants.
	sparing bool
	tunnels func(*config.Interface) bool           // whether packets of such a tunnel come by it; nil for none
	relayed bool                                   // with a DHCP relay, all answers of a server come by it, which is one source
	limit   func(*config.Guard) *config.GuardLimit // nil when it can't be limited
}

// The defaults are for a router whose kernel takes 100,000 packets a second on its one slow core: all
// floods of Internet packets at once (icmp … stray, without beginnings) leave it the half
// of that. Honest traffic of a campus stays below by far.
var classes = [Classes]class{
	Kernel: {name: "kernel", text: "forwarded by the kernel because of the configuration"},
	Session: {name: "sessions", text: "connections of the router itself (SSH, BGP, its own queries)",
		hint:   "a flood inside a connection that the router has accepted: minne capture shows the sender",
		budget: Budget{0, 50_000}, limit: func(g *config.Guard) *config.GuardLimit { return g.Sessions }},
	BGP: {name: "bgp-peers", text: "configured BGP peers, before their session is up",
		hint:   "forged packets with a peer's address: set a password for the session",
		budget: Budget{2_000, 500}, limit: func(g *config.Guard) *config.GuardLimit { return g.BGP }},
	Routing: {name: "routing-protocols", text: "OSPF, BFD, VRRP and PIM of known neighbours",
		hint:   "very fast hellos or BFD: raise fast-path.guard.routing-protocols",
		budget: Budget{20_000, 5_000}, limit: func(g *config.Guard) *config.GuardLimit { return g.Routing }},
	RoutingNew: {name: "routing-strangers", text: "OSPF, BFD, VRRP and PIM of unknown senders",
		hint:   "forged routing packets: minne capture shows the sender; use OSPF authentication",
		budget: Budget{500, 100}, limit: func(g *config.Guard) *config.GuardLimit { return g.RoutingStrangers }},
	Neighbour: {name: "neighbours", text: "ARP and neighbour discovery of known neighbours and configured next hops",
		hint:   "a network of thousands of hosts: raise fast-path.guard.neighbours",
		budget: Budget{5_000, 100}, limit: func(g *config.Guard) *config.GuardLimit { return g.Neighbours }},
	ARP: {name: "arp", text: "ARP and neighbour discovery of others, for the router",
		hint:   "a flood of ARP or neighbour discovery: find the port on the switch",
		budget: Budget{1_000, 50}, limit: func(g *config.Guard) *config.GuardLimit { return g.ARP }},
	ARPOthers: {name: "arp-others", text: "ARP for other stations",
		hint:   "a flood or a scan of a connected network: find the port on the switch",
		budget: Budget{500, 20}, limit: func(g *config.Guard) *config.GuardLimit { return g.ARPOthers }},
	Link: {name: "link", text: "LLDP, LACP, spanning tree, IS-IS, 802.1X, PPPoE discovery",
		budget: Budget{1_000, 200}, limit: func(g *config.Guard) *config.GuardLimit { return g.Link }},
	DHCP: {name: "dhcp", text: "DHCP",
		hint:    "a starvation attack on the DHCP pool, or thousands of hosts that start at once",
		relayed: true,
		budget:  Budget{1_000, 20}, limit: func(g *config.Guard) *config.GuardLimit { return g.DHCP }},
	TCP: {name: "tcp", text: "TCP to the router outside of its connections: new ones, scans, SYN floods",
		hint:   "a SYN flood or port scan against the router: a firewall rule to self can deny it",
		budget: Budget{2_000, 200}, limit: func(g *config.Guard) *config.GuardLimit { return g.TCP }},
	UDP: {name: "udp", text: "UDP to open ports of the router (DNS, NTP, WireGuard, VXLAN)",
		hint: "a flood against a service of the router; if the service is only busy, raise fast-path.guard.udp",
		tunnels: func(i *config.Interface) bool {
			return i.WireGuard != nil || i.Tunnel != nil && i.Tunnel.Type == "vxlan"
		},
		budget: Budget{20_000, 5_000}, limit: func(g *config.Guard) *config.GuardLimit { return g.UDP }},
	UDPClosed: {name: "udp-closed", text: "UDP to closed ports of the router",
		hint:   "a flood or port scan against the router",
		budget: Budget{500, 50}, limit: func(g *config.Guard) *config.GuardLimit { return g.UDPClosed }},
	ICMP: {name: "icmp", text: "ICMP to the router",
		hint:   "a ping flood; if you have many monitoring hosts, raise fast-path.guard.icmp",
		budget: Budget{1_000, 100}, limit: func(g *config.Guard) *config.GuardLimit { return g.ICMP }},
	Protocols: {name: "protocols", text: "other protocols to the router (tunnels)",
		hint:    "a busy tunnel that ends on this router: raise fast-path.guard.protocols",
		tunnels: func(i *config.Interface) bool { return i.Tunnel != nil && i.Tunnel.Type != "vxlan" },
		budget:  Budget{20_000, 10_000}, sparing: true, limit: func(g *config.Guard) *config.GuardLimit { return g.Protocols }},
	TTL: {name: "ttl", text: "TTL or hop limit expired: the kernel sends an error",
		hint:   "a routing loop, or a flood",
		budget: Budget{1_000, 200}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.TTL }},
	NoRoute: {name: "no-route", text: "no route, or an unreachable or prohibit route: the kernel sends an error",
		hint:   "a scan of unused addresses, or a missing route: minne show ip route",
		budget: Budget{1_000, 200}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.NoRoute }},
	NoNeighbour: {name: "no-neighbour", text: "to hosts whose MAC address the kernel must resolve",
		hint:   "a scan of unused addresses of a connected network",
		budget: Budget{2_000, 500}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.NoNeighbour }},
	Fragment: {name: "fragments", text: "fragments, and packets that the kernel must fragment",
		hint:   "a flood of fragments; or a tunnel with too large packets: check the MTU",
		budget: Budget{20_000, 10_000}, perCPU: true, sparing: true, limit: func(g *config.Guard) *config.GuardLimit { return g.Fragments }},
	Beginning: {name: "new-connections", text: "first packets of connections through the router",
		hint:   "a flood of connections: the section limits has limits for each host of a zone",
		budget: Budget{0, 0}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.NewConnections }},
	Options: {name: "options", text: "IPv4 options and IPv6 extension headers",
		hint:   "rare in normal traffic",
		budget: Budget{1_000, 200}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.Options }},
	Multicast: {name: "multicast", text: "multicast and broadcast",
		hint:   "a broadcast storm: is there a loop between switches?",
		budget: Budget{10_000, 5_000}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.Multicast }},
	Stray: {name: "strays", text: "for other stations, of unknown protocols, or with invalid addresses",
		hint:   "a switch that floods: is its MAC table full?",
		budget: Budget{5_000, 2_500}, perCPU: true, limit: func(g *config.Guard) *config.GuardLimit { return g.Strays }},
}

// String is the class's name, as in the configuration.
func (c Class) String() string {
	if c < 0 || c >= Classes {
		return fmt.Sprintf("class-%d", int(c))
	}
	return classes[c].name
}

// Text says in one clause what is in the class.
func (c Class) Text() string { return classes[c].text }

// Hint says what an operator may look at when many packets of the class are dropped.
func (c Class) Hint() string { return classes[c].hint }

// String says the budget in words.
func (b Budget) String() string {
	all := "no limit"
	if b.PerSecond > 0 {
		all = fmt.Sprintf("%d a second", b.PerSecond)
	}
	if b.PerSource > 0 {
		all += fmt.Sprintf(", %d of each source", b.PerSource)
	}
	return all
}
