// SPDX-License-Identifier: Apache-2.0

// Package testframes makes frames for tests of the data path.
//
// The Generator makes frames for a router: about a third plain traffic, the rest
// with one or two changes out of a list (a lying length, a special address, a
// header chain, ...). Frame n is a function of the seed and n alone, so a failure
// found among millions is made again by its number, and parts of a run can be
// made side by side.
package testframes

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/model/packet"
)

// Entry is a port of the router as the sender on its wire sees it.
type Entry struct {
	Port    int            // number that Sample repeats
	MAC     packet.MAC     // the router's address on this wire
	MTU     int            // largest network packet that the wire carries
	Tags    []packet.Tag   // that honest frames carry
	Sources []netip.Prefix // where honest senders on this wire are
}

// Pool is a set of destinations that are chosen with this weight.
type Pool struct {
	Weight   int
	Prefixes []netip.Prefix
}

// World is what the Generator knows of the router. Addresses are all of one family.
type World struct {
	Entries      []Entry
	Destinations []Pool
	Specials     []netip.Addr // martians, own, broadcast and group addresses: both ends of a packet
	EgressMTUs   []int        // packet sizes around which mistakes are likely
}

// Generator makes frames. It is not safe for concurrent use; copies with the same seed make the same frames.
type Generator struct {
	world  World
	seed   uint64
	total  int // of the pools' weights
	source rand.PCG
	rng    *rand.Rand
	family []change // the changes for the world's family
}

// Sample is one generated frame and the port that it is for.
type Sample struct {
	Number  uint64 // n; its low 16 bits are the stamp (20 in IPv6)
	Port    int
	Frame   []byte
	changes uint64 // bit set of indexes into the generator's changes
	names   []change
}

// Kind names the changes that were made, for reports.
func (s Sample) Kind() string {
	var names []string
	for i, c := range s.names {
		if s.changes>>i&1 != 0 {
			names = append(names, c.name)
		}
	}
	if len(names) == 0 {
		return "plain"
	}
	return strings.Join(names, "+")
}

// NewGenerator returns a generator of frames for the world.
func NewGenerator(world World, seed uint64) *Generator {
	g := &Generator{world: world, seed: seed, family: changes4}
	g.rng = rand.New(&g.source)
	for _, p := range world.Destinations {
		g.total += p.Weight
	}
	if world.Entries[0].Sources[0].Addr().Is6() {
		g.family = changes6
	}
	return g
}

// draft is a frame before it is written: changes edit its fields, or add damage
// that is done to the written bytes.
type draft struct {
	entry    *Entry
	ethernet packet.Ethernet
	v4       packet.IPv4
	v6       packet.IPv6
	chain    []byte // IPv6 extension headers, the last one naming protocol
	protocol uint8
	size     int // bytes of upper-layer payload
	noSum    bool
	pad      int // bytes behind the network packet
	raw      []byte
	damage   []func(network []byte) []byte // sees a whole network header
	cut      bool                          // truncate at the end, anywhere in the first 100 bytes
}

// At makes frame n and stamps it with n.
func (g *Generator) At(n uint64) Sample {
	g.source.Seed(g.seed, n*0x9e3779b97f4a7c15)
	d := g.plain()
	s := Sample{Number: n, Port: d.entry.Port, names: g.family}
	for range g.count() {
		i := g.rng.IntN(len(g.family))
		s.changes |= 1 << i
		g.family[i].edit(g, &d)
	}
	s.Frame = d.write(g, uint32(n))
	return s
}

// count is how many changes the frame gets: none for a third.
func (g *Generator) count() int {
	switch k := g.rng.IntN(20); {
	case k < 7:
		return 0
	case k < 16:
		return 1
	case k < 19:
		return 2
	}
	return 3
}

// plain is honest traffic through the router.
func (g *Generator) plain() draft {
	e := &g.world.Entries[g.rng.IntN(len(g.world.Entries))]
	src, dst := g.within(pick(g, e.Sources)), g.destination()
	d := draft{entry: e, protocol: pick(g, []uint8{packet.ProtoUDP, packet.ProtoUDP, packet.ProtoTCP, packet.ProtoTCP, packet.ProtoICMP, packet.ProtoGRE, packet.ProtoESP, 132})}
	d.ethernet = packet.Ethernet{Dst: e.MAC, Src: packet.MAC{2, 0xee, 0, 0, 0, uint8(e.Port)}, Tags: slices.Clone(e.Tags)}
	ttl := uint8(2 + g.rng.IntN(254))
	if src.Is4() {
		d.ethernet.Type = packet.TypeIPv4
		d.v4 = packet.IPv4{TOS: uint8(g.rng.Uint32()), Fragment: packet.DontFragment * uint16(g.rng.IntN(2)), TTL: ttl, Src: src, Dst: dst}
	} else {
		d.ethernet.Type = packet.TypeIPv6
		d.v6 = packet.IPv6{Class: uint8(g.rng.Uint32()), HopLimit: ttl, Src: src, Dst: dst}
		if d.protocol == packet.ProtoICMP {
			d.protocol = packet.ProtoICMPv6
		}
	}
	switch g.rng.IntN(20) {
	case 0:
		d.size = g.rng.IntN(e.MTU - 100)
	case 1, 2:
		d.size = g.rng.IntN(500)
	default:
		d.size = g.rng.IntN(64)
	}
	return d
}

