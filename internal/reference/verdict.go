// SPDX-License-Identifier: Apache-2.0

// Package reference is a router that is only meant to be right: plain Go, one
// lookup per prefix length, written from the RFCs (791, 1071, 1122, 1624, 1812,
// 3021, 3704, 4291, 4443, 8200) and from what Linux documents of its own choices
// where the RFCs leave room. It is the first of the three voices that judge the
// fast path; the others are the eBPF program and the kernel.
//
// A frame gets one of three verdicts. Forward names the port and the exact bytes.
// Drop means that no router may forward it. Punt means that the fast path has no
// business with it: it goes to the kernel untouched, and the kernel may answer,
// consume, fragment, forward or drop it.
//
// Linux is laxer than RFC 1812 5.3.7 in two places and the fast path repeats
// Linux: sources and destinations in 0.0.0.0/8 (except 0.0.0.0 itself) and in
// 240.0.0.0/4 (except 255.255.255.255) are ordinary unicast.
package reference

import "fmt"

// Action is what a verdict does with a frame.
type Action uint8

// The actions.
const (
	Drop Action = iota
	Punt
	Forward
)

// String is the action in the words of the fast path's counters.
func (a Action) String() string {
	switch a {
	case Drop:
		return "drop"
	case Punt:
		return "punt"
	case Forward:
		return "forward"
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// Reason says why a frame is not forwarded.
type Reason string

// Reasons to drop.
const (
	Malformed         Reason = "malformed"          // lengths or version that can't be (RFC 1812 5.2.2)
	BadChecksum       Reason = "bad-checksum"       // IPv4 header checksum
	NotForUs          Reason = "not-for-us"         // unicast MAC of another station
	MartianSource     Reason = "martian-source"     // a source that can't be on any wire (RFC 1812 5.3.7)
	MartianDest       Reason = "martian-dest"       // likewise a destination
	Spoofed           Reason = "spoofed"            // fails the port's source check (RFC 3704)
	BlackholeRoute    Reason = "blackhole"          // the route says: discard silently
	GroupMAC          Reason = "group-mac"          // link-layer multicast or broadcast
	VLANUnknown       Reason = "vlan-unknown"       // tags that no port of ours has
	EtherType         Reason = "ethertype"          // neither IPv4 nor IPv6: ARP, LLDP, ...
	MulticastDest     Reason = "multicast"          // destination is a group
	BroadcastDest     Reason = "broadcast"          // limited broadcast
	LinkLocal         Reason = "link-local"         // IPv6 link-local source or destination
	UnspecifiedSource Reason = "unspecified-source" // IPv6 ::
	HasOptions        Reason = "options"            // IPv4 options
	IsFragment        Reason = "fragment"           // IPv4 fragment or IPv6 fragment header
	ExtensionHeader   Reason = "extension-header"   // any other IPv6 extension header
	TTLExpired        Reason = "ttl"                // 0 or 1 left: the kernel tells the sender
	LocalDest         Reason = "local"              // for the router itself, or a broadcast of its networks
	NoRoute           Reason = "no-route"           // nothing matches: the kernel tells the sender
	UnreachableRoute  Reason = "unreachable"        // route of that type
	ProhibitRoute     Reason = "prohibit"           // route of that type
	NoNeighbour       Reason = "no-neighbour"       // next hop not resolved: the kernel asks for it
	TooBig            Reason = "too-big"            // larger than the egress MTU: the kernel fragments or tells the sender
	RouteNotOurs      Reason = "route-kind"         // encapsulation and the like
	PortNotOurs       Reason = "egress-port"        // leads out of a port without fast path
)

// Verdict is the answer to one frame.
type Verdict struct {
	Action Action
	Reason Reason // of a drop or punt
	Port   int    // ifindex of the port that sends; for a VLAN the one that carries it
	Frame  []byte // the bytes to send
}

// String is the verdict in one line, without the bytes.
func (v Verdict) String() string {
	if v.Action == Forward {
		return fmt.Sprintf("forward port %d, %d bytes", v.Port, len(v.Frame))
	}
	return fmt.Sprintf("%s (%s)", v.Action, v.Reason)
}
