// SPDX-License-Identifier: Apache-2.0

package config

// Guard bounds what may go up to the kernel, class by class, so that a flood does not
// starve the router's own sessions. The classes, with their defaults, are those of
// package fastpath/guard, where a test compares the numbers told here.
type Guard struct {
	Mode             *OnOff      `yaml:"mode" json:"mode,omitempty" doc:"Turns the rate limits of punted packets on, on ports with the fast path." default:"on" enum:"on,off"`
	Sessions         *GuardLimit `yaml:"sessions" json:"sessions,omitempty" doc:"Connections of the router itself: SSH, BGP, its own queries. Absent: no limit in all, 50000 a second of each source. Configured BGP peers have no limit."`
	BGP              *GuardLimit `yaml:"bgp-peers" json:"bgp-peers,omitempty" doc:"Packets of configured BGP peers while no session is up. Absent: 2000 a second, 500 of each source."`
	Routing          *GuardLimit `yaml:"routing-protocols" json:"routing-protocols,omitempty" doc:"OSPF, BFD, VRRP and PIM of known neighbours. Absent: 20000 a second, 5000 of each source."`
	RoutingStrangers *GuardLimit `yaml:"routing-strangers" json:"routing-strangers,omitempty" doc:"OSPF, BFD, VRRP and PIM of unknown senders. Absent: 500 a second, 100 of each source."`
	Neighbours       *GuardLimit `yaml:"neighbours" json:"neighbours,omitempty" doc:"ARP and neighbour discovery of known neighbours and configured next hops. Absent: 5000 a second, 100 of each source."`
	ARP              *GuardLimit `yaml:"arp" json:"arp,omitempty" doc:"ARP and neighbour discovery of others, for the router. Absent: 1000 a second, 50 of each source."`
	ARPOthers        *GuardLimit `yaml:"arp-others" json:"arp-others,omitempty" doc:"ARP for other stations. Absent: 500 a second, 20 of each source."`
	Link             *GuardLimit `yaml:"link" json:"link,omitempty" doc:"LLDP, LACP, spanning tree, IS-IS, 802.1X, PPPoE discovery. Absent: 1000 a second, 200 of each source."`
	DHCP             *GuardLimit `yaml:"dhcp" json:"dhcp,omitempty" doc:"DHCP. Absent: 1000 a second, 20 of each source; with a DHCP relay as many of each source."`
	TCP              *GuardLimit `yaml:"tcp" json:"tcp,omitempty" doc:"TCP to the router that belongs to none of its connections: new ones, scans, SYN floods. Absent: 2000 a second, 200 of each source."`
	UDP              *GuardLimit `yaml:"udp" json:"udp,omitempty" doc:"UDP to open ports of the router. Absent: 20000 a second, 5000 of each source; with WireGuard or VXLAN 40000 and 30000 times the number of CPUs."`
	UDPClosed        *GuardLimit `yaml:"udp-closed" json:"udp-closed,omitempty" doc:"UDP to closed ports of the router. Absent: 500 a second, 50 of each source."`
	ICMP             *GuardLimit `yaml:"icmp" json:"icmp,omitempty" doc:"ICMP to the router. Absent: 1000 a second, 100 of each source."`
	Protocols        *GuardLimit `yaml:"protocols" json:"protocols,omitempty" doc:"Other protocols to the router: tunnels. Absent: 20000 a second, and 10000 of each source while that is short; with a tunnel of type gre, ipip or 6in4 40000 and 30000 times the number of CPUs."`
	TTL              *GuardLimit `yaml:"ttl" json:"ttl,omitempty" doc:"TTL or hop limit expired. Absent: 1000 a second for each CPU, 200 of each source."`
	NoRoute          *GuardLimit `yaml:"no-route" json:"no-route,omitempty" doc:"No route, or an unreachable or prohibit route. Absent: 1000 a second for each CPU, 200 of each source."`
	NoNeighbour      *GuardLimit `yaml:"no-neighbour" json:"no-neighbour,omitempty" doc:"To hosts whose MAC the kernel must resolve first. Absent: 2000 a second for each CPU, 500 of each source."`
	Fragments        *GuardLimit `yaml:"fragments" json:"fragments,omitempty" doc:"Fragments, and packets that the kernel must fragment. Absent: 20000 a second for each CPU, and 10000 of each source while that is short."`
	NewConnections   *GuardLimit `yaml:"new-connections" json:"new-connections,omitempty" doc:"First packets of connections through the router. Absent: no limit; the section limits has limits for each host."`
	Options          *GuardLimit `yaml:"options" json:"options,omitempty" doc:"IPv4 options and IPv6 extension headers. Absent: 1000 a second for each CPU, 200 of each source."`
	Multicast        *GuardLimit `yaml:"multicast" json:"multicast,omitempty" doc:"Multicast and broadcast. Absent: 10000 a second for each CPU, 5000 of each source."`
	Strays           *GuardLimit `yaml:"strays" json:"strays,omitempty" doc:"Packets for other stations, of unknown protocols, or with invalid addresses. Absent: 5000 a second for each CPU, 2500 of each source."`
}

// GuardLimit is the budget of one class; what is absent is the default.
type GuardLimit struct {
	PerSecond *int `yaml:"per-second" json:"per-second,omitempty" doc:"Packets a second of all sources together. Each interface has an equal share and may use what the others leave. 0: no limit." min:"0" max:"1000000"`
	PerSource *int `yaml:"per-source" json:"per-source,omitempty" doc:"Packets a second of one source: an IPv4 address, an IPv6 /64 network, or on the link a MAC address. 0: no limit." min:"0" max:"1000000"`
}
