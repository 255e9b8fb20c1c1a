// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// edit returns a copy of a frame with one byte changed. IPv4 checksums are made right again.
func edit(frame []byte, at int, value byte) []byte {
	f := bytes.Clone(frame)
	f[at] = value
	if f[12] == 0x08 && at != 14+10 && at != 14+11 {
		setChecksum4(f[14:])
	}
	return f
}

func source4(frame []byte, src string) []byte {
	f := bytes.Clone(frame)
	copy(f[14+12:], netip.MustParseAddr(src).AsSlice())
	setChecksum4(f[14:])
	return f
}

func destination4(frame []byte, dst string) []byte {
	f := bytes.Clone(frame)
	copy(f[14+16:], netip.MustParseAddr(dst).AsSlice())
	setChecksum4(f[14:])
	return f
}

// address6 changes the source (at 8) or destination (at 24) of an IPv6 frame.
func address6(frame []byte, at int, a string) []byte {
	f := bytes.Clone(frame)
	copy(f[14+at:], netip.MustParseAddr(a).AsSlice())
	return f
}

// TestStages has one frame for each reason that a frame alone can have.
func TestStages(t *testing.T) {
	b := newBench(t)
	good4 := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18)
	good6 := udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 18)
	for _, c := range []struct {
		name   string
		reason routerReason
		frame  []byte
	}{
		{"IPv4", routerReasonREASON_NONE, good4},
		{"IPv6", routerReasonREASON_NONE, good6},
		{"half an IPv4 header", routerReasonREASON_TRUNCATED, good4[:24]},
		{"half an IPv6 header", routerReasonREASON_TRUNCATED, good6[:40]},
		{"IPv4 version 5", routerReasonREASON_BAD_VERSION, edit(good4, 14, 0x55)},
		{"IHL 4", routerReasonREASON_BAD_VERSION, edit(good4, 14, 0x44)},
		{"IPv6 version 4", routerReasonREASON_BAD_VERSION, edit(good6, 14, 0x40)},
		{"IPv4 longer than the frame", routerReasonREASON_BAD_LENGTH, edit(good4, 17, 47)},
		{"IPv4 shorter than its header", routerReasonREASON_BAD_LENGTH, edit(good4, 17, 19)},
		{"IPv6 longer than the frame", routerReasonREASON_BAD_LENGTH, edit(good6, 19, 27)},
		{"checksum", routerReasonREASON_BAD_CHECKSUM, edit(good4, 24, good4[24]^1)},
		{"source multicast", routerReasonREASON_MARTIAN_SOURCE, source4(good4, "224.0.0.1")},
		{"source broadcast", routerReasonREASON_MARTIAN_SOURCE, source4(good4, "255.255.255.255")},
		{"source 0.0.0.0", routerReasonREASON_MARTIAN_SOURCE, source4(good4, "0.0.0.0")},
		{"IPv6 source multicast", routerReasonREASON_MARTIAN_SOURCE, address6(good6, 8, "ff02::1")},
		{"IPv6 source loopback", routerReasonREASON_MARTIAN_SOURCE, address6(good6, 8, "::1")},
		{"IPv6 source mapped", routerReasonREASON_NONE, address6(good6, 8, "::ffff:192.0.2.1")},
		{"destination 0.0.0.0", routerReasonREASON_MARTIAN_DESTINATION, destination4(good4, "0.0.0.0")},
		{"IPv6 destination loopback", routerReasonREASON_MARTIAN_DESTINATION, address6(good6, 24, "::1")},
		{"group MAC", routerReasonREASON_GROUP_MAC, edit(good4, 0, 3)},
		{"other MAC", routerReasonREASON_OTHER_MAC, edit(good4, 5, 9)},
		{"ARP", routerReasonREASON_ETHERTYPE, edit(good6, 13, 0x06)},
		{"unknown VLAN", routerReasonREASON_UNKNOWN_INTERFACE, tagged(good4, vlanTag{0x8100, 7})},
		{"options", routerReasonREASON_OPTIONS, edit(good4, 14, 0x46)},
		{"first fragment", routerReasonREASON_FRAGMENT, edit(good4, 20, 0x20)},
		{"later fragment", routerReasonREASON_FRAGMENT, edit(good4, 21, 1)},
		{"don't fragment", routerReasonREASON_NONE, edit(good4, 20, 0x40)},
		{"hop-by-hop", routerReasonREASON_HOP_BY_HOP, edit(good6, 20, 0)},
		{"IPv6 fragment", routerReasonREASON_NONE, edit(good6, 20, unix.IPPROTO_FRAGMENT)},
		{"multicast", routerReasonREASON_MULTICAST, destination4(good4, "239.1.1.1")},
		{"IPv6 multicast", routerReasonREASON_MULTICAST, address6(good6, 24, "ff0e::1")},
		{"limited broadcast", routerReasonREASON_BROADCAST, destination4(good4, "255.255.255.255")},
		{"subnet broadcast", routerReasonREASON_BROADCAST, destination4(good4, "198.51.100.255")},
		{"loopback source", routerReasonREASON_LOOPBACK, source4(good4, "127.0.0.1")},
		{"loopback destination", routerReasonREASON_LOOPBACK, destination4(good4, "127.1.2.3")},
		{"link-local source", routerReasonREASON_LINK_LOCAL, address6(good6, 8, "fe80::1")},
		{"link-local destination", routerReasonREASON_LINK_LOCAL, address6(good6, 24, "febf::1")},
		{"unspecified source", routerReasonREASON_UNSPECIFIED, address6(good6, 8, "::")},
		{"unspecified destination", routerReasonREASON_UNSPECIFIED, address6(good6, 24, "::")},
		{"TTL 1", routerReasonREASON_TTL, edit(good4, 22, 1)},
		{"TTL 0", routerReasonREASON_TTL, edit(good4, 22, 0)},
		{"hop limit 1", routerReasonREASON_TTL, edit(good6, 21, 1)},
		{"to the router", routerReasonREASON_LOCAL, destination4(good4, "198.51.100.1")},
		{"IPv6 to the router", routerReasonREASON_LOCAL, address6(good6, 24, "2001:db8:b::1")},
		{"subnet-router anycast", routerReasonREASON_LOCAL, address6(good6, 24, "2001:db8:b::")},
		{"from the router", routerReasonREASON_OWN_SOURCE, source4(good4, "198.51.100.1")},
		{"no route", routerReasonREASON_NO_ROUTE, destination4(good4, "203.0.113.1")},
		{"IPv6 no route", routerReasonREASON_NO_ROUTE, address6(good6, 24, "2001:db9::1")},
		{"no neighbour", routerReasonREASON_NO_NEIGHBOUR, destination4(good4, "198.51.100.77")},
		{"IPv6 no neighbour", routerReasonREASON_NO_NEIGHBOUR, address6(good6, 24, "2001:db8:b::77")},
		{"largest", routerReasonREASON_NONE, udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 1472)},
		{"too big", routerReasonREASON_TOO_BIG, udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 1473)},
		{"IPv6 too big", routerReasonREASON_TOO_BIG, udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 1453)},
		{"source in 0/8", routerReasonREASON_NONE, source4(good4, "0.1.2.3")},
		{"source in 240/4", routerReasonREASON_NONE, source4(good4, "240.1.2.3")},
		{"IPv6 hairpin", routerReasonREASON_REDIRECT, address6(good6, 24, "2001:db8:a::2")},
		{"IPv4 hairpin, redirects off", routerReasonREASON_NONE, destination4(good4, "192.0.2.2")},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := b.run(c.frame, b.in)
			if v.Reason != Reason(c.reason) {
				t.Fatalf("%v, expected %v", v.Reason, Reason(c.reason))
			}
			want := uint32(ActionPass)
			if v.Reason.Drop() {
				want = ActionDrop
			} else if v.Reason == Forwarded {
				want = ActionRedirect
			}
			if v.Action != want || v.Reason != Forwarded && !bytes.Equal(v.Packet, c.frame) {
				t.Errorf("action %d, packet %x", v.Action, v.Packet)
			}
		})
	}
}

