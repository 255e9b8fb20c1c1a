// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Probe is a packet as an operator describes it.
type Probe struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	Protocol    string     `json:"protocol"` // as ParseProtocol takes it
	SrcPort     uint16     `json:"source_port,omitempty"`
	DstPort     uint16     `json:"destination_port,omitempty"`
	TTL         uint8      `json:"ttl"`
	Size        int        `json:"size,omitempty"` // of the IP packet in bytes; 0 for the least
	VLAN        uint16     `json:"vlan,omitempty"` // id of an 802.1Q tag in front; 0 for none
}

// maxProbe is the largest IP packet that the kernel takes in a test run, in bytes.
const maxProbe = 3400

// probeSource is whom the frame of a probe comes from: nobody's address.
var probeSource = MAC{2, 0, 0, 0, 0, 0xfe}

// Frame writes the probe as a frame for a station, with tags in front.
func (p Probe) Frame(station MAC, tags []Tag) ([]byte, error) {
	if !p.Source.IsValid() || !p.Destination.IsValid() || p.Source.Is4() != p.Destination.Is4() {
		return nil, errors.New("source and destination: expected two addresses of one family")
	}
	protocol, err := ParseProtocol(p.Protocol, p.Source.Is6())
	if err != nil {
		return nil, err
	}
	if p.VLAN > 4094 {
		return nil, fmt.Errorf("VLAN %d: expected an id from 1 to 4094", p.VLAN)
	}
	if p.VLAN != 0 {
		tags = append(tags[:len(tags):len(tags)], Tag{Type: TypeVLAN, TCI: p.VLAN})
	}
	header, kind := IPv4Len, uint16(TypeIPv4)
	if p.Source.Is6() {
		header, kind = IPv6Len, TypeIPv6
	}
	least := header + len(p.upper(protocol, nil))
	size := max(p.Size, least)
	if p.Size != 0 && p.Size < least || size > maxProbe {
		return nil, fmt.Errorf("size %d: expected %d to %d bytes for this protocol", p.Size, least, maxProbe)
	}
	upper := p.upper(protocol, make([]byte, size-least))
	var network []byte
	if p.Source.Is6() {
		network = IPv6{NextHeader: protocol, HopLimit: p.TTL, Src: p.Source, Dst: p.Destination}.Append(nil, upper)
	} else {
		network = IPv4{TTL: p.TTL, Protocol: protocol, Src: p.Source, Dst: p.Destination}.Append(nil, upper)
	}
	return Ethernet{Dst: station, Src: probeSource, Tags: tags, Type: kind}.Append(nil, network), nil
}

func (p Probe) upper(protocol uint8, payload []byte) []byte {
	switch protocol {
	case ProtoTCP:
		return TCP{SrcPort: p.SrcPort, DstPort: p.DstPort, Flags: SYN, Window: 65535}.Append(nil, p.Source, p.Destination, payload)
	case ProtoUDP:
		return UDP{SrcPort: p.SrcPort, DstPort: p.DstPort}.Append(nil, p.Source, p.Destination, payload)
	case ProtoICMP:
		return ICMP{Type: ICMPEcho}.Append(nil, p.Source, p.Destination, payload)
	case ProtoICMPv6:
		return ICMP{Type: ICMPv6Echo}.Append(nil, p.Source, p.Destination, payload)
	}
	return payload
}

// AddTags puts tags in front of what stands behind a frame's addresses.
func AddTags(frame []byte, tags []Tag) []byte {
	const addresses = 12
	if len(tags) == 0 || len(frame) < addresses {
		return frame
	}
	tagged := append([]byte(nil), frame[:addresses]...)
	for _, t := range tags {
		tagged = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(tagged, t.Type), t.TCI)
	}
	return append(tagged, frame[addresses:]...)
}
