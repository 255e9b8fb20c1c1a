// SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"minne/internal/lab/algo/lpm"
)

// MRT dumps of routing tables: TABLE_DUMP_V2 (RFC 6396 section 4.3), RIB entries for unicast only, with or
// without additional paths (RFC 8050). Of the paths to a prefix the first one counts; routes have the same next hop
// when their paths have, or, without one, when they are of the same peer.

const (
	mrtHeader      = 12
	mrtTableDumpV2 = 13
	mrtLargest     = 1 << 20 // a record, bytes

	ribIPv4, ribIPv6               = 2, 4
	ribIPv4AddPath, ribIPv6AddPath = 8, 10

	attributeNextHop = 3  // RFC 4271 section 5.1.3
	attributeReach   = 14 // RFC 4760; in dumps shortened, RFC 6396 section 4.3.4
)

// isMRT tells whether a file's first bytes are the header of such a dump. Text has no such bytes.
func isMRT(head []byte) bool {
	return binary.BigEndian.Uint16(head[4:]) == mrtTableDumpV2 && head[6] == 0
}

var errShort = errors.New("it is cut short")

func readMRT(file string, in io.Reader, t *Table) error {
	known := hops{}
	for number := 1; ; number++ {
		var head [mrtHeader]byte
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return BadLines{{file, number, "record: " + errShort.Error()}}
		}
		length := binary.BigEndian.Uint32(head[8:])
		if length > mrtLargest {
			return BadLines{{file, number, fmt.Sprintf("record of %d bytes: expected at most %d", length, mrtLargest)}}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(in, body); err != nil {
			return BadLines{{file, number, "record: " + errShort.Error()}}
		}
		if binary.BigEndian.Uint16(head[4:]) != mrtTableDumpV2 {
			continue
		}
		if err := mrtRecord(binary.BigEndian.Uint16(head[6:]), body, known, t); err != nil {
			return BadLines{{file, number, "record: " + err.Error()}}
		}
	}
	if len(t.IPv4)+len(t.IPv6) == 0 {
		return fmt.Errorf("%s: an MRT dump without routes", file)
	}
	return nil
}

// mrtRecord takes the route of a record that has one.
func mrtRecord(subtype uint16, b []byte, known hops, t *Table) error {
	width, addPath := 4, 0
	switch subtype {
	case ribIPv4:
	case ribIPv4AddPath:
		addPath = 4
	case ribIPv6:
		width = 16
	case ribIPv6AddPath:
		width, addPath = 16, 4
	default: // the peers, multicast
		return nil
	}
	if len(b) < 5 {
		return errShort
	}
	bits := int(b[4])
	n := (bits + 7) / 8
	if bits > 8*width {
		return fmt.Errorf("prefix of %d bits: expected at most %d", bits, 8*width)
	}
	if b = b[5:]; len(b) < n+2 {
		return errShort
	}
	address := make([]byte, width)
	copy(address, b[:n])
	entries := binary.BigEndian.Uint16(b[n:])
	if b = b[n+2:]; entries == 0 {
		return nil
	}
	if len(b) < 8+addPath {
		return errShort
	}
	peer, attributes := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[6+addPath:]))
	if b = b[8+addPath:]; len(b) < attributes {
		return errShort
	}
	name, err := mrtNextHop(b[:attributes])
	if err != nil {
		return err
	}
	if name == "" {
		name = fmt.Sprintf("peer %d", peer)
	}
	hop, err := known.number(name)
	if err != nil {
		return err
	}
	a, _ := netip.AddrFromSlice(address) // it has 4 or 16 bytes
	t.add(lpm.Route{Prefix: netip.PrefixFrom(a, bits).Masked(), NextHop: hop})
	return nil
}

// mrtNextHop finds the next hop among the attributes of a path; it is empty when there is none.
func mrtNextHop(b []byte) (string, error) {
	for len(b) > 0 {
		if len(b) < 3 {
			return "", errShort
		}
		kind, length, head := b[1], int(b[2]), 3
		if b[0]&0x10 != 0 { // extended length
			if len(b) < 4 {
				return "", errShort
			}
			length, head = int(binary.BigEndian.Uint16(b[2:])), 4
		}
		if len(b) < head+length {
			return "", errShort
		}
		value := b[head : head+length]
		b = b[head+length:]
		switch {
		case kind == attributeReach && length > 0:
			// Only the next hop with its length; some write the whole attribute, which begins with the family.
			if value[0] == 0 && length >= 4 {
				value = value[3:]
			}
			if n := int(value[0]); n <= len(value)-1 {
				value = value[1 : 1+n]
			}
		case kind != attributeNextHop:
			continue
		}
		if len(value) > 16 { // global and link-local
			value = value[:16]
		}
		if a, ok := netip.AddrFromSlice(value); ok {
			return a.String(), nil
		}
	}
	return "", nil
}