func TestRoutesThatEnd(t *testing.T) {
	b := newBench(t)
	ip(t, "tuntap", "add", "dev", "point", "mode", "tun") // as a tunnel, WireGuard or PPP
	ip(t, "link", "set", "point", "up")
	for _, c := range []struct {
		route  []string
		reason routerReason
	}{
		{[]string{"blackhole", "203.0.113.0/24"}, routerReasonREASON_BLACKHOLE},
		{[]string{"unreachable", "203.0.113.0/24"}, routerReasonREASON_UNREACHABLE},
		{[]string{"prohibit", "203.0.113.0/24"}, routerReasonREASON_PROHIBIT},
		{[]string{"throw", "203.0.113.0/24"}, routerReasonREASON_SPECIAL_ROUTE},
		{[]string{"203.0.113.0/24", "tos", "0x10", "via", "198.51.100.2"}, routerReasonREASON_SPECIAL_ROUTE},
		{[]string{"203.0.113.0/24", "via", "198.51.100.2"}, routerReasonREASON_NONE},
		{[]string{"203.0.113.0/24", "via", "198.51.100.9"}, routerReasonREASON_NO_NEIGHBOUR},
		{[]string{"203.0.113.0/24", "via", "198.51.100.2", "mtu", "100"}, routerReasonREASON_TOO_BIG},
		{[]string{"203.0.113.0/24", "dev", "out"}, routerReasonREASON_NO_NEIGHBOUR},
		{[]string{"203.0.113.0/24", "dev", "point"}, routerReasonREASON_EGRESS}, // no neighbour is asked for, nor does its limit hold
		{[]string{"203.0.113.0/24", "via", "198.51.100.9", "dev", "point", "onlink"}, routerReasonREASON_EGRESS},
	} {
		ip(t, append([]string{"route", "add"}, c.route...)...)
		frame := udp4(macIn, macA, "192.0.2.2", "203.0.113.1", 64, 100)
		var got Reason
		eventually(t, "the route", func() bool {
			got = b.run(frame, b.in).Reason
			return got == Reason(c.reason) || got != Reason(routerReasonREASON_NO_ROUTE)
		})
		if got != Reason(c.reason) {
			t.Errorf("%v: %v, expected %v", c.route, got, Reason(c.reason))
		}
		ip(t, append([]string{"route", "del"}, c.route...)...)
		eventually(t, "no route", func() bool { return b.run(frame, b.in).Reason == Reason(routerReasonREASON_NO_ROUTE) })
	}
}

