// SPDX-License-Identifier: Apache-2.0

// Package packet builds Ethernet frames with IPv4 and IPv6 inside, for tests and
// for the lab.
//
// A header is a plain struct whose Append writes it in front of its payload with
// right lengths and checksums. Broken packets are made by damaging a right one:
// no builder has a switch for a wrong length. The seeded Generator does that at
// scale: valid traffic and structured damage for a router that it is told of.
//
// All multi-byte fields are in network byte order on the wire and plain
// integers in the structs.
package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String is the usual form with colons.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Group tells whether m is a multicast or broadcast address (IEEE 802: the I/G bit).
func (m MAC) Group() bool { return m[0]&1 != 0 }

// BroadcastMAC is the address of every station.
var BroadcastMAC = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// EtherTypes.
const (
	TypeIPv4 = 0x0800
	TypeARP  = 0x0806
	TypeVLAN = 0x8100 // IEEE 802.1Q customer tag
	TypeQinQ = 0x88a8 // IEEE 802.1ad service tag
	TypeIPv6 = 0x86dd
)

// IP protocol numbers and IPv6 next headers.
const (
	ProtoHopByHop = 0
	ProtoICMP     = 1
	ProtoTCP      = 6
	ProtoUDP      = 17
	ProtoRouting  = 43
	ProtoFragment = 44
	ProtoGRE      = 47
	ProtoESP      = 50
	ProtoAH       = 51
	ProtoICMPv6   = 58
	ProtoNoNext   = 59
	ProtoDestOpts = 60
)

// Header lengths in bytes.
const (
	EthernetLen = 14
	TagLen      = 4
	IPv4Len     = 20 // without options
	IPv6Len     = 40
)

// Tag is one VLAN tag.
type Tag struct {
	Type uint16 // TypeVLAN or TypeQinQ
	TCI  uint16 // priority (3 bits), drop eligible (1), VLAN id (12)
}

// Ethernet is the link-layer header, with the outermost tag first.
type Ethernet struct {
	Dst, Src MAC
	Tags     []Tag
	Type     uint16
}

// Append writes the header and the payload behind it to b.
func (e Ethernet) Append(b, payload []byte) []byte {
	b = append(b, e.Dst[:]...)
	b = append(b, e.Src[:]...)
	for _, t := range e.Tags {
		b = binary.BigEndian.AppendUint16(b, t.Type)
		b = binary.BigEndian.AppendUint16(b, t.TCI)
	}
	b = binary.BigEndian.AppendUint16(b, e.Type)
	return append(b, payload...)
}

// Flags and the offset mask of the IPv4 fragment field (RFC 791 3.1).
const (
	ReservedFlag  = 0x8000
	DontFragment  = 0x4000
	MoreFragments = 0x2000
	OffsetMask    = 0x1fff // in units of 8 bytes
)

// IPv4 is the IPv4 header (RFC 791). Length fields and checksum are computed.
type IPv4 struct {
	TOS      uint8
	ID       uint16
	Fragment uint16 // flags and offset
	TTL      uint8
	Protocol uint8
	Src, Dst netip.Addr
	Options  []byte // a multiple of 4 bytes, at most 40
}

// Append writes the header and the payload behind it to b.
func (h IPv4) Append(b, payload []byte) []byte {
	length := IPv4Len + len(h.Options)
	at := len(b)
	b = append(b, 0x40|uint8(length/4), h.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(length+len(payload)))
	b = binary.BigEndian.AppendUint16(b, h.ID)
	b = binary.BigEndian.AppendUint16(b, h.Fragment)
	b = append(b, h.TTL, h.Protocol, 0, 0)
	b = append(b, h.Src.AsSlice()...)
	b = append(b, h.Dst.AsSlice()...)
	b = append(b, h.Options...)
	binary.BigEndian.PutUint16(b[at+10:], Checksum(b[at:]))
	return append(b, payload...)
}

