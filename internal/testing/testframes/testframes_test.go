// SPDX-License-Identifier: Apache-2.0

package testframes

import (
	"bytes"
	"net/netip"
	"testing"

	"minne/internal/model/packet"
)

func TestStampKeepsChecksum(t *testing.T) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	right := packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, packet.IPv4{TTL: 9, Src: src, Dst: dst}.Append(nil, nil))
	wrong := bytes.Clone(right)
	wrong[packet.EthernetLen+11] ^= 1
	for id := range uint32(0x10000) {
		Stamp(right, id)
		Stamp(wrong, id)
		if got, ok := StampOf(right); !ok || got != id {
			t.Fatalf("stamp %#x read back as %#x", id, got)
		}
		if packet.Checksum(right[packet.EthernetLen:]) != 0 || packet.Checksum(wrong[packet.EthernetLen:]) == 0 {
			t.Fatalf("stamp %#x changed whether the checksum is right", id)
		}
	}
}

// testWorld is a router with two ports, for tests of the generator alone.
func testWorld(v6 bool) World {
	prefix := netip.MustParsePrefix
	w := World{
		Entries:      []Entry{{Port: 1, MAC: packet.MAC{2, 0, 0, 0, 0, 1}, MTU: 1500, Sources: []netip.Prefix{prefix("10.1.0.0/16")}}, {Port: 2, MAC: packet.MAC{2, 0, 0, 0, 0, 2}, MTU: 9000, Sources: []netip.Prefix{prefix("10.2.0.0/16")}}},
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
			if len(s.Frame) > 9000+packet.EthernetLen+2*packet.TagLen+60 {
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
		for n := packet.EthernetLen; n < packet.EthernetLen+100; n++ {
			if !lengths[n] {
				t.Errorf("no frame of %d bytes", n)
			}
		}
	}
}
