// SPDX-License-Identifier: Apache-2.0

package irdp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"minne/internal/base/sendip"
)

// Types of ICMP (RFC 1256, section 3).
const (
	advertisement = 9
	solicitation  = 10
)

const (
	leastSolicitation = 8 // bytes
	// mostAddresses is how many fit a message on each link: one of 576 bytes, which every host takes.
	mostAddresses = (576 - 20 - 8) / 8
)

// message is an advertisement of addresses, as ICMP bytes.
func message(s Settings, lifetime time.Duration) []byte {
	list := s.Addresses[:min(len(s.Addresses), mostAddresses)]
	const code, wordsOfEntry = 0, 2 // an address and its preference, 4 bytes each
	b := []byte{advertisement, code, 0, 0, byte(len(list)), wordsOfEntry}
	b = binary.BigEndian.AppendUint16(b, uint16(lifetime/time.Second))
	for _, a := range list {
		b = append(b, a.Addr().AsSlice()...)
		b = binary.BigEndian.AppendUint32(b, uint32(s.Preference))
	}
	binary.BigEndian.PutUint16(b[2:], ^sendip.Sum(b))
	return b
}

// asks says whether a message is a solicitation that must be answered (section 4.2: what is not is ignored).
func asks(b []byte, from netip.Addr, s Settings) bool {
	if len(b) < leastSolicitation || b[0] != solicitation || b[1] != 0 || sendip.Sum(b) != 0xffff {
		return false
	}
	return from.IsUnspecified() || slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Contains(from) })
}
