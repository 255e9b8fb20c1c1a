// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// What a captured frame says, read and checked here by the RFCs alone: nothing is
// taken from the code that made the frames.

// packet is a frame of the lab.
type packet struct {
	frame
	from, to               net.HardwareAddr
	source, destination    netip.Addr
	ttl, protocol          uint8
	sourcePort, targetPort uint16
	stream                 uint8
	sequence               uint64
}

// flow is what all packets of one connection have in common.
type flow struct {
	source, destination    netip.Addr
	sourcePort, targetPort uint16
}

func (p packet) flow() flow { return flow{p.source, p.destination, p.sourcePort, p.targetPort} }

// mark ends the stamp behind the transport header: it tells frames of the lab.
const mark = 0x4d4e

// read takes a frame apart. ok tells whether it is one of the lab; err what is wrong with it.
func read(f frame) (p packet, ok bool, err error) {
	b := f.bytes
	if len(b) < 14 {
		return p, false, nil
	}
	p = packet{frame: f, to: b[:6], from: b[6:12]}
	var upper []byte
	var pseudo []byte
	switch kind := binary.BigEndian.Uint16(b[12:]); {
	case kind == 0x0800 && len(b) >= 34 && b[14] == 0x45:
		ip := b[14:]
		p.source, p.destination = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		p.ttl, p.protocol, upper = ip[8], ip[9], ip[20:]
		pseudo = append(append([]byte{}, ip[12:20]...), 0, p.protocol, byte(len(upper)>>8), byte(len(upper)))
		if total := int(binary.BigEndian.Uint16(ip[2:])); total != len(ip) {
			err = fmt.Errorf("IPv4 total length %d in a frame of %d bytes", total, len(b))
		} else if ones(ip[:20]) != 0xffff {
			err = fmt.Errorf("IPv4 header checksum %04x is wrong", ip[10:12])
		}
	case kind == 0x86dd && len(b) >= 54 && b[14]>>4 == 6:
		ip := b[14:]
		p.source, p.destination = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		p.ttl, p.protocol, upper = ip[7], ip[6], ip[40:]
		pseudo = append(append([]byte{}, ip[8:40]...), 0, 0, byte(len(upper)>>8), byte(len(upper)), 0, 0, 0, p.protocol)
		if length := int(binary.BigEndian.Uint16(ip[4:])); length != len(upper) {
			err = fmt.Errorf("IPv6 payload length %d in a frame of %d bytes", length, len(b))
		}
	default:
		return p, false, nil
	}
	header := map[uint8]int{17: 8, 6: 20}[p.protocol]
	if header == 0 || len(upper) < header+18 || binary.BigEndian.Uint16(upper[header+16:]) != mark {
		return p, false, nil
	}
	p.sourcePort, p.targetPort = binary.BigEndian.Uint16(upper), binary.BigEndian.Uint16(upper[2:])
	stamp := binary.BigEndian.Uint64(upper[header:])
	p.stream, p.sequence = uint8(stamp>>56), stamp&(1<<56-1)
	if err == nil {
		err = p.checkUpper(upper, pseudo)
	}
	return p, true, err
}

// checkUpper checks the transport header and the checksum over pseudo header, header and payload.
func (p packet) checkUpper(upper, pseudo []byte) error {
	switch {
	case p.protocol == 17 && int(binary.BigEndian.Uint16(upper[4:])) != len(upper):
		return fmt.Errorf("UDP length %d of %d bytes", binary.BigEndian.Uint16(upper[4:]), len(upper))
	case p.protocol == 17 && upper[6] == 0 && upper[7] == 0:
		return fmt.Errorf("no UDP checksum")
	case p.protocol == 6 && (upper[12] != 0x50 || upper[13] != 0x02):
		return fmt.Errorf("TCP offset and flags %02x %02x: not a SYN without options", upper[12], upper[13])
	case ones(append(append([]byte{}, pseudo...), upper...)) != 0xffff:
		return fmt.Errorf("checksum of protocol %d is wrong", p.protocol)
	}
	return nil
}

// ones is the sum of 16-bit words in ones' complement (RFC 1071).
func ones(b []byte) uint16 {
	var sum uint32
	for i, octet := range b {
		if i%2 == 0 {
			sum += uint32(octet) << 8
		} else {
			sum += uint32(octet)
		}
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// ofTheLab returns the frames that carry a stamp.
func ofTheLab(frames []frame) (out []packet) {
	for _, f := range frames {
		if p, ok, _ := read(f); ok {
			out = append(out, p)
		}
	}
	return out
}
