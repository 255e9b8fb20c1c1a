// SPDX-License-Identifier: Apache-2.0

package guardbench

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/guard"
)

// onLAN is a frame as it comes in by the other interface.
func onLAN(frame []byte) []byte {
	tag := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, packet.TypeVLAN), lanID)
	return slices.Concat(frame[:12], tag, frame[12:])
}

// TestAFloodOnOnePortLeavesTheOthersTheirShare floods each class at 20,000 frames a second on one
// interface, while a station on another says something now and then: all of it passes. The flood has
// forged sources, and then those of the station itself.
func TestAFloodOnOnePortLeavesTheOthersTheirShare(t *testing.T) {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	open := uint16(server.LocalAddr().(*net.UDPAddr).Port)
	elsewhere, ospf := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("224.0.0.5")
	bgp, everybody := netip.MustParseAddr("198.51.100.4"), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	piece := udp(stranger4, elsewhere, 1, 2)
	piece[14+6] = 0x20 // more fragments
	w := newWire(t, func(s *guard.Settings) { s.Ports = 2 })
	w.must(w.own(router4), w.own6(local), w.neighbour(peer4, peerMAC, 1), w.peer(guard.Peer{Address: bgp, BGP: true}, 0))
	for _, c := range []struct {
		name   string
		frame  []byte
		reason guardbenchReason
		want   guard.Class
	}{
		{"DHCP offer", udp(stranger4, router4, 67, 68), local, guard.DHCP},
		{"DHCP discover", udp(netip.IPv4Unspecified(), everybody, 68, 67), guardbenchReasonREASON_BROADCAST, guard.DHCP},
		{"ARP for the router", arp(packet.BroadcastMAC, 1, stranger4, router4), group, guard.ARP},
		{"ARP for another", arp(packet.BroadcastMAC, 1, stranger4, elsewhere), group, guard.ARPOthers},
		{"ARP of a neighbour", arp(packet.BroadcastMAC, 1, peer4, router4), group, guard.Neighbour},
		{"neighbour solicitation", icmp6(multicastMAC(group6), stranger6, group6, packet.ICMPv6Solicit), group, guard.ARP},
		{"LLDP", ethernet(packet.MAC{1, 0x80, 0xc2, 0, 0, 0xe}, 0x88cc, nil), group, guard.Link},
		{"802.1X", ethernet(packet.MAC{1, 0x80, 0xc2, 0, 0, 3}, 0x888e, nil), group, guard.Link},
		{"PPPoE discovery", ethernet(packet.BroadcastMAC, 0x8863, nil), group, guard.Link},
		{"unknown ethertype", ethernet(routerMAC, 0x9999, nil), etherType, guard.Stray},
		{"OSPF of a neighbour", ip(multicastMAC(ospf), peer4, ospf, 89, make([]byte, 26)), group, guard.Routing},
		{"OSPF of a stranger", ip(multicastMAC(ospf), stranger4, ospf, 89, make([]byte, 26)), group, guard.RoutingNew},
		{"BGP peer", tcp(bgp, router4, 40000, 179, packet.SYN), local, guard.BGP},
		{"SYN", tcp(stranger4, router4, 40000, 22, packet.SYN), local, guard.TCP},
		{"UDP", udp(stranger4, router4, 40000, open), local, guard.UDP},
		{"UDP to a closed port", udp(stranger4, router4, 40000, 9), local, guard.UDPClosed},
		{"ping", ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26)), local, guard.ICMP},
		{"GRE", ip(routerMAC, stranger4, router4, packet.ProtoGRE, make([]byte, 26)), local, guard.Protocols},
		{"TTL", udp(stranger4, elsewhere, 1, 2), ttl, guard.TTL},
		{"no route", udp(stranger4, elsewhere, 1, 2), noRoute, guard.NoRoute},
		{"no neighbour", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_NO_NEIGHBOUR, guard.NoNeighbour},
		{"fragment", piece, fragment, guard.Fragment},
		{"options", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_OPTIONS, guard.Options},
		{"mDNS", udp(stranger4, netip.MustParseAddr("224.0.0.251"), 5353, 5353), guardbenchReasonREASON_MULTICAST, guard.Multicast},
		{"other MAC", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_OTHER_MAC, guard.Stray},
	} {
		w.ask.now += uint64(time.Hour)
		if got := w.classOf(c.frame, c.reason); got != c.want {
			t.Fatalf("%s: %v, want %v", c.name, got, c.want)
		}
		all := guard.Render(emptyConfig, 1).Budgets[c.want].PerSecond
		for spread, how := range map[uint32]string{100_000: "forged sources", 0: "its own source"} {
			w.ask.now += uint64(time.Hour)
			flooded, passed, admitted := onLAN(c.frame), 0, 0
			for range 3 {
				w.ask.spread = spread
				admitted += w.passed(flooded, c.reason, 5000)
				w.ask.spread = 0
				passed += w.passed(c.frame, c.reason, 1)
				w.ask.now += uint64(250 * time.Millisecond)
			}
			if passed != 3 {
				t.Errorf("%s: beside a flood of %s on another port %d of 3 passed", c.name, how, passed)
			}
			// The class has what it had: half a second of its budget and the burst.
			if limit := all*3/4 + 20; admitted > limit {
				t.Errorf("%s: %d frames of %s were let through, want %d at most", c.name, admitted, how, limit)
			}
		}
	}
}

// TestPortsShareAClass: what one interface does not use, another may have; when both want all of it, each
// has half, and together they have no more than the class has.
func TestPortsShareAClass(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) {
		s.Ports, s.Budgets[guard.ICMP] = 2, guard.Budget{PerSecond: 1000}
	})
	ping := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	second := func(first, other int) (passed, passedOther int) {
		for range 10 {
			passed += w.passed(ping, local, first)
			if other > 0 {
				passedOther += w.passed(onLAN(ping), local, other)
			}
			w.ask.now += uint64(100 * time.Millisecond)
		}
		return passed, passedOther
	}
	second(1000, 0)
	if alone, _ := second(1000, 0); alone < 950 || alone > 1050 {
		t.Errorf("alone, one interface had %d of 1000 packets", alone)
	}
	second(1000, 1000)
	a, b := second(1000, 1000)
	if a+b < 950 || a+b > 1050 || b < 450 {
		t.Errorf("two interfaces that flood had %d and %d packets, want 1000 in all and not less than 500 each", a, b)
	}
}
