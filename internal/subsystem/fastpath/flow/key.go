// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Key names one direction of a flow: what its packets carry as they come in.
type Key struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	// Ports, 0 for protocols without. The id of an ICMP echo stands in both, in both directions.
	SourcePort      uint16 `json:"source_port,omitempty"`
	DestinationPort uint16 `json:"destination_port,omitempty"`
	Zone            uint16 `json:"zone"` // of conntrack: the number of a VRF's table, 0 for the main table
	Protocol        uint8  `json:"protocol"`
	// EchoReply says that the packets are an echo's replies: two hosts may ask each other with the same id at the same time.
	EchoReply bool `json:"echo_reply,omitempty"`
}

// Reply is the key of packets that answer k in the given zone, when nothing is translated and it is no echo.
func (k Key) Reply(zone uint16) Key {
	return Key{Source: k.Destination, Destination: k.Source, SourcePort: k.DestinationPort, DestinationPort: k.SourcePort, Zone: zone, Protocol: k.Protocol}
}

func (k Key) String() string {
	return fmt.Sprintf("%d %v > %v zone %d", k.Protocol,
		netip.AddrPortFrom(k.Source, k.SourcePort), netip.AddrPortFrom(k.Destination, k.DestinationPort), k.Zone)
}

// echoReply stands beside the family in the key of an echo's replies (FOLLOWED_ECHO_REPLY).
const echoReply = 0x80

// rawKey is struct flow_key of bpf/flow_hash.h: source, destination, the rest.
type rawKey [5]uint64

func rawAddr(a netip.Addr) (first, second uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.NativeEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:])
}

func addrOf(first, second uint64, family uint64) netip.Addr {
	if family == 4 {
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], uint32(second))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:], first)
	binary.NativeEndian.PutUint64(b[8:], second)
	return netip.AddrFrom16(b)
}

// wire16 turns a port into the number that the program loads from a packet, and back.
func wire16(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

func (k Key) raw() (r rawKey) {
	family := uint64(6)
	if k.Source.Is4() {
		family = 4
	}
	if k.EchoReply {
		family |= echoReply
	}
	r[0], r[1] = rawAddr(k.Source)
	r[2], r[3] = rawAddr(k.Destination)
	r[4] = uint64(wire16(k.SourcePort)) | uint64(wire16(k.DestinationPort))<<16 |
		uint64(k.Zone)<<32 | uint64(k.Protocol)<<48 | family<<56
	return r
}

// Words is the key as the program has it (struct flow_key of bpf/flow_hash.h).
func (k Key) Words() [5]uint64 { return k.raw() }

// KeyOfWords is the key of which these are the Words.
func KeyOfWords(words [5]uint64) Key {
	r := rawKey(words)
	return r.key()
}

func (r *rawKey) key() Key {
	family := r[4] >> 56 &^ echoReply
	return Key{
		Source: addrOf(r[0], r[1], family), Destination: addrOf(r[2], r[3], family),
		SourcePort: wire16(uint16(r[4])), DestinationPort: wire16(uint16(r[4] >> 16)),
		Zone: uint16(r[4] >> 32), Protocol: uint8(r[4] >> 48), EchoReply: r[4]>>56&echoReply != 0,
	}
}
