// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
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

func TestStampKeepsChecksum(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	right := Ethernet{Type: TypeIPv4}.Append(nil, IPv4{TTL: 9, Src: src, Dst: dst}.Append(nil, nil))
	wrong := bytes.Clone(right)
	wrong[EthernetLen+11] ^= 1
	for id := range uint32(0x10000) {
		Stamp(right, id)
		Stamp(wrong, id)
		if got, ok := StampOf(right); !ok || got != id {
			t.Fatalf("stamp %#x read back as %#x", id, got)
		}
		if Checksum(right[EthernetLen:]) != 0 || Checksum(wrong[EthernetLen:]) == 0 {
			t.Fatalf("stamp %#x changed whether the checksum is right", id)
		}
	}
}

// testWorld is a router with two ports, for tests of the generator alone.
func testWorld(v6 bool) World {
	prefix := netip.MustParsePrefix
	w := World{
		Entries:      []Entry{{Port: 1, MAC: MAC{2, 0, 0, 0, 0, 1}, MTU: 1500, Sources: []netip.Prefix{prefix("10.1.0.0/16")}}, {Port: 2, MAC: MAC{2, 0, 0, 0, 0, 2}, MTU: 9000, Sources: []netip.Prefix{prefix("10.2.0.0/16")}}},
		Destinations: []Pool{{1, []netip.Prefix{prefix("198.51.100.0/25")}}, {3, []netip.Prefix{prefix("203.0.113.7/32")}}},
		Specials:     []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		EgressMTUs:   []int{1400},
	}
	if v6 {
		w.Entries[0].Sources[0], w.Entries[1].Sources[0] = prefix("2001:db8:1::/48"), prefix("2001:db8:2::/48")
		w.Destinations = []Pool{{1, []netip.Prefix{prefix("2001:db8:3::/61")}}}
		w.Specials = []netip.Addr{netip.IPv6LinkLocalAllNodes()}
	}
	return w
}

func TestGeneratorRepeats(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		a, b := NewGenerator(testWorld(v6), 7), NewGenerator(testWorld(v6), 7)
		for n := range uint64(2000) {
			b.At(n + 1) // order doesn't matter
			x, y := a.At(n), b.At(n)
			if x.Port != y.Port || x.Kind() != y.Kind() || !bytes.Equal(x.Frame, y.Frame) {
				t.Fatalf("frame %d (%s) differs between generators of the same seed", n, x.Kind())
			}
		}
	}
}

func TestGeneratorCovers(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		g := NewGenerator(testWorld(v6), 1)
		kinds := map[string]int{}
		lengths := map[int]bool{}
		for n := range uint64(100_000) {
			s := g.At(n)
			kinds[s.Kind()]++
			lengths[len(s.Frame)] = true
			if len(s.Frame) > 9000+EthernetLen+2*TagLen+60 {
				t.Fatalf("frame %d (%s) has %d bytes, more than its wire carries", n, s.Kind(), len(s.Frame))
			}
			if id, ok := StampOf(s.Frame); s.Kind() == "plain" && (!ok || id != uint32(n)&0xfffff && id != uint32(n)&0xffff) {
				t.Fatalf("frame %d carries stamp %d", n, id)
			}
		}
		if kinds["plain"] < 25_000 || kinds["plain"] > 50_000 {
			t.Errorf("%d of 100000 frames are plain, expected about a third", kinds["plain"])
		}
		for _, c := range g.family {
			if kinds[c.name] == 0 {
				t.Errorf("no frame with only the change %q", c.name)
			}
		}
		for n := EthernetLen; n < EthernetLen+100; n++ {
			if !lengths[n] {
				t.Errorf("no frame of %d bytes", n)
			}
		}
	}
}