// TestSettingsAtOnce: who has changed forwarding need not wait for the kernel's notification.
func TestSettingsAtOnce(t *testing.T) {
	b := newBench(t)
	frame := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0)
	for range 20 {
		sysctl(t, "ipv4/ip_forward", "0")
		b.fast.SettingsChanged()
		b.expect(frame, b.in, Reason(routerReasonREASON_FORWARDING_OFF))
		sysctl(t, "ipv4/ip_forward", "1")
		b.fast.SettingsChanged()
		b.expect(frame, b.in, Forwarded)
	}
}

// TestSettingsAreFollowed: the kernel's settings count, without anybody telling the fast path.
func TestSettingsAreFollowed(t *testing.T) {
	b := newBench(t)
	frame4 := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0)
	frame6 := udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 0)
	reason := func(frame []byte, want routerReason) {
		t.Helper()
		eventually(t, Reason(want).String(), func() bool { return b.run(frame, b.in).Reason == Reason(want) })
	}
	sysctl(t, "ipv4/ip_forward", "0")
	reason(frame4, routerReasonREASON_FORWARDING_OFF)
	reason(frame6, routerReasonREASON_NONE)
	sysctl(t, "ipv4/ip_forward", "1")
	reason(frame4, routerReasonREASON_NONE)
	sysctl(t, "ipv6/conf/all/forwarding", "0")
	reason(frame6, routerReasonREASON_FORWARDING_OFF)
	sysctl(t, "ipv6/conf/all/forwarding", "1")
	reason(frame6, routerReasonREASON_NONE)

	stranger := udp4(macIn, macA, "203.0.113.9", "198.51.100.2", 64, 0)
	elsewhere := udp4(macIn, macA, "198.51.100.7", "198.51.100.2", 64, 0)
	reason(stranger, routerReasonREASON_NONE)
	sysctl(t, "ipv4/conf/in/rp_filter", "2")
	reason(stranger, routerReasonREASON_SPOOFED)
	reason(elsewhere, routerReasonREASON_NONE)
	sysctl(t, "ipv4/conf/in/rp_filter", "1")
	reason(elsewhere, routerReasonREASON_SPOOFED)
	reason(frame4, routerReasonREASON_NONE)

	ip(t, "rule", "add", "priority", "100", "from", "192.0.2.0/24", "lookup", "main")
	reason(frame4, routerReasonREASON_POLICY_RULES)
	reason(frame6, routerReasonREASON_NONE)
	ip(t, "rule", "del", "priority", "100")
	reason(frame4, routerReasonREASON_NONE)
}

