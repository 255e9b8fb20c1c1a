// SPDX-License-Identifier: Apache-2.0

package testframes

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"minne/internal/model/packet"
)

// change is one way in which a generated frame differs from plain traffic.
type change struct {
	name string
	edit func(*Generator, *draft)
}

// both are the changes that IPv4 and IPv6 share.
var both = []change{
	{"ttl", func(g *Generator, d *draft) {
		ttl := pick(g, []uint8{0, 1, 1, 2, 255})
		d.v4.TTL, d.v6.HopLimit = ttl, ttl
	}},
	{"special-destination", func(g *Generator, d *draft) { d.setAddresses(netip.Addr{}, pick(g, g.world.Specials)) }},
	{"special-source", func(g *Generator, d *draft) { d.setAddresses(pick(g, g.world.Specials), netip.Addr{}) }},
	{"foreign-source", func(g *Generator, d *draft) { d.setAddresses(g.destination(), netip.Addr{}) }},
	{"other-side-source", func(g *Generator, d *draft) {
		d.setAddresses(g.within(pick(g, pick(g, g.world.Entries).Sources)), netip.Addr{})
	}},
	{"station", func(g *Generator, d *draft) {
		other := pick(g, g.world.Entries).MAC
		d.ethernet.Dst = pick(g, []packet.MAC{other, {2, 0xaa, 1, 2, 3, 4}, {}, packet.BroadcastMAC, {1, 0, 0x5e, 0, 0, 1}, {0x33, 0x33, 0, 0, 0, 1}})
	}},
	{"tags", func(g *Generator, d *draft) {
		for range 1 + g.rng.IntN(2) {
			tag := packet.Tag{Type: pick(g, []uint16{packet.TypeVLAN, packet.TypeVLAN, packet.TypeQinQ}), TCI: pick(g, []uint16{0, 0xe000, 1, 100, 0x6064, 0xfff})}
			d.ethernet.Tags = append(d.ethernet.Tags, tag)
		}
	}},
	{"ethertype", func(g *Generator, d *draft) {
		d.ethernet.Type = pick(g, []uint16{packet.TypeIPv4, packet.TypeIPv6, packet.TypeARP, 0x0842, 0x8847, 0x88cc, 0x0040, 0xffff})
	}},
	{"truncated", func(g *Generator, d *draft) { d.cut = true }},
	{"padding", func(g *Generator, d *draft) { d.pad = 1 + g.rng.IntN(60) }},
	{"version", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			b[0] = b[0]&0xf | uint8(g.rng.IntN(16))<<4
			return repair(g, b)
		})
	}},
	{"bit-flip", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			i := g.rng.IntN(min(len(b), 60))
			if isStamp(b, i) {
				return b
			}
			b[i] ^= 1 << g.rng.IntN(8)
			return repair(g, b)
		})
	}},
	{"at-mtu", func(g *Generator, d *draft) { d.resize(pick(g, g.world.EgressMTUs) + g.rng.IntN(5) - 2) }},
	{"jumbo", func(g *Generator, d *draft) { d.resize(1501 + g.rng.IntN(7500)) }},
	{"no-checksum", func(g *Generator, d *draft) { d.protocol, d.noSum = packet.ProtoUDP, true }},
	{"icmp-error", icmpError},
	{"short-upper-layer", func(g *Generator, d *draft) { d.raw = make([]byte, g.rng.IntN(8)) }},
	{"protocol", func(g *Generator, d *draft) { d.protocol = uint8(g.rng.Uint32()) }},
}

