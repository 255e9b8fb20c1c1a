// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// The intermediate form. All names are resolved: zones, sets, rules and pairs are
// numbers into the slices of the Policy, so that whoever lowers it looks nothing up.
//
// How a packet is evaluated:
//
//  1. Its pair is the zone of the interface it came in by and the zone of the one
//     it leaves by, with Self for the router as source or destination.
//  2. Where the pair keeps state (not Stateless), packets of known connections
//     and errors about them pass, and those that fit no connection (conntrack's
//     state invalid) are dropped unless the router itself sends them.
//     New connections beyond a limit of their source are dropped next.
//  3. To and from the router, Policy.Services are read first: what its own
//     services need. Those with To Self are read for packets that come in, those
//     with From Self for packets that the router sends. Those of AnyState are
//     read before 2.
//  4. The rules of the pair are read in order, the first that matches decides.
//     A permit with a limit denies what is above the limit.
//  5. Else the pair's Default holds.
//
// A packet without a pair, by an interface without zone, is treated as if the
// pair had no rules; only the router itself may send such.

// ZoneID is the number of a zone: its place in Policy.Zones.
type ZoneID int

// Self is the router itself, in the place of a zone.
const Self ZoneID = 0

// SelfName is how rules call the router itself, AnyName all zones.
const (
	SelfName = "self"
	AnyName  = "any"
)

// Policy is all that a configuration says about who may send what to whom.
type Policy struct {
	Zones    []Zone // Zones[Self] is the router, the others in the order of their names
	Sets     []Set  // in the order of their names
	Rules    []Rule // in the order of the file; a rule's number is its place here plus one
	Services []Rule // what the router's own services need, read before Rules; numbered on from those
	Pairs    []Pair // every ordered pair of zones but Self to Self, by From, then To
	NAT      []NAT  // in the order of the file
	Limits   []SourceLimit
	Helpers  []Helper
	VRFs     []VRF // by name; connections of one are no others' (conntrack zones)
	MSSClamp bool  // TCP segment sizes are lowered to the route's MTU
	Portals  []Portal

	pair map[[2]ZoneID]int
}

// Zone is a zone and its interfaces.
type Zone struct {
	Name       string
	Interfaces []string // by kernel name, in their order
}

// VRF is a routing table of their own for some interfaces. The kernel shows most rules a packet of theirs as one of the VRF.
type VRF struct {
	Name       string
	Table      uint16 // also the number of its connections' zone in conntrack
	Interfaces []string
}

// SetKind is what a set holds.
type SetKind int

// The kinds of sets.
const (
	AddressSet SetKind = iota // single addresses: exact matches
	PrefixSet                 // networks, and addresses as networks of full length
	PortSet
)

// Set is a named set. Its elements here are those of the configuration; while the
// router runs, others come and go (minne set add).
type Set struct {
	Name     string
	Kind     SetKind
	Prefixes []netip.Prefix // of both families, sorted, none inside another
	Ports    []PortRange    // sorted, none overlapping another
	Timeout  time.Duration  // of elements that come without their own; 0 for ever

	// Of a service: its elements come and go with what the service knows, and nobody else may change them. With Hosts each is
	// the address of a host with a MAC address: the kernel takes a source for one only if both are the host's.
	Fed, Hosts bool
}

// Pair is the way from one zone to another.
type Pair struct {
	From, To  ZoneID
	Rules     []int // places in Policy.Rules, in the order in which they are read
	Stateless bool  // each packet is evaluated alone; then the way back is stateless too
	Default   Action
	Log       bool // whether packets that Default denies are logged
}

// Action is what becomes of a packet.
type Action int

// The actions.
const (
	Deny   Action = iota // dropped without a word
	Permit               //
	Reject               // dropped, and the sender is told: TCP by a reset, others by ICMP "administratively prohibited"
)

// actionWords are the words of the grammar, by Action.
var actionWords = []string{Deny: "deny", Permit: "permit", Reject: "reject"}

func (a Action) String() string { return actionWords[a] }

// Rule is one line of a policy.
type Rule struct {
	ID     int    // from 1 in the order of the file, the number of its counter
	Name   string // "" when the operator gave none
	Policy string // name of the policy it stands in
	Text   string // as written
	Place  string // file:line

	From, To   []ZoneID // the pairs it is read for, From × To
	Interfaces []string // of services: only packets that come in, or leave, by one of these; nil for all

	// What it matches: a packet must match all of these.
	IPv4, IPv6          bool    // families
	Protocols           []uint8 // IP protocol numbers; nil for all
	Source, Destination Addresses
	SourcePorts, Ports  Ports      // of TCP, UDP, SCTP and DCCP; only with Protocols among these
	ICMP                []ICMPType // one of these; nil for all. Only with Protocols 1, 58
	HopLimit255         bool       // only from the link itself (RFC 4861)
	AnyState            bool       // of services: conntrack calls such packets invalid, so it is read before the state
	Unknown             bool       // of services: hosts need no login for it

	Action    Action
	Stateless bool
	Log       *Log   // nil for none
	Limit     *Limit // nil for none; only of permit

	// Schedule is when the rule matches; nil for always. The kernel looks at its own clock for each
	// packet: whoever else lowers the rule leaves to the kernel what it may match.
	Schedule *Schedule
}

// Addresses is what an address must be in: one of the prefixes or sets.
type Addresses struct {
	Any      bool
	Prefixes []netip.Prefix
	Sets     []int // places in Policy.Sets
	Not      bool  // it must not be in the set: there is one, and no prefix
}

