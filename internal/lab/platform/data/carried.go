// SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
)

// carried is what a frame's TCP or UDP carries, as far as it was captured, without the padding of short frames.
func carried(frame []byte) []byte {
	at, kind, ok := packet.NetworkOffset(frame)
	if !ok {
		return nil
	}
	b := frame[at:]
	switch kind {
	case unix.ETH_P_IP:
		return carriedIPv4(b)
	case unix.ETH_P_IPV6:
		return carriedIPv6(b)
	}
	return nil
}

func carriedIPv4(b []byte) []byte {
	if len(b) < 20 || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 { // a later fragment has no header
		return nil
	}
	head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if head < 20 || total > len(b) { // captured in part
		total = len(b)
	}
	if head < 20 || head > total {
		return nil
	}
	return behindTransport(b[9], b[head:total])
}

// carriedIPv6 knows packets without extension headers.
func carriedIPv6(b []byte) []byte {
	if len(b) < 40 {
		return nil
	}
	return behindTransport(b[6], b[40:min(len(b), 40+int(binary.BigEndian.Uint16(b[4:])))])
}

func behindTransport(protocol byte, b []byte) []byte {
	head := 8
	if protocol == unix.IPPROTO_TCP {
		if len(b) < 20 {
			return nil
		}
		head = int(b[12]>>4) * 4
	} else if protocol != unix.IPPROTO_UDP {
		return nil
	}
	if head < 8 || head > len(b) {
		return nil
	}
	return b[head:]
}
