// SPDX-License-Identifier: Apache-2.0

package packet

import "encoding/binary"

// TypeSession is the EtherType of packets in a PPPoE session (RFC 2516).
const TypeSession = 0x8864

// SessionLen is the length of the headers of PPPoE and PPP, bytes.
const SessionLen = 8

// Session is a PPPoE session, as its frames come in.
type Session struct {
	ID   uint16 // RFC 2516 section 4
	Peer MAC    // of the other end
}

// versionCode is version 1, type 1 and the code of a packet in a session.
const versionCode = 0x1100

// What PPP calls IP.
const (
	pppIPv4 = 0x0021 // RFC 1332 section 2
	pppIPv6 = 0x0057 // RFC 5072 section 2
)

// AddSession puts a frame's IP packet into a session. Other frames stay what they are.
func AddSession(frame []byte, s Session) []byte {
	at, kind, ok := NetworkOffset(frame)
	protocol := uint16(pppIPv4)
	switch {
	case kind == TypeIPv6:
		protocol = pppIPv6
	case !ok || kind != TypeIPv4:
		return frame
	}
	const protocolBytes = 2
	b := append([]byte(nil), frame[:at-protocolBytes]...)
	copy(b[len(MAC{}):], s.Peer[:])
	for _, word := range []uint16{TypeSession, versionCode, s.ID, uint16(len(frame) - at + protocolBytes), protocol} {
		b = binary.BigEndian.AppendUint16(b, word)
	}
	return append(b, frame[at:]...)
}

// inSession is the EtherType that a packet in a session would have outside, and the packet; ok is false for what is
// no IP packet in a session.
func inSession(b []byte) (kind uint16, packet []byte, ok bool) {
	if len(b) < SessionLen || binary.BigEndian.Uint16(b) != versionCode {
		return 0, nil, false
	}
	switch binary.BigEndian.Uint16(b[6:]) {
	case pppIPv4:
		kind = TypeIPv4
	case pppIPv6:
		kind = TypeIPv6
	default:
		return 0, nil, false
	}
	return kind, b[SessionLen:], true
}
