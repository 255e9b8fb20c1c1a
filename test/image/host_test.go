// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/testing/testimage"
)

// host is all hosts behind a port: it answers for every address that is asked for.
type host struct {
	t    *testing.T
	port *testimage.Port
	name string
	mac  packet.MAC
}

const (
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
	typeARP  = 0x0806
)

// through sends a UDP packet from one host until it comes out to the other, at most
// for as long as a busy machine may need, and checks what the router made of it.
func through(t *testing.T, from, to host, src, dst, gateway, router string) {
	t.Helper()
	sent := datagram(netip.MustParseAddr(src), netip.MustParseAddr(dst))
	kind := uint16(typeIPv4)
	if netip.MustParseAddr(src).Is6() {
		kind = typeIPv6
	}
	frame := packet.Ethernet{Dst: parseMAC(gateway), Src: from.mac, Type: kind}.Append(nil, sent)
	limit := time.Now().Add(testimage.Patience)
	for time.Now().Before(limit) {
		if err := from.port.Send(frame); err != nil {
			t.Fatal(err)
		}
		from.answer(50 * time.Millisecond)
		if got := to.await(dst, 500*time.Millisecond); got != nil {
			want := bytes.Clone(sent)
			hop(want)
			want = packet.Ethernet{Dst: to.mac, Src: parseMAC(router), Type: kind}.Append(nil, want)
			if !bytes.Equal(got, want) {
				t.Errorf("%s → %s came out as\n%x, want\n%x", src, dst, got, want)
			}
			return
		}
	}
	t.Errorf("%s → %s did not come through", src, dst)
}

// datagram is a UDP packet with TTL 64.
func datagram(src, dst netip.Addr) []byte {
	udp := []byte{0x30, 0x39, 0, 9, 0, 0, 0, 0}
	udp = append(udp, "through the router"...)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint16(udp[6:], packet.UpperChecksum(src, dst, 17, udp))
	if src.Is4() {
		return packet.IPv4{TTL: 64, Protocol: 17, Src: src, Dst: dst}.Append(nil, udp)
	}
	b := []byte{0x60, 0, 0, 0, 0, byte(len(udp)), 17, 64}
	return append(append(append(b, src.AsSlice()...), dst.AsSlice()...), udp...)
}

// hop takes one from the TTL, as a router does, and mends the checksum of IPv4.
func hop(b []byte) {
	if b[0]>>4 == 6 {
		b[7]--
		return
	}
	b[8]--
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], packet.Checksum(b[:20]))
}

// await returns the next UDP frame to dst, answering questions for neighbours meanwhile.
func (h host) await(dst string, wait time.Duration) []byte {
	limit := time.Now().Add(wait)
	to := netip.MustParseAddr(dst).AsSlice()
	for {
		frame := h.port.Receive(time.Until(limit))
		if frame == nil {
			return nil
		}
		if h.neighbour(frame) {
			continue
		}
		if len(to) == 4 && len(frame) >= 34 && binary.BigEndian.Uint16(frame[12:]) == typeIPv4 && bytes.Equal(frame[30:34], to) && frame[23] == 17 {
			return frame[:14+binary.BigEndian.Uint16(frame[16:])]
		}
		if len(to) == 16 && len(frame) >= 54 && binary.BigEndian.Uint16(frame[12:]) == typeIPv6 && bytes.Equal(frame[38:54], to) && frame[20] == 17 {
			return frame[:54+binary.BigEndian.Uint16(frame[18:])]
		}
	}
}

// answer answers questions for neighbours for a while.
func (h host) answer(wait time.Duration) { h.await("0.0.0.0", wait) }

// neighbour answers a frame that asks for a neighbour.
func (h host) neighbour(frame []byte) bool {
	switch {
	case len(frame) >= 42 && binary.BigEndian.Uint16(frame[12:]) == typeARP && frame[21] == 1:
		reply := bytes.Clone(frame[14:42])
		reply[7] = 2
		copy(reply[8:], h.mac[:])
		copy(reply[14:], frame[38:42])
		copy(reply[18:], frame[22:32])
		copy(reply[24:], frame[28:32])
		h.send(packet.Ethernet{Dst: packet.MAC(frame[6:12]), Src: h.mac, Type: typeARP}.Append(nil, reply))
		return true
	case len(frame) >= 78 && binary.BigEndian.Uint16(frame[12:]) == typeIPv6 && frame[20] == 58 && frame[54] == 135:
		h.advertise(frame)
		return true
	}
	return false
}

// advertise answers a neighbour solicitation (RFC 4861 4.4). One from nobody asks
// whether an address is taken: it is not.
func (h host) advertise(frame []byte) {
	src, _ := netip.AddrFromSlice(frame[22:38])
	target, _ := netip.AddrFromSlice(frame[62:78])
	if src.IsUnspecified() {
		return
	}
	icmp := append([]byte{136, 0, 0, 0, 0x60, 0, 0, 0}, target.AsSlice()...)
	icmp = append(append(icmp, 2, 1), h.mac[:]...)
	binary.BigEndian.PutUint16(icmp[2:], packet.UpperChecksum(target, src, 58, icmp))
	b := []byte{0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 255}
	b = append(append(append(b, target.AsSlice()...), src.AsSlice()...), icmp...)
	h.send(packet.Ethernet{Dst: packet.MAC(frame[6:12]), Src: h.mac, Type: typeIPv6}.Append(nil, b))
}

func (h host) send(frame []byte) {
	if err := h.port.Send(frame); err != nil {
		h.t.Errorf("%s: %v", h.name, err)
	}
}