var changes4 = slices.Concat(both, []change{
	{"options", func(g *Generator, d *draft) { d.v4.Options = pick(g, options) }},
	{"fragment", func(g *Generator, d *draft) {
		offset := uint16(1 + g.rng.IntN(packet.OffsetMask))
		d.v4.Fragment = pick(g, []uint16{packet.MoreFragments, packet.MoreFragments | offset, offset, packet.DontFragment | packet.MoreFragments,
			packet.DontFragment | offset, packet.ReservedFlag, packet.ReservedFlag | packet.DontFragment, 0, packet.DontFragment})
	}},
	{"bad-checksum", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			sum := pick(g, []uint16{0, 0xffff, binary.BigEndian.Uint16(b[10:]) + 1, uint16(g.rng.Uint32())})
			binary.BigEndian.PutUint16(b[10:], sum)
			return b
		})
	}},
	{"checksum-corner", checksumCorner},
	{"header-length", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			b[0] = 0x40 | uint8(g.rng.IntN(16))
			return repair(g, b)
		})
	}},
	{"length", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			n := binary.BigEndian.Uint16(b[2:])
			n = pick(g, []uint16{0, 19, 20, 21, n - 1, n + 1, n + 8, n - uint16(g.rng.IntN(int(n)+1)), 0xffff, uint16(g.rng.Uint32())})
			binary.BigEndian.PutUint16(b[2:], n)
			return repair(g, b)
		})
	}},
})

var changes6 = slices.Concat(both, []change{
	{"extension-headers", func(g *Generator, d *draft) { d.addChain(g, 1) }},
	{"header-chain", func(g *Generator, d *draft) { d.addChain(g, 2+g.rng.IntN(3)) }},
	{"length", func(g *Generator, d *draft) {
		d.damage = append(d.damage, func(b []byte) []byte {
			n := binary.BigEndian.Uint16(b[4:])
			n = pick(g, []uint16{0, 1, n - 1, n + 1, n + 8, n - uint16(g.rng.IntN(int(n)+1)), 0xffff, uint16(g.rng.Uint32())})
			binary.BigEndian.PutUint16(b[4:], n)
			return b
		})
	}},
})

// options are IPv4 option lists (RFC 791 3.1, RFC 2113).
var options = [][]byte{
	{1, 1, 1, 1},
	{1, 1, 1, 0},
	{0, 0, 0, 0},
	{148, 4, 0, 0},                                // router alert
	{7, 7, 4, 0, 0, 0, 0, 0},                      // record route
	{68, 8, 5, 0, 0, 0, 0, 0},                     // timestamp
	{131, 7, 4, 198, 51, 100, 1, 0},               // loose source route
	{137, 7, 4, 198, 51, 100, 1, 0},               // strict source route
	{7, 3, 4, 0},                                  // record route without room
	{130, 255, 0, 0},                              // longer than the header
	slices.Repeat([]byte{1, 1, 1, 1}, 10),         // as many as fit
	{222, 4, 1, 2},                                // unassigned
	append([]byte{7, 39, 4}, make([]byte, 37)...), // record route of nine
}

// setAddresses replaces the addresses that are given and of the packet's family.
func (d *draft) setAddresses(src, dst netip.Addr) {
	if src.IsValid() {
		if src.Is4() {
			d.v4.Src = src
		} else {
			d.v6.Src = src
		}
	}
	if dst.IsValid() {
		if dst.Is4() {
			d.v4.Dst = dst
		} else {
			d.v6.Dst = dst
		}
	}
}

// resize makes the network packet that many bytes long, or as long as its wire carries.
func (d *draft) resize(length int) {
	d.protocol = packet.ProtoUDP
	d.size = max(0, length-d.headers())
}

// isStamp tells whether byte i of the network header belongs to the stamp.
func isStamp(b []byte, i int) bool {
	if b[0]>>4 == 6 {
		return i >= 1 && i < 4
	}
	return i == 4 || i == 5
}

// repair makes the IPv4 header checksum right again for half of the packets, so
// that the change before is not hidden behind it.
func repair(g *Generator, b []byte) []byte {
	header := int(b[0]&0xf) * 4
	if b[0]>>4 == 6 || header < packet.IPv4Len || header > len(b) || g.rng.IntN(2) == 0 {
		return b
	}
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], packet.Checksum(b[:header]))
	return b
}

