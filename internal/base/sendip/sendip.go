// SPDX-License-Identifier: Apache-2.0

// Package sendip sends IPv4 packets by one interface to one MAC address, past routes and neighbour entries: to hosts
// that have no address yet, and to groups. Such packets leave by a packet socket, so the packet filter does not see them: what
// may be sent, the caller decides.
package sendip

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Lengths of headers in bytes.
const (
	headerLength = 20
	udpLength    = 8
)

// Packet is what is sent; Payload begins behind the IP header.
type Packet struct {
	Source, Destination netip.Addr
	Protocol            uint8
	TTL                 uint8
	Payload             []byte
}

// Send sends a packet by the interface with an index to a MAC address.
func Send(index int, mac [6]byte, p Packet) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // protocol 0: it hears nothing
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	defer unix.Close(fd)
	to := unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{0x08, 0x00}), Ifindex: index, Halen: 6} // ETH_P_IP, network byte order
	copy(to.Addr[:], mac[:])
	if err := unix.Sendto(fd, p.bytes(), 0, &to); err != nil {
		return fmt.Errorf("send by a packet socket: %w", err)
	}
	return nil
}

// bytes is the packet with its header (RFC 791, section 3.1).
func (p Packet) bytes() []byte {
	b := make([]byte, headerLength, headerLength+len(p.Payload))
	b[0] = 4<<4 | headerLength/4
	b[1] = 0xc0 // precedence 6, control of the network
	binary.BigEndian.PutUint16(b[2:], uint16(headerLength+len(p.Payload)))
	b[6] = 0x40 // don't fragment
	b[8], b[9] = p.TTL, p.Protocol
	copy(b[12:], p.Source.AsSlice())
	copy(b[16:], p.Destination.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^Sum(b))
	return append(b, p.Payload...)
}

// UDP is a packet of UDP between two ports.
func UDP(from, to netip.AddrPort, ttl uint8, data []byte) Packet {
	length := uint16(udpLength + len(data))
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...) // RFC 768
	pseudo = append(pseudo, 0, unix.IPPROTO_UDP)
	pseudo = binary.BigEndian.AppendUint16(pseudo, length)
	b := binary.BigEndian.AppendUint16(nil, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint16(b, length)
	b = append(binary.BigEndian.AppendUint16(b, 0), data...)
	sum := ^Sum(append(pseudo, b...))
	if sum == 0 { // which would say that there is none
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return Packet{Source: from.Addr(), Destination: to.Addr(), Protocol: unix.IPPROTO_UDP, TTL: ttl, Payload: b}
}

// Sum is the sum in ones' complement (RFC 1071). Over bytes with a right checksum it is 0xffff.
func Sum(b []byte) uint16 {
	var n uint32
	for ; len(b) > 1; b = b[2:] {
		n += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		n += uint32(b[0]) << 8
	}
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}
