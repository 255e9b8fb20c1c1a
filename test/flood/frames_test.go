// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"minne/internal/lab/traffic"
	"minne/internal/model/packet"
)

// Streams of a flood: who the frames are for.
const (
	toRouter = iota
	toAll
)

// flood makes random frames as somebody beyond a neighbour, or on its cable, could send them to the
// router: none of them is meant to arrive anywhere. The same seed makes the same flood.
type flood struct {
	*rand.Rand
	neighbour
	others netip.Prefix // a network behind the router's other port
}

// frames are as many as a generator holds.
func (f flood) frames() []traffic.Recorded {
	all := make([]traffic.Recorded, traffic.MaxReplay)
	kinds := []func() (stream uint8, frame []byte){f.syn, f.ack, f.udp, f.ping, f.arp, f.fragment, f.expired, f.scan, f.discovery}
	for i := range all {
		stream, frame := kinds[i%len(kinds)]()
		frame = append(frame, make([]byte, max(0, 60-len(frame)))...)
		all[i] = traffic.Recorded{Stream: stream, Frame: frame}
	}
	return all
}

// source is forged: anything that can be an address of the Internet.
func (f flood) source() netip.Addr {
	b := binary.BigEndian.AppendUint32(nil, f.Uint32())
	b[0] = 11 + b[0]%100
	return netip.AddrFrom4([4]byte(b))
}

func (f flood) port() uint16 { return uint16(f.Uint32()) }

// well is a port of the router on which something may listen.
func (f flood) well() uint16 { return []uint16{22, 179, 53, 80, 2601, 3784, f.port()}[f.IntN(7)] }

// ipv4 is a packet to the router, or to where it leads.
func (f flood) ipv4(dst netip.Addr, protocol uint8, ttl uint8, fragment uint16, payload func(src, dst netip.Addr) []byte) (uint8, []byte) {
	src := f.source()
	h := packet.IPv4{TTL: ttl, Protocol: protocol, Fragment: fragment, ID: f.port(), Src: src, Dst: dst}
	// The generator writes the MACs.
	return toRouter, packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, h.Append(nil, payload(src, dst)))
}

func (f flood) segment(flags uint8) (uint8, []byte) {
	h := packet.TCP{SrcPort: f.port(), DstPort: f.well(), Seq: f.Uint32(), Ack: f.Uint32(), Flags: flags, Window: 512}
	return f.ipv4(f.router, packet.ProtoTCP, 64, 0, func(src, dst netip.Addr) []byte { return h.Append(nil, src, dst, nil) })
}

func (f flood) syn() (uint8, []byte) { return f.segment(packet.SYN) }
func (f flood) ack() (uint8, []byte) { return f.segment(packet.ACK) }

func (f flood) datagram(src, dst netip.Addr) []byte {
	return packet.UDP{SrcPort: f.port(), DstPort: f.well()}.Append(nil, src, dst, make([]byte, 18))
}

func (f flood) udp() (uint8, []byte) { return f.ipv4(f.router, packet.ProtoUDP, 64, 0, f.datagram) }

func (f flood) ping() (uint8, []byte) {
	return f.ipv4(f.router, packet.ProtoICMP, 64, 0, func(src, dst netip.Addr) []byte {
		return packet.ICMP{Type: packet.ICMPEcho, Rest: f.Uint32()}.Append(nil, src, dst, make([]byte, 18))
	})
}

// fragment is the first or a later one, which the kernel has to keep for the rest.
func (f flood) fragment() (uint8, []byte) {
	return f.ipv4(f.router, packet.ProtoUDP, 64, []uint16{packet.MoreFragments, 3, packet.MoreFragments | 3}[f.IntN(3)], f.datagram)
}

// expired ends here: the kernel tells the sender.
func (f flood) expired() (uint8, []byte) {
	return f.ipv4(f.host(f.others), packet.ProtoUDP, 1, 0, f.datagram)
}

// scan goes to hosts that don't exist: the kernel asks for their MACs.
func (f flood) scan() (uint8, []byte) {
	return f.ipv4(f.host(f.others), packet.ProtoUDP, 64, 0, f.datagram)
}

// host is one that is not there.
func (f flood) host(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	b[3] = byte(3 + f.IntN(250))
	return netip.AddrFrom4(b)
}

// arp asks for the router or another host, or answers what nobody asked.
func (f flood) arp() (uint8, []byte) {
	operation, stream := byte(1), uint8(toAll)
	if f.IntN(2) == 0 {
		operation, stream = 2, toRouter
	}
	target := f.router
	if f.IntN(2) == 0 {
		target = f.host(netip.PrefixFrom(f.router, 24).Masked())
	}
	sender := f.host(netip.PrefixFrom(f.router, 24).Masked())
	b := []byte{0, 1, 8, 0, 6, 4, 0, operation, 2, byte(f.Uint32()), byte(f.Uint32()), byte(f.Uint32()), byte(f.Uint32()), 1}
	b = append(append(b, sender.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return stream, packet.Ethernet{Type: packet.TypeARP}.Append(nil, append(b, target.AsSlice()...))
}

// discovery is ARP's twin of IPv6, to all nodes.
func (f flood) discovery() (uint8, []byte) {
	var a [16]byte
	copy(a[:], []byte{0xfe, 0x80})
	binary.BigEndian.PutUint64(a[8:], f.Uint64())
	src, dst := netip.AddrFrom16(a), netip.MustParseAddr("ff02::1")
	m := packet.ICMP{Type: packet.ICMPv6Solicit}.Append(nil, src, dst, append(a[:], 1, 1, 2, 0, 0, 0, 0, byte(f.Uint32())))
	h := packet.IPv6{NextHeader: packet.ProtoICMPv6, HopLimit: 255, Src: src, Dst: dst}
	return toAll, packet.Ethernet{Type: packet.TypeIPv6}.Append(nil, h.Append(nil, m))
}