// checksumCorner chooses the source's low 16 bits so that the header checksum is
// one of those around which incremental updates go wrong (RFC 1624 3), in both of
// the forms that zero has.
func checksumCorner(g *Generator, d *draft) {
	want := pick(g, []uint16{0, 0xffff, 0xfeff, 0xff00, 0xfefe, 0xfffe, 0x0100})
	d.damage = append(d.damage, func(b []byte) []byte {
		header := int(b[0]&0xf) * 4
		if header < packet.IPv4Len || header > len(b) {
			return b
		}
		binary.BigEndian.PutUint16(b[14:], 0)
		binary.BigEndian.PutUint16(b[10:], want)
		binary.BigEndian.PutUint16(b[14:], packet.Checksum(b[:header]))
		return b
	})
}

// icmpError makes the packet an ICMP error that quotes a packet of the other direction.
func icmpError(g *Generator, d *draft) {
	quoted := []byte{0x12, 0x34, 0, 53, 0, 24, 0, 0}
	if d.v6.Src.IsValid() {
		inner := packet.IPv6{NextHeader: packet.ProtoUDP, HopLimit: 3, Src: d.v6.Dst, Dst: d.v6.Src}.Append(nil, quoted)
		kind := pick(g, []uint8{packet.ICMPv6Unreachable, packet.ICMPv6TooBig, packet.ICMPv6TimeExceeded, 4, 137})
		d.protocol, d.raw = packet.ProtoICMPv6, packet.ICMP{Type: kind, Rest: 1280}.Append(nil, d.v6.Src, d.v6.Dst, inner)
		return
	}
	inner := packet.IPv4{TTL: 3, Protocol: packet.ProtoUDP, Src: d.v4.Dst, Dst: d.v4.Src}.Append(nil, quoted)
	kind := pick(g, []uint8{packet.ICMPUnreachable, packet.ICMPTimeExceeded, packet.ICMPRedirect, 12})
	d.protocol, d.raw = packet.ProtoICMP, packet.ICMP{Type: kind, Code: 4, Rest: 1400}.Append(nil, d.v4.Src, d.v4.Dst, inner)
}

// addChain puts n extension headers in front of the upper layer (RFC 8200 4).
func (d *draft) addChain(g *Generator, n int) {
	kinds := []uint8{packet.ProtoHopByHop, packet.ProtoRouting, packet.ProtoFragment, packet.ProtoDestOpts, packet.ProtoAH, 135, 139, 140, 253}
	next := d.protocol
	for range n {
		kind := pick(g, kinds)
		d.chain = append(extension(g, kind, next), d.chain...)
		next = kind
	}
	d.v6.NextHeader = next
	if g.rng.IntN(8) == 0 {
		d.chain = d.chain[:g.rng.IntN(len(d.chain))+1]
		d.raw = []byte{}
	}
}

// extension is one extension header that announces next.
func extension(g *Generator, kind, next uint8) []byte {
	switch kind {
	case packet.ProtoRouting:
		b := make([]byte, 24)
		b[0], b[1], b[2], b[3] = next, 2, pick(g, []uint8{0, 2, 3, 4}), uint8(g.rng.IntN(2))
		return b
	case packet.ProtoFragment:
		b := []byte{next, 0, 0, 0, 0, 0, 0, 9}
		binary.BigEndian.PutUint16(b[2:], pick(g, []uint16{0, 1, 1480, 1480 | 1}))
		return b
	case packet.ProtoAH:
		b := make([]byte, 24)
		b[0], b[1] = next, 4
		return b
	}
	b := []byte{next, 0, 1, 4, 0, 0, 0, 0} // PadN
	if kind == packet.ProtoHopByHop {
		return pick(g, [][]byte{b, {next, 0, 5, 2, 0, 0, 1, 0}, {next, 0, 0xc2, 4, 0, 1, 0, 0}, {next, 0, 0x80, 4, 0, 0, 0, 0}, {next, 9, 1, 4, 0, 0, 0, 0}})
	}
	if g.rng.IntN(6) == 0 {
		b[1] = uint8(g.rng.IntN(256))
	}
	return b
}