// IPv6 is the IPv6 header (RFC 8200). The payload length is computed.
type IPv6 struct {
	Class      uint8
	Flow       uint32 // 20 bits
	NextHeader uint8
	HopLimit   uint8
	Src, Dst   netip.Addr
}

// Append writes the header and the payload (extension headers included) behind it to b.
func (h IPv6) Append(b, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(h.Class)<<20|h.Flow&0xfffff)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, h.NextHeader, h.HopLimit)
	b = append(b, h.Src.AsSlice()...)
	b = append(b, h.Dst.AsSlice()...)
	return append(b, payload...)
}

// UDP is the UDP header (RFC 768). Length and checksum are computed.
type UDP struct {
	SrcPort, DstPort uint16
}

// Append writes the datagram from src to dst to b.
func (h UDP) Append(b []byte, src, dst netip.Addr, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, h.SrcPort)
	b = binary.BigEndian.AppendUint16(b, h.DstPort)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0, 0)
	b = append(b, payload...)
	sum := UpperChecksum(src, dst, ProtoUDP, b[at:])
	if sum == 0 {
		sum = 0xffff // zero means "no checksum" (RFC 768)
	}
	binary.BigEndian.PutUint16(b[at+6:], sum)
	return b
}

// TCP flags.
const (
	FIN = 0x01
	SYN = 0x02
	RST = 0x04
	PSH = 0x08
	ACK = 0x10
)

// TCP is the TCP header without options (RFC 9293).
type TCP struct {
	SrcPort, DstPort uint16
	Seq, Ack         uint32
	Flags            uint8
	Window           uint16
}

// Append writes the segment from src to dst to b.
func (h TCP) Append(b []byte, src, dst netip.Addr, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, h.SrcPort)
	b = binary.BigEndian.AppendUint16(b, h.DstPort)
	b = binary.BigEndian.AppendUint32(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Ack)
	b = append(b, 5<<4, h.Flags)
	b = binary.BigEndian.AppendUint16(b, h.Window)
	b = append(b, 0, 0, 0, 0)
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[at+16:], UpperChecksum(src, dst, ProtoTCP, b[at:]))
	return b
}

// ICMP message types that the tests use (RFC 792, RFC 4443).
const (
	ICMPEchoReply      = 0
	ICMPUnreachable    = 3
	ICMPRedirect       = 5
	ICMPEcho           = 8
	ICMPTimeExceeded   = 11
	ICMPv6Unreachable  = 1
	ICMPv6TooBig       = 2
	ICMPv6TimeExceeded = 3
	ICMPv6Echo         = 128
	ICMPv6EchoReply    = 129
	ICMPv6Solicit      = 135
	ICMPv6Advert       = 136
)

// ICMP is the header of an ICMP or ICMPv6 message.
type ICMP struct {
	Type, Code uint8
	Rest       uint32 // identifier and sequence of an echo, MTU of a too-big
}

// Append writes the message from src to dst to b. The addresses' family chooses
// ICMP or ICMPv6, whose checksum covers a pseudo header.
func (h ICMP) Append(b []byte, src, dst netip.Addr, payload []byte) []byte {
	at := len(b)
	b = append(b, h.Type, h.Code, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.Rest)
	b = append(b, payload...)
	sum := Checksum(b[at:])
	if src.Is6() {
		sum = UpperChecksum(src, dst, ProtoICMPv6, b[at:])
	}
	binary.BigEndian.PutUint16(b[at+2:], sum)
	return b
}

// NetworkOffset is where the network header of an Ethernet frame begins, behind
// all VLAN tags, and the EtherType in front of it. ok is false when the frame
// ends before.
func NetworkOffset(frame []byte) (offset int, etherType uint16, ok bool) {
	for offset = EthernetLen; offset <= len(frame); offset += TagLen {
		etherType = binary.BigEndian.Uint16(frame[offset-2:])
		if etherType != TypeVLAN && etherType != TypeQinQ {
			return offset, etherType, true
		}
	}
	return 0, 0, false
}
