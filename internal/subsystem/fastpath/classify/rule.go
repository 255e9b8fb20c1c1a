// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"fmt"
	"net/netip"
	"slices"
)

// Family says which IP versions a rule is for.
type Family uint8

// The families. A rule of neither is for both.
const (
	IPv4 Family = 1 << iota
	IPv6
)

// Range is a run of 16-bit values, both ends included.
type Range struct{ First, Last uint16 }

func (r Range) holds(v uint16) bool { return r.First <= v && v <= r.Last }

// ICMPRange is a run of codes of one ICMP type, both ends included.
type ICMPRange struct {
	Type                uint8
	FirstCode, LastCode uint8
}

func (r ICMPRange) values() Range {
	return Range{uint16(r.Type)<<8 | uint16(r.FirstCode), uint16(r.Type)<<8 | uint16(r.LastCode)}
}

// Protocols is a set of IP protocol numbers, a bit each.
type Protocols [4]uint64

// Add puts a protocol into the set.
func (p *Protocols) Add(n uint8) { p[n>>6] |= 1 << (n & 63) }

// Has tells whether a protocol is in the set.
func (p *Protocols) Has(n uint8) bool { return p[n>>6]>>(n&63)&1 != 0 }

// ProtocolSet is the set of these protocols.
func ProtocolSet(numbers ...uint8) (p Protocols) {
	for _, n := range numbers {
		p.Add(n)
	}
	return p
}

// Ask is a question that a rule may put: it matches whatever the answer is, or one answer only.
type Ask uint8

// What a rule wants.
const (
	Either Ask = iota
	Only
	Never
)

func (a Ask) accepts(is bool) bool { return a == Either || (a == Only) == is }

// MaxZonePairs is how many zone pairs there can be, from 0 on.
const MaxZonePairs = 255

// Rule says which packets get a verdict. An empty field of a rule accepts every packet.
//
// Ports and ICMP values are conditions, as in nftables: a rule with ports matches no packet that
// has none, which are those of protocols without ports and every fragment but the first; a rule
// with ICMP ranges matches nothing but ICMP; likewise a rule that asks about SYN matches TCP only.
type Rule struct {
	Zones            []uint8 // zone pairs
	Family           Family
	Source           []netip.Prefix // a list with no prefix of a packet's family matches none of that family
	Destination      []netip.Prefix
	Protocols        Protocols
	SourcePorts      []Range
	DestinationPorts []Range
	ICMP             []ICMPRange
	Fragments        Ask // fragments behind the first
	SYN              Ask // TCP with SYN and neither ACK, FIN nor RST
	Verdict          uint32
}

// Bits of Key.Kind above the protocol number; CLASSIFY_ of bpf/classify.h.
const (
	KindSYN      = 1 << 8 // of TCP: SYN and neither ACK, FIN nor RST
	KindFragment = 1 << 9 // a fragment behind the first; no port or ICMP type is known
	kinds        = KindFragment + 256
)

// Key is what a packet is evaluated by. An IPv4 address stands in the upper half of the first word.
// The layout is that of struct classify_key in bpf/classify.h.
type Key struct {
	Source, Destination [2]uint64 // host byte order
	SourcePort          uint16
	DestinationPort     uint16 // of ICMP: type << 8 | code
	Kind                uint16 // protocol number, or with KindSYN, or with KindFragment
	Zone                uint8  // pair
	IPv6                bool
}

// KeyAddress is an address as it stands in a Key.
func KeyAddress(a netip.Addr) [2]uint64 {
	p := pointOf(a)
	return [2]uint64{p.hi, p.lo}
}

const (
	protocolICMP  = 1
	protocolTCP   = 6
	protocolUDP   = 17
	protocolDCCP  = 33
	protocolICMP6 = 58
	protocolSCTP  = 132
	protocolLite  = 136
)

// withPorts are the protocols whose ports a rule can ask for.
var withPorts = ProtocolSet(protocolTCP, protocolUDP, protocolDCCP, protocolSCTP, protocolLite)

// kindHas tells what packets of a kind have: a fragment none of it.
func kindHas(kind uint16) (ports, icmp, tcp bool) {
	if kind >= KindFragment {
		return false, false, false
	}
	p := uint8(kind)
	return withPorts.Has(p), p == protocolICMP || p == protocolICMP6, p == protocolTCP
}

// Match is the plain way to the verdict, which Tables must agree with: the first rule that
// matches. Without one the verdict is none.
func Match(rules []Rule, k *Key, none uint32) uint32 {
	for i := range rules {
		if rules[i].matches(k) {
			return rules[i].Verdict
		}
	}
	return none
}

func (r *Rule) matches(k *Key) bool {
	family := IPv4
	if k.IPv6 {
		family = IPv6
	}
	return (r.Family == 0 || r.Family&family != 0) &&
		(len(r.Zones) == 0 || holdsZone(r.Zones, k.Zone)) &&
		holdsAddress(r.Source, k.Source, k.IPv6) &&
		holdsAddress(r.Destination, k.Destination, k.IPv6) &&
		r.matchesKind(k.Kind) &&
		holdsPort(r.SourcePorts, k.SourcePort) &&
		holdsPort(r.DestinationPorts, k.DestinationPort) &&
		holdsICMP(r.ICMP, k.DestinationPort)
}

// matchesKind checks all of the rule that is about the kind of packet.
func (r *Rule) matchesKind(kind uint16) bool {
	ports, icmp, tcp := kindHas(kind)
	if r.Protocols != (Protocols{}) && !r.Protocols.Has(uint8(kind)) {
		return false
	}
	if !ports && len(r.SourcePorts)+len(r.DestinationPorts) > 0 || !icmp && len(r.ICMP) > 0 || !tcp && r.SYN != Either {
		return false
	}
	return r.SYN.accepts(kind&KindSYN != 0) && r.Fragments.accepts(kind >= KindFragment)
}

func holdsZone(zones []uint8, zone uint8) bool {
	return slices.Contains(zones, zone)
}

func holdsAddress(prefixes []netip.Prefix, a [2]uint64, ipv6 bool) bool {
	if len(prefixes) == 0 {
		return true
	}
	p := point{a[0], a[1]}
	for _, prefix := range prefixes {
		if prefix.Addr().Is6() != ipv6 {
			continue
		}
		if s := stretchOf(prefix); !p.less(s.first) && !s.last.less(p) {
			return true
		}
	}
	return false
}

func holdsPort(ranges []Range, port uint16) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r Range) bool { return r.holds(port) })
}

func holdsICMP(ranges []ICMPRange, value uint16) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r ICMPRange) bool { return r.values().holds(value) })
}

// check refuses a rule that means nothing.
func (r *Rule) check(number int) error {
	bad := func(what string, v any) error {
		return fmt.Errorf("rule %d: %s %v", number, what, v)
	}
	for _, z := range r.Zones {
		if z >= MaxZonePairs {
			return bad(fmt.Sprintf("the zone pairs are 0 to %d, not", MaxZonePairs-1), z)
		}
	}
	for _, list := range [][]netip.Prefix{r.Source, r.Destination} {
		for _, p := range list {
			if !p.IsValid() || p.Addr().Is4In6() {
				return bad("an IPv4 or IPv6 prefix is expected, not", p)
			}
		}
	}
	for _, list := range [][]Range{r.SourcePorts, r.DestinationPorts} {
		for _, p := range list {
			if p.First > p.Last {
				return bad("a range of ports runs backwards:", p)
			}
		}
	}
	for _, p := range r.ICMP {
		if p.FirstCode > p.LastCode {
			return bad("a range of ICMP codes runs backwards:", p)
		}
	}
	return nil
}
