// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

func TestChecksum(t *testing.T) {
	// The example of RFC 1071 3: words 0001 f203 f4f5 f6f7 sum to ddf2.
	if got := Checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("checksum %#04x, expected %#04x", got, ^uint16(0xddf2))
	}
	if Checksum([]byte{0x12}) != Checksum([]byte{0x12, 0x00}) {
		t.Error("an odd byte is not the upper half of its word")
	}
}

func TestBuilders(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
	src6, dst6 := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	tests := []struct {
		name   string
		frame  []byte
		expect string
	}{
		{"IPv4 UDP with tag",
			Ethernet{Dst: MAC{2, 0, 0, 0, 0, 1}, Src: MAC{2, 0, 0, 0, 0, 2}, Tags: []Tag{{TypeVLAN, 100}}, Type: TypeIPv4}.Append(nil,
				IPv4{TOS: 0x10, ID: 0x1234, Fragment: DontFragment, TTL: 64, Protocol: ProtoUDP, Src: src, Dst: dst}.Append(nil,
					UDP{53, 1024}.Append(nil, src, dst, []byte("ab")))),
			"020000000001020000000002" + "81000064" + "0800" + "4510001e1234400040113c54c0000201c6336402" + "00350400000aae0b" + "6162"},
		{"IPv4 in a session behind a tag",
			AddSession(Ethernet{Dst: MAC{2, 0, 0, 0, 0, 1}, Src: MAC{2, 0, 0, 0, 0, 2}, Tags: []Tag{{TypeVLAN, 7}}, Type: TypeIPv4}.Append(nil, []byte("IPv4")),
				Session{ID: 0x1234, Peer: MAC{2, 0, 0, 0, 0, 3}}),
			"020000000001020000000003" + "81000007" + "8864" + "1100123400060021" + "49507634"},
		{"IPv6 in a session",
			AddSession(Ethernet{Type: TypeIPv6}.Append(nil, []byte("v6")), Session{ID: 1}), "000000000000000000000000" + "8864" + "1100000100040057" + "7636"},
		{"IPv6 echo",
			Ethernet{Type: TypeIPv6}.Append(nil, IPv6{Class: 0xb8, Flow: 0x12345, NextHeader: ProtoICMPv6, HopLimit: 255, Src: src6, Dst: dst6}.Append(nil,
				ICMP{Type: ICMPv6Echo, Rest: 0x00010002}.Append(nil, src6, dst6, nil))),
			"000000000000000000000000" + "86dd" + "6b812345" + "00083aff" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002" + "8000244500010002"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.frame); got != tt.expect {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.expect)
		}
	}
}