// destination is an address out of a pool chosen by weight.
func (g *Generator) destination() netip.Addr {
	k := g.rng.IntN(g.total)
	for _, p := range g.world.Destinations {
		if k -= p.Weight; k < 0 {
			return g.within(pick(g, p.Prefixes))
		}
	}
	return netip.Addr{}
}

// within is a random address in p.
func (g *Generator) within(p netip.Prefix) netip.Addr {
	a, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := bits / 8; i < 16; i++ {
		mask := byte(0xff)
		if i == bits/8 {
			mask >>= bits % 8
		}
		a[i] = a[i]&^mask | byte(g.rng.Uint32())&mask
	}
	if p.Addr().Is4() {
		return netip.AddrFrom16(a).Unmap()
	}
	return netip.AddrFrom16(a)
}

func pick[T any](g *Generator, from []T) T { return from[g.rng.IntN(len(from))] }

// write turns the draft into bytes and stamps them with id.
func (d *draft) write(g *Generator, id uint32) []byte {
	src, dst := d.v4.Src, d.v4.Dst
	if d.v6.Src.IsValid() {
		src, dst = d.v6.Src, d.v6.Dst
	}
	room := d.entry.MTU - packet.TagLen*max(0, len(d.ethernet.Tags)-1) // the wire carries one tag beyond its MTU
	d.size = min(d.size, room-d.headers())
	upper := d.raw
	if upper == nil {
		upper = g.upper(d, src, dst)
	}
	network := make([]byte, 0, packet.IPv6Len+len(d.chain)+len(upper)+d.pad+40)
	if src.Is4() {
		d.v4.ID, d.v4.Protocol = uint16(id), d.protocol
		network = d.v4.Append(network, upper)
	} else {
		d.v6.Flow = id
		if len(d.chain) == 0 {
			d.v6.NextHeader = d.protocol
		}
		network = d.v6.Append(network, append(d.chain, upper...))
	}
	for range min(d.pad, room-len(network)) {
		network = append(network, byte(g.rng.Uint32()))
	}
	for _, damage := range d.damage {
		network = damage(network)
	}
	if d.cut {
		network = network[:g.rng.IntN(min(len(network), 100))]
	}
	return d.ethernet.Append(make([]byte, 0, packet.EthernetLen+2*packet.TagLen+len(network)), network)
}

// headers is how many bytes stand in front of the upper-layer payload.
func (d *draft) headers() int {
	n := packet.IPv4Len + len(d.v4.Options)
	if d.v6.Src.IsValid() {
		n = packet.IPv6Len + len(d.chain)
	}
	switch d.protocol {
	case packet.ProtoTCP:
		return n + 20
	case packet.ProtoUDP, packet.ProtoICMP, packet.ProtoICMPv6:
		return n + 8
	}
	return n
}

// upper writes the upper-layer message.
func (g *Generator) upper(d *draft, src, dst netip.Addr) []byte {
	payload := make([]byte, d.size)
	g.fill(payload)
	ports := g.rng.Uint32()
	from, to := uint16(ports), uint16(ports>>16)
	switch d.protocol {
	case packet.ProtoUDP:
		b := packet.UDP{SrcPort: from, DstPort: to}.Append(nil, src, dst, payload)
		if d.noSum {
			b[6], b[7] = 0, 0
		}
		return b
	case packet.ProtoTCP:
		flags := pick(g, []uint8{packet.SYN, packet.ACK, packet.SYN | packet.ACK, packet.PSH | packet.ACK, packet.FIN | packet.ACK, packet.RST})
		return packet.TCP{SrcPort: from, DstPort: to, Seq: g.rng.Uint32(), Flags: flags, Window: 8192}.Append(nil, src, dst, payload)
	case packet.ProtoICMP:
		return packet.ICMP{Type: packet.ICMPEcho, Rest: ports}.Append(nil, src, dst, payload)
	case packet.ProtoICMPv6:
		return packet.ICMP{Type: packet.ICMPv6Echo, Rest: ports}.Append(nil, src, dst, payload)
	}
	return payload
}

// fill writes random bytes.
func (g *Generator) fill(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, g.rng.Uint64())
	}
	for i := range b {
		b[i] = byte(g.rng.Uint32())
	}
}
