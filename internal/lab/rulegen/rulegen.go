// SPDX-License-Identifier: Apache-2.0

// Package rulegen makes policies like those of real routers, and packets for them.
//
// The three shapes follow what ClassBench (Taylor and Turner, 2007) found in real
// rule sets: access lists ask for one server and service from far and wide,
// firewalls leave the source or the destination open and ask for ranges of ports,
// and lists of "IP chains" pair networks with networks. Addresses come from a few
// sites with networks inside networks, as a campus has them. The same seed makes
// the same rules.
package rulegen

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"minne/internal/subsystem/fastpath/classify"
)

// Shape is a kind of policy.
type Shape uint8

// The shapes.
const (
	ACL Shape = iota
	Firewall
	IPChain
)

// Shapes are all of them.
var Shapes = []Shape{ACL, Firewall, IPChain}

func (s Shape) String() string { return [...]string{"acl", "fw", "ipc"}[s] }

// generator makes one policy.
type generator struct {
	*rand.Rand
	ipv6  bool
	sites []netip.Prefix
}

// Sites are the networks in which those are that Rules of the same arguments names, unless it names one of the world.
func Sites(shape Shape, n int, ipv6 bool, seed uint64) []netip.Prefix {
	return newGenerator(shape, n, ipv6, seed).sites
}

func newGenerator(shape Shape, n int, ipv6 bool, seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(shape))), ipv6: ipv6}
	for range 4 + n/200 {
		g.sites = append(g.sites, g.inside(g.world(), g.bits(12, 18)))
	}
	return g
}

// Rules makes n distinct rules of one family, the last of which takes every packet. Verdicts are
// the rules' numbers from 1 on.
func Rules(shape Shape, n int, ipv6 bool, seed uint64) []classify.Rule {
	g := newGenerator(shape, n, ipv6, seed)
	family := classify.IPv4
	if ipv6 {
		family = classify.IPv6
	}
	rules := make([]classify.Rule, n)
	for i := range rules {
		r := &rules[i]
		if i < n-1 {
			*r = [...]func() classify.Rule{g.acl, g.firewall, g.ipChain}[shape]()
		}
		r.Family, r.Verdict = family, uint32(i+1)
	}
	return rules
}

// bits is a random prefix length for IPv4 or the like for IPv6.
func (g *generator) bits(from, to int) int {
	n := from + g.IntN(to-from+1)
	if !g.ipv6 {
		return n
	}
	if n > 24 { // networks have 64 bits, hosts 128
		return 64 + (n-24)*8
	}
	return 16 + 2*n
}

func (g *generator) world() netip.Prefix {
	if g.ipv6 {
		return netip.MustParsePrefix("2000::/3")
	}
	return netip.MustParsePrefix("0.0.0.0/0")
}

// inside is a random prefix of that length inside another.
func (g *generator) inside(p netip.Prefix, bits int) netip.Prefix {
	a := Inside(p, g.Rand)
	q, _ := a.Prefix(max(bits, p.Bits()))
	return q
}

// network is a random network of a site.
func (g *generator) network(from, to int) []netip.Prefix {
	site := g.sites[g.IntN(len(g.sites))]
	part := g.inside(site, g.bits(18, 22))
	return []netip.Prefix{g.inside(part, g.bits(from, to))}
}

// abroad is a random network of the world.
func (g *generator) abroad(from, to int) []netip.Prefix {
	return []netip.Prefix{g.inside(g.world(), g.bits(from, to))}
}

var services = []uint16{22, 25, 53, 80, 110, 123, 143, 161, 389, 443, 445, 465, 514, 587, 636, 993, 995, 1433, 1521, 3306, 3389, 5060, 5432, 8080, 8443}

func (g *generator) service() []classify.Range {
	p := services[min(g.IntN(len(services)), g.IntN(len(services)))]
	if g.IntN(8) == 0 {
		p = uint16(1024 + g.IntN(64)*37)
	}
	return []classify.Range{{First: p, Last: p}}
}

var portRanges = []classify.Range{{First: 1024, Last: 65535}, {First: 0, Last: 1023}, {First: 6000, Last: 6063}, {First: 137, Last: 139},
	{First: 5000, Last: 5100}, {First: 33434, Last: 33523}, {First: 2300, Last: 2400}, {First: 16384, Last: 32767}}

func (g *generator) portRange() []classify.Range { return portRanges[g.IntN(len(portRanges)):][:1] }

// above fills in protocol and ports: so many in a hundred rules ask for nothing, so many for ranges,
// so many of all for source ports.
func (g *generator) above(r *classify.Rule, open, ranges, source int) {
	if g.IntN(100) < open {
		return
	}
	switch k := g.IntN(20); {
	case k == 0:
		icmp := uint8(1)
		if g.ipv6 {
			icmp = 58
		}
		r.Protocols = classify.ProtocolSet(icmp)
		if g.IntN(2) == 0 {
			r.ICMP = []classify.ICMPRange{{Type: uint8([]int{8, 0, 3, 11}[g.IntN(4)]), LastCode: 255}}
		}
		return
	case k == 1:
		r.Protocols = classify.ProtocolSet([]uint8{47, 50, 89, 4}[g.IntN(4)])
		return
	case k < 6:
		r.Protocols = classify.ProtocolSet(17)
	default:
		r.Protocols = classify.ProtocolSet(6)
	}
	if g.IntN(100) < source {
		r.SourcePorts = g.portRange()
	}
	if g.IntN(100) < ranges {
		r.DestinationPorts = g.portRange()
	} else {
		r.DestinationPorts = g.service()
	}
}

func (g *generator) acl() (r classify.Rule) {
	switch k := g.IntN(10); {
	case k < 3:
	case k < 6:
		r.Source = g.abroad(8, 24)
	default:
		r.Source = g.network(20, 32)
	}
	r.Destination = g.network(24, 32)
	g.above(&r, 10, 10, 2)
	return r
}

func (g *generator) firewall() (r classify.Rule) {
	switch k := g.IntN(10); {
	case k < 4:
		r.Source = g.network(22, 32)
	case k < 8:
		r.Destination = g.network(22, 32)
	default:
		r.Source, r.Destination = g.network(16, 28), g.network(22, 32)
	}
	g.above(&r, 10, 40, 30)
	return r
}

func (g *generator) ipChain() (r classify.Rule) {
	r.Source, r.Destination = g.network(14, 32), g.network(14, 32)
	switch g.IntN(12) {
	case 0:
		r.Source = nil
	case 1:
		r.Destination = nil
	}
	g.above(&r, 25, 25, 10)
	return r
}

// Inside is a random address of a prefix.
func Inside(p netip.Prefix, rng *rand.Rand) netip.Addr {
	low := [2]uint64{rng.Uint64(), rng.Uint64()}
	b := p.Masked().Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if bits < 64 {
		hi |= low[0] & (^uint64(0) >> bits)
		lo = low[1]
	} else {
		lo |= low[1] & (^uint64(0) >> (bits - 64))
	}
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	a := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		return a.Unmap()
	}
	return a
}
