// SPDX-License-Identifier: Apache-2.0

// Package rib is the vocabulary in which the kernel's forwarding state is told:
// routes, next hops, neighbours, links, addresses and policy rules of one
// network namespace.
//
// The kernel package reads that state over netlink and tells it; the fast path
// listens and repeats it. Neither knows the other: both know these words. All
// values are plain copies, so a listener may keep them.
package rib

import (
	"net"
	"net/netip"
)

// RouteType is the rtm_type of a route (include/uapi/linux/rtnetlink.h), with the kernel's values.
type RouteType uint8

// The route types that the kernel installs.
const (
	Unicast     RouteType = 1
	Local       RouteType = 2
	Broadcast   RouteType = 3
	Anycast     RouteType = 4
	Multicast   RouteType = 5
	Blackhole   RouteType = 6
	Unreachable RouteType = 7
	Prohibit    RouteType = 8
	Throw       RouteType = 9
)

// The routing tables that every namespace has.
const (
	TableMain    = 254
	TableLocal   = 255
	TableDefault = 253
)

// Hop flags, with the kernel's RTNH_F_ values.
const (
	HopDead     uint8 = 1
	HopOnLink   uint8 = 4
	HopLinkDown uint8 = 16
)

// Route is one entry of a kernel routing table. (Prefix, Table, Metric, TOS) is its identity.
type Route struct {
	Prefix    netip.Prefix
	Source    netip.Prefix // IPv6 source-specific route (RTA_SRC); the zero Prefix when there is none
	Table     uint32
	Metric    uint32
	MTU       uint32 // RTAX_MTU in bytes; 0 when unset
	NextHopID uint32 // kernel next-hop object (RTA_NH_ID); 0 when Hops hold the next hops
	Type      RouteType
	TOS       uint8
	Protocol  uint8 // RTPROT_ value: who installed it
	Encap     bool  // a lightweight tunnel or other encapsulation: not for the fast path
	Hops      []Hop // empty for blackhole and the like, and when NextHopID is set
}

// Hop is one next hop of a route or next-hop object.
type Hop struct {
	Gateway   netip.Addr // the zero Addr when the destination is on the link
	Interface int        // ifindex
	Weight    uint16     // 1…256, as the operator counts (rtnh_hops + 1)
	Flags     uint8      // HopDead | HopOnLink | HopLinkDown
}

// RouteChange is a route that appeared, was replaced, or went.
type RouteChange struct {
	Route   Route
	Deleted bool
}

// NextHopGroup is a kernel next-hop object: a single next hop or a group of them.
type NextHopGroup struct {
	ID        uint32
	Members   []NextHopMember // a group; empty when it is a single next hop
	Hop       Hop             // the single next hop
	Blackhole bool
	Encap     bool // encapsulation, FDB or resilient group: not for the fast path
	Deleted   bool
}

// NextHopMember is one member of a group object.
type NextHopMember struct {
	ID     uint32
	Weight uint16 // 1…256
}

// Neighbour states, with the kernel's NUD_ values.
const (
	NeighIncomplete uint16 = 0x01
	NeighReachable  uint16 = 0x02
	NeighStale      uint16 = 0x04
	NeighDelay      uint16 = 0x08
	NeighProbe      uint16 = 0x10
	NeighFailed     uint16 = 0x20
	NeighNoARP      uint16 = 0x40
	NeighPermanent  uint16 = 0x80
)

// NeighbourState names a state (NUD_) as `ip neigh` does, in small letters; "" when there is none.
func NeighbourState(state uint16) string {
	for _, s := range []struct {
		bit  uint16
		word string
	}{
		{NeighPermanent, "permanent"}, {NeighReachable, "reachable"}, {NeighStale, "stale"}, {NeighDelay, "delay"},
		{NeighProbe, "probe"}, {NeighIncomplete, "incomplete"}, {NeighFailed, "failed"}, {NeighNoARP, "noarp"},
	} {
		if state&s.bit != 0 {
			return s.word
		}
	}
	return ""
}

// Neighbour is an entry of the ARP or ND table.
type Neighbour struct {
	Address   netip.Addr
	Interface int // ifindex
	State     uint16
	MAC       net.HardwareAddr // 6 bytes, or empty when not resolved
	Deleted   bool
}

// Link is a network device.
type Link struct {
	Index      int
	Name       string
	Kind       string // "veth", "vlan", "" for hardware
	MAC        net.HardwareAddr
	MTU        int
	Up         bool // administratively up
	Running    bool // carrier, as IFF_LOWER_UP
	Loopback   bool
	Group      uint32 // interface group, for rules that pass over its routes
	Master     int    // ifindex of the bridge, bond or VRF it belongs to; 0 for none
	InUse      bool   // a port of a bond: the bond takes packets from it
	Parent     int    // ifindex of the device a VLAN sits on; 0 for none
	VLANID     uint16 // 1…4094 for a VLAN
	VLANProto  uint16 // 0x8100 or 0x88a8 for a VLAN
	Table      uint32 // of a VRF
	Settings   string // that its kind can change in place, to be compared only
	XDPProgram uint32 // id of the attached XDP program; 0 for none
	Deleted    bool
}

// LinkAddress is an address of the router itself.
type LinkAddress struct {
	Address   netip.Prefix // with host bits
	Interface int
	Deleted   bool
}

// Rule is a policy-routing rule (ip rule).
type Rule struct {
	Family   uint8 // AF_INET or AF_INET6
	Priority uint32
	Table    uint32 // where all packets are looked up; 0 for a rule that chooses, or does something else
	Pass     uint32 // interface group whose routes the lookup passes over (suppress_ifgroup); 0 for none
	VRF      bool   // about packets of links that belong to a VRF, and of no others (l3mdev)
	Policy   bool   // of the file's policy routing, which Minne wrote
	Partial  bool   // of those about some only, or it does something else than ask the VRF's table
	Deleted  bool
}

// Listener is told the forwarding state of a namespace as it changes.
//
// Between Begin and End the whole state is told: what was known before and is
// not repeated by End is gone. Outside, each call is a change that the kernel
// has already made. Calls never overlap and come in the kernel's order; slices
// belong to the caller again when the call returns (elements may be kept).
type Listener interface {
	Begin()
	End()
	Links([]Link)
	Addresses([]LinkAddress)
	Rules([]Rule)
	Neighbours([]Neighbour)
	NextHops([]NextHopGroup)
	Routes([]RouteChange)
}
