// SPDX-License-Identifier: Apache-2.0

package testframes

import (
	"bytes"
	"encoding/binary"

	"minne/internal/model/packet"
)

// Stamp writes id where no router changes it: into the identification field of
// an IPv4 header (16 bits) or the flow label of an IPv6 header (20 bits). A right
// header checksum stays right and a wrong one wrong (RFC 1624). Frames too short
// for the field, and other protocols, stay as they are.
func Stamp(frame []byte, id uint32) {
	at, etherType, ok := packet.NetworkOffset(frame)
	if !ok {
		return
	}
	b := frame[at:]
	switch {
	case etherType == packet.TypeIPv4 && len(b) >= 12:
		old := uint32(binary.BigEndian.Uint16(b[4:]))
		sum := uint32(^binary.BigEndian.Uint16(b[10:])) + (^old & 0xffff) + id&0xffff
		binary.BigEndian.PutUint16(b[4:], uint16(id))
		binary.BigEndian.PutUint16(b[10:], packet.Fold(sum))
	case etherType == packet.TypeIPv6 && len(b) >= 4:
		word := binary.BigEndian.Uint32(b)
		binary.BigEndian.PutUint32(b, word&^0xfffff|id&0xfffff)
	}
}

// StampOf reads what Stamp wrote.
func StampOf(frame []byte) (id uint32, ok bool) {
	at, etherType, ok := packet.NetworkOffset(frame)
	if !ok {
		return 0, false
	}
	b := frame[at:]
	switch {
	case etherType == packet.TypeIPv4 && len(b) >= 12:
		return uint32(binary.BigEndian.Uint16(b[4:])), true
	case etherType == packet.TypeIPv6 && len(b) >= 4:
		return binary.BigEndian.Uint32(b) & 0xfffff, true
	}
	return 0, false
}

// Match finds the sample that a frame is the forwarded form of: the same stamp, addresses and family, whatever
// tags and session they are in. Samples are numbered without gaps.
func Match(samples []Sample, frame []byte) (int, bool) {
	frame = outOfSession(frame)
	id, ok := StampOf(frame)
	if !ok || len(samples) == 0 {
		return 0, false
	}
	i := int(uint64(id)-samples[0].Number) & 0xffff
	if i >= len(samples) || !sameAddresses(outOfSession(samples[i].Frame), frame) {
		return 0, false
	}
	return i, true
}

// sameAddresses compares the network addresses of two frames, fragments included.
func sameAddresses(a, b []byte) bool {
	x, kindX, okX := packet.NetworkOffset(a)
	y, kindY, okY := packet.NetworkOffset(b)
	if !okX || !okY || kindX != kindY {
		return false
	}
	from, to := 12, 20
	if kindX == packet.TypeIPv6 {
		from, to = 8, 40
	}
	return len(a) >= x+to && len(b) >= y+to && bytes.Equal(a[x+from:x+to], b[y+from:y+to])
}

// outOfSession is a frame without the header of a PPPoE session, whatever that says: the packet behind tells its family.
func outOfSession(frame []byte) []byte {
	at, kind, ok := packet.NetworkOffset(frame)
	if !ok || kind != packet.TypeSession || len(frame) <= at+packet.SessionLen {
		return frame
	}
	inner := frame[at+packet.SessionLen:]
	kind = packet.TypeIPv4
	if inner[0]>>4 == 6 {
		kind = packet.TypeIPv6
	}
	return packet.Ethernet{Type: kind}.Append(nil, inner)
}