// Ports is what a port must be in: one of the ranges or sets.
type Ports struct {
	Any    bool
	Ranges []PortRange
	Sets   []int // places in Policy.Sets
}

// PortRange is ports from First to Last, both included.
type PortRange struct{ First, Last uint16 }

func (r PortRange) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ICMPType is a type of ICMP (Protocol 1) or ICMPv6 (58) messages.
type ICMPType struct {
	Protocol uint8
	Type     uint8
}

// Log says that packets which a rule decides are logged, at most LogRate a second.
type Log struct {
	Prefix string // in front of the kernel's words; "" for one made of the rule's name
}

// LogRate is how many packets a second are logged for each rule.
const LogRate = 10

// Limit is how often a rule permits: a token bucket.
type Limit struct {
	Rate  int           // packets
	Per   time.Duration // second, minute, hour or day
	Burst int           // packets at once
}

// SourceLimit bounds the new connections of each source, before rules are read:
// only where state is kept, and not for packets of connections that exist. A
// source is an IPv4 address, or an IPv6 network of length 64.
type SourceLimit struct {
	ID    int // from 1, the number of its counter
	Place string
	From  []ZoneID
	New   *Limit // nil for no limit
	Open  int    // connections at the same time; 0 for no limit

	// ICMP bounds all packets of ICMP and ICMPv6 but neighbour discovery, of connections that exist too:
	// before state is looked at. SYN bounds TCP segments that begin connections, for each destination
	// address, of all sources together. nil for no limit.
	ICMP, SYN *Limit
}

// Helper is a protocol that conntrack reads, on connections to a port (after the
// translation of the destination). It finds the connections that these announce:
// they pass as Related, and with the first packet may come from anywhere. All
// packets of such a connection, both ways, have to go through the kernel, which
// may also change their length.
type Helper struct {
	Name     string // of the kernel's helper
	Protocol uint8
	Port     uint16
}

// Portal is a login page: hosts of these interfaces that are not in a set reach it wherever they ask for a page by HTTP.
type Portal struct {
	Interfaces []string
	Admitted   int       // place in Policy.Sets
	Free       Addresses // what is not redirected
}

// NATKind is a kind of translation.
type NATKind int

// The kinds of translations.
const (
	Masquerade  NATKind = iota // source becomes the address of the interface
	SourcePool                 // source becomes an address of Pool
	PortForward                // destination becomes Target
	OneToOne                   // Inside and Outside are exchanged, address by address, either way
)

// NAT is one translation. All hold for the first packet of a connection; conntrack
// does the same to the others and the reverse to the replies.
type NAT struct {
	ID     int // from 1, the number of its counter
	Kind   NATKind
	Name   string
	Place  string
	From   []ZoneID
	To     []ZoneID       // of all but PortForward
	Source []netip.Prefix // nil for all; of OneToOne Inside

	IPv4, IPv6 bool           // families, of all but PortForward
	Pool       []netip.Prefix // at most one of each family

	Protocol uint8      // of PortForward
	Address  netip.Addr // what is connected to; of PortForward invalid for any of the router's own
	Ports    PortRange
	Target   netip.Addr
	NewPort  uint16 // 0 for the same
	Hairpin  bool   // of PortForward: hosts of the target's own zones may use it, From has those zones; of OneToOne: all zones may

	// Of OneToOne, two networks of one family and size. A connection from From to To leaves with the
	// address of Outside that stands where its source does in Inside. One from To (with Hairpin: from
	// anywhere) to Outside goes to the address that stands there in Inside; rules see that address.
	// Outside is not the router's own, and a packet to it may begin a connection that only the kernel
	// can translate.
	Inside, Outside netip.Prefix
}

// Pair returns what holds from one zone to another.
func (p *Policy) Pair(from, to ZoneID) *Pair {
	if i, ok := p.pair[[2]ZoneID{from, to}]; ok {
		return &p.Pairs[i]
	}
	return nil
}

// ZoneOf returns the zone of an interface.
func (p *Policy) ZoneOf(iface string) (ZoneID, bool) {
	for i, z := range p.Zones {
		for _, name := range z.Interfaces {
			if name == iface {
				return ZoneID(i), true
			}
		}
	}
	return 0, false
}

// VRFOf returns the VRF that an interface is in, nil for none.
func (p *Policy) VRFOf(iface string) *VRF {
	for i := range p.VRFs {
		if slices.Contains(p.VRFs[i].Interfaces, iface) {
			return &p.VRFs[i]
		}
	}
	return nil
}

// Stateful reports whether some pair keeps state.
func (p *Policy) Stateful() bool {
	return slices.ContainsFunc(p.Pairs, func(pair Pair) bool { return !pair.Stateless })
}

// ServicesOnly is a policy that permits nothing but what the router's own services need; nil of nil.
func (p *Policy) ServicesOnly() *Policy {
	if p == nil {
		return nil
	}
	less := &Policy{Zones: p.Zones, Services: p.Services, pair: p.pair}
	for _, pair := range p.Pairs {
		pair.Rules, pair.Default = nil, Deny
		less.Pairs = append(less.Pairs, pair)
	}
	return less
}

// PairName is how messages and nftables call a pair of zones.
func (p *Policy) PairName(pair *Pair) string {
	return p.Zones[pair.From].Name + "_to_" + p.Zones[pair.To].Name
}
