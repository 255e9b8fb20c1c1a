// SPDX-License-Identifier: Apache-2.0

package testframes

import (
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
