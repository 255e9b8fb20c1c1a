// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Lengths of headers, in bytes.
const (
	ethernetHeader = 14
	ipv4Header     = 20
	ipv6Header     = 40
	udpHeader      = 8
	tcpHeader      = 20
)

// fillerBytes is what follows the stamp, by its place in the frame.
var fillerBytes = sync.OnceValue(func() []byte {
	bytes, _ := filler()
	return bytes[:]
})

// write writes the frame of a packet that was checked to b, which is as long as that.
func (p Packet) write(b []byte, route Route, ttl uint8, sequence uint64, sent time.Duration, filled bool) {
	ttl = cmp.Or(ttl, defaultTTL)
	copy(b, route.To)
	copy(b[6:], route.From)
	var upper []byte
	var sum uint64 // of the pseudo header (RFC 768, RFC 8200 section 8.1)
	if p.Source.Is4() {
		upper, sum = p.putIPv4(b, ttl)
	} else {
		upper, sum = p.putIPv6(b, ttl)
	}
	header := udpHeader
	if p.Protocol == unix.IPPROTO_TCP {
		header = tcpHeader
	}
	PutStamp(upper[header:], p.Stream, sequence, sent)
	rest := upper[header+StampBytes:]
	copy(rest, fillerBytes()[len(b)-len(rest):])
	p.putUpper(upper, sequence, sum+uint64(len(upper))+uint64(p.Protocol), filled)
}

// putIPv4 writes the Ethernet type and the IPv4 header; it returns what follows and the sum of the addresses.
func (p Packet) putIPv4(b []byte, ttl uint8) (upper []byte, sum uint64) {
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[ethernetHeader:]
	binary.BigEndian.PutUint32(ip, 0x45000000|uint32(len(ip)))
	binary.BigEndian.PutUint32(ip[4:], 0x4000) // don't fragment
	binary.BigEndian.PutUint32(ip[8:], uint32(ttl)<<24|uint32(p.Protocol)<<16)
	putAddress(ip[12:], p.Source)
	putAddress(ip[16:], p.Destination)
	binary.BigEndian.PutUint16(ip[10:], ^fold(words(ip[:ipv4Header])))
	return ip[ipv4Header:], words(ip[12:ipv4Header])
}

// putIPv6 writes the Ethernet type and the IPv6 header; it returns what follows and the sum of the addresses.
func (p Packet) putIPv6(b []byte, ttl uint8) (upper []byte, sum uint64) {
	binary.BigEndian.PutUint16(b[12:], 0x86dd)
	ip := b[ethernetHeader:]
	binary.BigEndian.PutUint32(ip, 0x60000000)
	binary.BigEndian.PutUint32(ip[4:], uint32(len(ip)-ipv6Header)<<16|uint32(p.Protocol)<<8|uint32(ttl))
	putAddress(ip[8:], p.Source)
	putAddress(ip[24:], p.Destination)
	return ip[ipv6Header:], words(ip[8:ipv6Header])
}

func putAddress(b []byte, a netip.Addr) {
	if a.Is4() {
		v := a.As4()
		copy(b, v[:])
		return
	}
	v := a.As16()
	copy(b, v[:])
}

// putUpper writes the UDP or TCP header before the payload; sum is that of the pseudo header.
func (p Packet) putUpper(b []byte, sequence uint64, sum uint64, filled bool) {
	binary.BigEndian.PutUint16(b, p.SourcePort)
	binary.BigEndian.PutUint16(b[2:], p.DestinationPort)
	check := b[6:8]
	if p.Protocol == unix.IPPROTO_TCP { // a SYN (RFC 9293 section 3.1)
		binary.BigEndian.PutUint32(b[4:], uint32(sequence))
		binary.BigEndian.PutUint32(b[8:], 0)
		binary.BigEndian.PutUint32(b[12:], 0x5002ffff)
		binary.BigEndian.PutUint32(b[16:], 0)
		check = b[16:18]
	} else {
		binary.BigEndian.PutUint32(b[4:], uint32(len(b))<<16)
		if p.Source.Is4() && !filled {
			return
		}
	}
	sum16 := ^fold(sum + words(b))
	if sum16 == 0 { // would say that there is none (RFC 768)
		sum16 = 0xffff
	}
	binary.BigEndian.PutUint16(check, sum16)
}

// words adds the 16-bit words of b; an odd last byte is the first of a word (RFC 1071).
func words(b []byte) (sum uint64) {
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(binary.BigEndian.Uint32(b)) // its halves are added up by fold
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

// fold turns a sum into 16 bits.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
