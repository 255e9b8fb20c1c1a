// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Summary is what can be read off a frame, however broken it is: fields that the
// frame does not have are zero.
type Summary struct {
	DstMAC, SrcMAC      MAC
	Tags                []Tag // outermost first, at most two
	InSession           bool  // of PPPoE: what follows is of the packet in it
	Session             uint16
	Type                uint16
	Source, Destination netip.Addr // the zero Addr when it is no whole IP header
	Protocol            uint8      // or the first IPv6 next header
	TTL                 uint8      // or hop limit
	Length              int        // of the IP packet as its header says, bytes
	SrcPort, DstPort    uint16
	HasPorts            bool
	ICMPType            uint8 // of ICMP and ICMPv6
	Bytes               int   // of the frame
}

// Summarize reads a frame.
func Summarize(frame []byte) Summary {
	s := Summary{Bytes: len(frame)}
	if len(frame) < EthernetLen {
		return s
	}
	copy(s.DstMAC[:], frame)
	copy(s.SrcMAC[:], frame[6:])
	s.Type = binary.BigEndian.Uint16(frame[12:])
	rest := frame[EthernetLen:]
	for len(s.Tags) < 2 && (s.Type == TypeVLAN || s.Type == TypeQinQ) && len(rest) >= TagLen {
		s.Tags = append(s.Tags, Tag{Type: s.Type, TCI: binary.BigEndian.Uint16(rest)})
		s.Type = binary.BigEndian.Uint16(rest[2:])
		rest = rest[TagLen:]
	}
	if kind, inner, ok := inSession(rest); ok && s.Type == TypeSession {
		s.InSession, s.Session = true, binary.BigEndian.Uint16(rest[2:])
		s.Type, rest = kind, inner
	}
	switch {
	case s.Type == TypeIPv4 && len(rest) >= IPv4Len:
		s.readIPv4(rest)
	case s.Type == TypeIPv6 && len(rest) >= IPv6Len:
		s.readIPv6(rest)
	}
	return s
}

func (s *Summary) readIPv4(b []byte) {
	s.Source, s.Destination = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	s.TTL, s.Protocol, s.Length = b[8], b[9], int(binary.BigEndian.Uint16(b[2:]))
	header := int(b[0]&0xf) * 4
	if binary.BigEndian.Uint16(b[6:])&OffsetMask == 0 && header >= IPv4Len && header <= len(b) {
		s.readPorts(b[header:])
	}
}

func (s *Summary) readIPv6(b []byte) {
	s.Source, s.Destination = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	s.TTL, s.Protocol, s.Length = b[7], b[6], IPv6Len+int(binary.BigEndian.Uint16(b[4:]))
	s.readPorts(b[IPv6Len:])
}

func (s *Summary) readPorts(b []byte) {
	if (s.Protocol == ProtoICMP || s.Protocol == ProtoICMPv6) && len(b) > 0 {
		s.ICMPType = b[0]
	}
	if (s.Protocol == ProtoTCP || s.Protocol == ProtoUDP) && len(b) >= 4 {
		s.SrcPort, s.DstPort, s.HasPorts = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), true
	}
}

// Family is "IPv4", "IPv6", or the ethertype.
func (s Summary) Family() string {
	switch s.Type {
	case TypeIPv4:
		return "IPv4"
	case TypeIPv6:
		return "IPv6"
	case TypeARP:
		return "ARP"
	}
	return fmt.Sprintf("ethertype 0x%04x", s.Type)
}

// String is one line: addresses, protocol, size.
func (s Summary) String() string {
	var b strings.Builder
	for _, t := range s.Tags {
		fmt.Fprintf(&b, "VLAN %d ", t.TCI&0xfff)
	}
	if !s.Source.IsValid() {
		fmt.Fprintf(&b, "%v > %v %s, frame of %d bytes", s.SrcMAC, s.DstMAC, s.Family(), s.Bytes)
		return b.String()
	}
	from, to := s.Source.String(), s.Destination.String()
	if s.HasPorts {
		from = netip.AddrPortFrom(s.Source, s.SrcPort).String()
		to = netip.AddrPortFrom(s.Destination, s.DstPort).String()
	}
	fmt.Fprintf(&b, "%s %s > %s %s, %d bytes", s.Family(), from, to, ProtocolName(s.Protocol), s.Length)
	return b.String()
}

var protocolNames = map[uint8]string{
	ProtoICMP: "icmp", ProtoTCP: "tcp", ProtoUDP: "udp", ProtoGRE: "gre", ProtoESP: "esp", ProtoAH: "ah", ProtoICMPv6: "icmpv6", 89: "ospf", 132: "sctp",
}

// ProtocolName is the name of an IP protocol, or its number.
func ProtocolName(protocol uint8) string {
	if name, ok := protocolNames[protocol]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(int(protocol))
}

// ParseProtocol takes a name that ProtocolName gives, or a number. The word icmp is right for
// both families: with v6 it is ICMPv6.
func ParseProtocol(text string, v6 bool) (uint8, error) {
	if text == "icmp" && v6 {
		return ProtoICMPv6, nil
	}
	for number, name := range protocolNames {
		if name == text {
			return number, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("protocol %q: expected tcp, udp, icmp, gre, esp, ah, ospf, sctp or a number from 0 to 255", text)
	}
	return uint8(n), nil
}
