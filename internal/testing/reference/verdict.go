// SPDX-License-Identifier: Apache-2.0

// Package reference is a router that is only meant to be right: plain Go, one
// lookup per prefix length, written from the RFCs (791, 1071, 1122, 1624, 1812,
// 3021, 3704, 4291, 4443, 8200) and from what Linux documents of its own choices
// where the RFCs leave room. It is the first of the three voices that evaluate the
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

// Reasons to drop: Linux drops these too, and says nothing.
const (
	Truncated      Reason = "truncated"           // the frame ends inside the IP header
	BadVersion     Reason = "bad-version"         // not the ethertype's version, or a header length below the minimum
	BadLength      Reason = "bad-length"          // the length field tells of more than arrived, or of less than a header
	BadChecksum    Reason = "bad-checksum"        // IPv4 header checksum (RFC 1812 5.2.2)
	MartianSource  Reason = "martian-source"      // an address that no packet can come from (RFC 1812 5.3.7, RFC 4291 2.7)
	MartianDest    Reason = "martian-destination" // likewise a destination
	Spoofed        Reason = "spoofed"             // fails the port's source check (RFC 3704)
	BlackholeRoute Reason = "blackhole"           // the route says: discard silently
)

// Reasons to punt.
const (
	UnknownPort       Reason = "unknown-interface" // port or VLAN tags that are not ours
	GroupMAC          Reason = "group-mac"         // link-layer multicast or broadcast
	OtherMAC          Reason = "other-mac"         // frame for another station
	EtherType         Reason = "ethertype"         // neither IPv4 nor IPv6: ARP, LLDP, ...
	HasOptions        Reason = "options"           // IPv4 options
	IsFragment        Reason = "fragment"          // IPv4 fragment
	HopByHop          Reason = "hop-by-hop"        // every router must look into it (RFC 8200 4.3)
	ExtensionHeader   Reason = "extension-header"  // hides the ports that choose among next hops
	MulticastDest     Reason = "multicast"         // destination is a group
	BroadcastDest     Reason = "broadcast"         // limited, or of a connected network
	LoopbackAddress   Reason = "loopback"          // 127.0.0.0/8 at either end
	LinkLocal         Reason = "link-local"        // IPv6 link-local at either end
	UnspecifiedEnd    Reason = "unspecified"       // IPv6 :: at either end
	TTLExpired        Reason = "ttl"               // 0 or 1 left: the kernel tells the sender
	LocalDest         Reason = "local"             // for the router itself
	OwnSource         Reason = "own-source"        // claims to come from the router
	SourceCheckFailed Reason = "source-check"      // a source check that the kernel has to evaluate
	NoRoute           Reason = "no-route"          // nothing matches: the kernel tells the sender
	UnreachableRoute  Reason = "unreachable"       // route of that type
	ProhibitRoute     Reason = "prohibit"          // route of that type
	SpecialRoute      Reason = "special-route"     // encapsulation and the like
	NoNeighbour       Reason = "no-neighbour"      // next hop not resolved: the kernel asks for it
	Egress            Reason = "egress"            // leads out of a port without fast path
	TooBig            Reason = "too-big"           // larger than the egress MTU: the kernel fragments or tells the sender
	Redirected        Reason = "redirect"          // leaves where it came in: the kernel may tell the sender a better way
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