// TestNeighbours: a neighbour that the kernel calls stale costs one packet, which makes the
// kernel ask for it; one that is gone costs all; a new MAC is used.
func TestNeighbours(t *testing.T) {
	b := newBench(t)
	frame := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0)
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	moved := net.HardwareAddr{2, 0, 0, 0, 9, 9}
	addNeighbour(t, b.out, "198.51.100.2", moved, unix.NUD_PERMANENT)
	eventually(t, "the new MAC", func() bool { return bytes.Equal(b.run(frame, b.in).Packet[:6], moved) })

	sysctl(t, "ipv4/neigh/out/delay_first_probe_time", "1")
	addNeighbour(t, b.out, "198.51.100.2", macB, unix.NUD_STALE)
	eventually(t, "the stale neighbour", func() bool { return b.adjacency("198.51.100.2").state == rib.NeighStale })
	sent := b.fastPackets(b.out)
	for range 20 {
		wireA.send(frame)
		if wireB.next(time.Second, addressed(macB)) == nil {
			t.Fatal("lost a packet to a stale neighbour")
		}
	}
	if by := b.fastPackets(b.out) - sent; by != 19 {
		t.Errorf("%d of 20 packets took the fast path, expected all but one", by)
	}
	isARP := func(f []byte) bool { return len(f) > 41 && f[12] == 0x08 && f[13] == 0x06 && f[21] == 1 && f[41] == 2 }
	request := wireB.next(5*time.Second, isARP)
	if request == nil {
		t.Fatal("the kernel did not ask for the neighbour")
	}
	reply := append(append(append([]byte{}, macOut...), macB...), request[12:20]...)
	reply = append(append(append(append(append(reply, 0, 2), macB...), request[38:42]...), macOut...), request[28:32]...)
	wireB.send(reply)
	eventually(t, "the neighbour is reachable", func() bool { return b.adjacency("198.51.100.2").state == rib.NeighReachable })
	b.expect(frame, b.in, Forwarded)

	ip(t, "neigh", "del", "198.51.100.2", "dev", "out")
	eventually(t, "no neighbour", func() bool { return b.run(frame, b.in).Reason == Reason(routerReasonREASON_NO_NEIGHBOUR) })
}

// adjacency is what the fast path knows of a neighbour on out.
func (b *bench) adjacency(address string) (a adjacency) {
	b.fast.locked(func() {
		if known := b.fast.tables.adjs.all[adjKey{b.out.Attrs().Index, netip.MustParseAddr(address)}]; known != nil {
			a = *known
		}
	})
	return a
}

// TestLinkDown: routes through a dead link are the kernel's at once, and others are not touched.
func TestLinkDown(t *testing.T) {
	sysctl(t, "ipv4/fib_multipath_hash_policy", "1") // the frames differ in their ports
	b := newBench(t)
	frame := udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 64, 0)
	third, _ := addVeth(t, "third", "c", net.HardwareAddr{2, 0, 0, 0, 0, 3})
	addAddress(t, third, "192.0.9.1/24")
	addNeighbour(t, third, "192.0.9.2", macB, unix.NUD_PERMANENT)
	d := b.desired()
	d.Interfaces["third"] = DesiredPort{FastPath: true}
	must(t, b.fast.Apply(t.Context(), d))
	ip(t, "route", "add", "203.0.113.0/24", "nexthop", "via", "198.51.100.2", "nexthop", "via", "192.0.9.2")
	egress := map[int]int{}
	eventually(t, "both next hops", func() bool {
		binary.BigEndian.PutUint16(frame[34:], uint16(time.Now().UnixNano()>>10))
		if v := b.run(frame, b.in); v.Reason == Forwarded {
			egress[v.Egress]++
		}
		return len(egress) == 2
	})
	ip(t, "link", "set", "third", "down")
	eventually(t, "one next hop", func() bool {
		for port := range uint16(64) {
			binary.BigEndian.PutUint16(frame[34:], port)
			if v := b.run(frame, b.in); v.Reason != Forwarded || v.Egress != b.out.Attrs().Index {
				return false
			}
		}
		return true
	})
}

// tagged puts VLAN tags into a frame, the outermost first.
func tagged(frame []byte, tags ...vlanTag) []byte {
	f := bytes.Clone(frame[:12])
	for _, t := range tags {
		f = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(f, t.proto), t.id)
	}
	return append(f, frame[12:]...)
}
