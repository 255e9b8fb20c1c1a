// SPDX-License-Identifier: Apache-2.0

package guardbench

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/testing/testns"
	"minne/internal/testing/testuml"
)

// onUML makes the tests run in User-Mode Linux, whose kernel 6.12 has neither a JIT nor BTF.
const onUML = "MINNE_TEST_UML"

func TestMain(m *testing.M) {
	if os.Getpid() == 1 || os.Getenv(onUML) != "" {
		testuml.Main(m, "ipv6")
	}
	testns.Main(m)
}

// Addresses of the bed: the router's are those of the loopback, so that it has sockets there.
var (
	router4   = netip.MustParseAddr("127.0.0.1")
	router6   = netip.MustParseAddr("::1")
	stranger4 = netip.MustParseAddr("203.0.113.9")
	stranger6 = netip.MustParseAddr("2001:db8:bad::9")
	peer4     = netip.MustParseAddr("192.0.2.2")
	peer6     = netip.MustParseAddr("fe80::2")
	group6    = netip.MustParseAddr("ff02::5")
)

var emptyConfig = config.Normalize(&config.Config{})

const start = uint64(1000 * time.Second) // of the tests' clock

// wire is a bed whose clock stands still, with the default budgets.
type wire struct {
	*testing.T
	*bed
}

func newWire(t *testing.T, change func(*guard.Settings)) wire {
	t.Helper()
	b, err := newBed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	b.ask.now = start
	s := guard.Render(emptyConfig, 1)
	if change != nil {
		change(&s)
	}
	b.guard.Set(s)
	return wire{t, b}
}

func (w wire) must(errs ...error) {
	w.Helper()
	for _, err := range errs {
		if err != nil {
			w.Fatal(err)
		}
	}
}

// passed is how many of n frames pass; the clock stands.
func (w wire) passed(frame []byte, reason guardbenchReason, n int) int {
	w.Helper()
	before := w.tallies()
	_, _, err := w.run(frame, reason, n)
	w.must(err)
	sum := 0
	for c, t := range w.tallies() {
		sum += int(t.Passed - before[c].Passed)
	}
	return sum
}

func (w wire) tallies() (all [guard.Classes]guard.Tally) {
	w.Helper()
	for c := range guard.Classes {
		t, err := w.tally(c)
		w.must(err)
		all[c] = t
	}
	return all
}

// classOf is the class that the guard counts a frame in.
func (w wire) classOf(frame []byte, reason guardbenchReason) guard.Class {
	w.Helper()
	before := w.tallies()
	_, _, err := w.run(frame, reason, 1)
	w.must(err)
	found := guard.Class(-1)
	for c, t := range w.tallies() {
		if t != before[c] {
			if found >= 0 {
				w.Errorf("counted in %v and in %v", found, guard.Class(c))
			}
			found = guard.Class(c)
		}
	}
	return found
}

func ethernet(dst packet.MAC, kind uint16, payload []byte) []byte {
	f := packet.Ethernet{Dst: dst, Src: peerMAC, Type: kind}.Append(nil, payload)
	return append(f, make([]byte, max(0, 60-len(f)))...)
}

// ip is a packet for a MAC.
func ip(mac packet.MAC, src, dst netip.Addr, protocol uint8, payload []byte) []byte {
	if src.Is4() {
		return ethernet(mac, packet.TypeIPv4, packet.IPv4{TTL: 1, Protocol: protocol, Src: src, Dst: dst}.Append(nil, payload))
	}
	return ethernet(mac, packet.TypeIPv6, packet.IPv6{HopLimit: 1, NextHeader: protocol, Src: src, Dst: dst}.Append(nil, payload))
}

func tcp(src, dst netip.Addr, sport, dport uint16, flags uint8) []byte {
	return ip(routerMAC, src, dst, packet.ProtoTCP, packet.TCP{SrcPort: sport, DstPort: dport, Flags: flags}.Append(nil, src, dst, nil))
}

func udp(src, dst netip.Addr, sport, dport uint16) []byte {
	return ip(routerMAC, src, dst, packet.ProtoUDP, packet.UDP{SrcPort: sport, DstPort: dport}.Append(nil, src, dst, make([]byte, 24)))
}

func icmp6(mac packet.MAC, src, dst netip.Addr, kind uint8) []byte {
	return ip(mac, src, dst, packet.ProtoICMPv6, packet.ICMP{Type: kind}.Append(nil, src, dst, make([]byte, 20)))
}

func arp(mac packet.MAC, operation byte, sender, target netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, operation}
	b = append(append(b, peerMAC[:]...), sender.AsSlice()...)
	b = append(append(b, 0, 0, 0, 0, 0, 0), target.AsSlice()...)
	return ethernet(mac, packet.TypeARP, b)
}

func multicastMAC(a netip.Addr) packet.MAC {
	b := a.AsSlice()
	if a.Is4() {
		return packet.MAC{1, 0, 0x5e, b[1] & 0x7f, b[2], b[3]}
	}
	return packet.MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// Short names of reasons.
const (
	local     = guardbenchReasonREASON_LOCAL
	ttl       = guardbenchReasonREASON_TTL
	group     = guardbenchReasonREASON_GROUP_MAC
	noRoute   = guardbenchReasonREASON_NO_ROUTE
	fragment  = guardbenchReasonREASON_FRAGMENT
	linkLocal = guardbenchReasonREASON_LINK_LOCAL
	egress    = guardbenchReasonREASON_EGRESS
	etherType = guardbenchReasonREASON_ETHERTYPE
)

// TestClassOfPackets has a packet of each class, as a stranger sends it.
func TestClassOfPackets(t *testing.T) {
	w := newWire(t, nil)
	w.must(w.own(router4), w.own6(local))
	elsewhere := netip.MustParseAddr("198.51.100.7")
	ospf := netip.MustParseAddr("224.0.0.5")
	first := ip(routerMAC, stranger4, router4, packet.ProtoUDP, make([]byte, 26))
	first[14+6] = 0x20 // more fragments
	for _, c := range []struct {
		name   string
		frame  []byte
		reason guardbenchReason
		want   guard.Class
	}{
		{"kernel forwards", udp(stranger4, elsewhere, 1, 2), egress, guard.Kernel},
		{"OSPF hello", ip(multicastMAC(ospf), stranger4, ospf, 89, make([]byte, 26)), group, guard.RoutingNew},
		{"OSPF hello IPv6", ip(multicastMAC(group6), peer6, group6, 89, make([]byte, 26)), group, guard.RoutingNew},
		{"OSPF unicast", ip(routerMAC, stranger4, router4, 89, make([]byte, 26)), ttl, guard.RoutingNew},
		{"OSPF fragment", ip(routerMAC, stranger4, router4, 89, make([]byte, 26)), fragment, guard.RoutingNew},
		{"VRRP", ip(multicastMAC(ospf), stranger4, netip.MustParseAddr("224.0.0.18"), 112, make([]byte, 26)), group, guard.RoutingNew},
		{"BFD", udp(stranger4, router4, 50000, 3784), local, guard.RoutingNew},
		{"BFD IPv6", udp(peer6, peer6, 50000, 3784), linkLocal, guard.RoutingNew},
		{"ARP for the router", arp(packet.BroadcastMAC, 1, stranger4, router4), group, guard.ARP},
		{"ARP for another", arp(packet.BroadcastMAC, 1, stranger4, elsewhere), group, guard.ARPOthers},
		{"ARP reply", arp(routerMAC, 2, stranger4, router4), etherType, guard.ARP},
		{"ARP that ends early", ethernet(packet.BroadcastMAC, packet.TypeARP, nil)[:30], group, guard.ARPOthers},
		{"neighbour solicitation", icmp6(multicastMAC(group6), stranger6, group6, packet.ICMPv6Solicit), group, guard.ARP},
		{"neighbour advertisement", icmp6(routerMAC, stranger6, router6, packet.ICMPv6Advert), local, guard.ARP},
		{"LLDP", ethernet(packet.MAC{1, 0x80, 0xc2, 0, 0, 0xe}, 0x88cc, nil), group, guard.Link},
		{"spanning tree", ethernet(packet.MAC{1, 0x80, 0xc2, 0, 0, 0}, 38, nil), group, guard.Link},
		{"PPPoE session", ethernet(routerMAC, 0x8864, nil), etherType, guard.Kernel},
		{"unknown ethertype", ethernet(routerMAC, 0x9999, nil), etherType, guard.Stray},
		{"DHCP discover", udp(netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255}), 68, 67), guardbenchReasonREASON_BROADCAST, guard.DHCP},
		{"DHCPv6", udp(peer6, group6, 546, 547), guardbenchReasonREASON_MULTICAST, guard.DHCP},
		{"SYN", tcp(stranger4, router4, 40000, 22, packet.SYN), local, guard.TCP},
		{"SYN IPv6", tcp(stranger6, router6, 40000, 22, packet.SYN), local, guard.TCP},
		{"stray ACK", tcp(stranger4, router4, 40000, 22, packet.ACK), local, guard.TCP},
		{"TTL 1, for the router", tcp(stranger4, router4, 40000, 22, packet.ACK), ttl, guard.TCP},
		{"hop limit 1, for the router", tcp(stranger6, router6, 40000, 22, packet.ACK), ttl, guard.TCP},
		{"closed UDP port", udp(stranger4, router4, 40000, 9), local, guard.UDPClosed},
		{"ping", ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26)), local, guard.ICMP},
		{"ping IPv6", icmp6(routerMAC, stranger6, router6, packet.ICMPv6Echo), local, guard.ICMP},
		{"GRE", ip(routerMAC, stranger4, router4, packet.ProtoGRE, make([]byte, 26)), local, guard.Protocols},
		{"TTL 1, for another", udp(stranger4, elsewhere, 1, 2), ttl, guard.TTL},
		{"no route", udp(stranger4, elsewhere, 1, 2), noRoute, guard.NoRoute},
		{"no neighbour", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_NO_NEIGHBOUR, guard.NoNeighbour},
		{"fragment", first, fragment, guard.Fragment},
		{"options", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_OPTIONS, guard.Options},
		{"mDNS", udp(stranger4, netip.MustParseAddr("224.0.0.251"), 5353, 5353), guardbenchReasonREASON_MULTICAST, guard.Multicast},
		{"IPv6 fragment", ip(routerMAC, stranger6, stranger6, 44, make([]byte, 26)), guardbenchReasonREASON_EXTENSION_HEADER, guard.Fragment},
		{"IPsec AH", ip(routerMAC, stranger6, stranger6, 51, make([]byte, 26)), guardbenchReasonREASON_EXTENSION_HEADER, guard.Kernel},
		{"IPv6 destination options", ip(routerMAC, stranger6, stranger6, 60, make([]byte, 26)), guardbenchReasonREASON_EXTENSION_HEADER, guard.Options},
		{"other MAC", udp(stranger4, elsewhere, 1, 2), guardbenchReasonREASON_OTHER_MAC, guard.Stray},
	} {
		if got := w.classOf(c.frame, c.reason); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	w.must(w.own6(noRoute))
	if got := w.classOf(tcp(stranger6, stranger6, 40000, 22, packet.ACK), ttl); got != guard.TTL {
		t.Errorf("hop limit 1, for another: %v, want %v", got, guard.TTL)
	}
}

// TestSourcesThatTheKernelChecks: who may well be let through by the kernel is not limited.
func TestSourcesThatTheKernelChecks(t *testing.T) {
	w := newWire(t, nil)
	special, blackhole := guardbenchReasonREASON_SPECIAL_ROUTE, guardbenchReasonREASON_BLACKHOLE
	for _, c := range []struct {
		name string
		hop  uint64
		want guard.Class
	}{
		{"several next hops", hopGroup | 2<<8, guard.Kernel},
		{"a route that only the kernel can follow", hopStop | uint64(special)<<8, guard.Kernel},
		{"one next hop, elsewhere", hopVia | 7<<32, guard.Stray},
		{"no route", hopStop | uint64(noRoute)<<8, guard.Stray},
		{"a blackhole", hopStop | uint64(blackhole)<<8, guard.Stray},
	} {
		w.must(w.route(c.hop))
		for _, f := range [][]byte{udp(stranger4, peer4, 1, 2), udp(stranger6, stranger6, 1, 2)} {
			if got := w.classOf(f, guardbenchReasonREASON_SOURCE_CHECK); got != c.want {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
	w.must(w.route(hopGroup | 2<<8))
	if got := w.passed(udp(stranger6, stranger6, 1, 2), guardbenchReasonREASON_SOURCE_CHECK, 100_000); got != 100_000 {
		t.Errorf("of 100000 packets that the kernel may let through %d passed", got)
	}
}

// TestNeighboursAndPeers has stations that are known: by the kernel's neighbour table, which also
// knows their MACs, and by the configuration.
func TestNeighboursAndPeers(t *testing.T) {
	w := newWire(t, nil)
	w.must(w.own(router4), w.own6(local), w.neighbour(peer4, peerMAC, 1), w.neighbour(peer6, peerMAC, 2),
		w.neighbour(stranger4, packet.MAC{2, 9, 9, 9, 9, 9}, 3))
	ospf := netip.MustParseAddr("224.0.0.5")
	hello := func(src netip.Addr) []byte { return ip(multicastMAC(ospf), src, ospf, 89, make([]byte, 26)) }
	check := func(name string, frame []byte, reason guardbenchReason, want guard.Class) {
		t.Helper()
		if got := w.classOf(frame, reason); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("OSPF", hello(peer4), group, guard.Routing)
	check("OSPF in the name of a neighbour with another MAC", hello(stranger4), group, guard.RoutingNew)
	check("OSPF IPv6", ip(multicastMAC(group6), peer6, group6, 89, make([]byte, 26)), group, guard.Routing)
	check("BFD", udp(peer4, router4, 50000, 3784), local, guard.Routing)
	check("ARP", arp(packet.BroadcastMAC, 1, peer4, router4), group, guard.Neighbour)
	check("solicitation", icmp6(multicastMAC(group6), peer6, group6, packet.ICMPv6Solicit), group, guard.Neighbour)
	check("SYN of a neighbour that is no peer", tcp(peer4, router4, 40000, 179, packet.SYN), local, guard.TCP)

	bgp := netip.MustParseAddr("198.51.100.4")
	gateway := netip.MustParseAddr("fe80::7")
	w.must(w.peer(guard.Peer{Address: bgp, BGP: true}, 0), w.peer(guard.Peer{Address: gateway, Interface: "lo"}, port))
	check("SYN of a peer", tcp(bgp, router4, 40000, 179, packet.SYN), local, guard.BGP)
	check("answer of a peer", tcp(bgp, router4, 179, 40000, packet.SYN|packet.ACK), ttl, guard.BGP)
	check("another port of a peer", tcp(bgp, router4, 40000, 22, packet.SYN), local, guard.TCP)
	check("ARP of a peer that is not resolved", arp(routerMAC, 2, bgp, router4), etherType, guard.Neighbour)
	check("advertisement of a next hop", icmp6(routerMAC, gateway, peer6, packet.ICMPv6Advert), linkLocal, guard.Neighbour)
	check("SYN of a next hop that is no peer", tcp(gateway, peer6, 40000, 179, packet.SYN), linkLocal, guard.TCP)
}

// TestSessionsAreThoseThatSocketsHold has connections of this namespace, whose packets are told by
// the kernel's own tables from others with one number changed.
func TestSessionsAreThoseThatSocketsHold(t *testing.T) {
	w := newWire(t, nil)
	lo, err := netlink.LinkByName("lo")
	w.must(err, netlink.LinkSetUp(lo))
	for _, address := range []netip.Addr{router4, router6} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
		w.must(err)
		defer listener.Close()
		client, err := net.Dial("tcp", listener.Addr().String())
		w.must(err)
		defer client.Close()
		from := client.LocalAddr().(*net.TCPAddr).AddrPort()
		to := client.RemoteAddr().(*net.TCPAddr).AddrPort()
		for _, c := range []struct {
			name  string
			sport uint16
			flags uint8
			want  guard.Class
		}{
			{"its packet", from.Port(), packet.ACK, guard.Session},
			{"its reset", from.Port(), packet.RST, guard.Session},
			{"a SYN with its ports", from.Port(), packet.SYN, guard.TCP},
			{"another port, which the listener would take", from.Port() ^ 1, packet.ACK, guard.TCP},
		} {
			if got := w.classOf(tcp(address, address, c.sport, to.Port(), c.flags), local); got != c.want {
				t.Errorf("%v: %s: %v, want %v", address, c.name, got, c.want)
			}
		}

		server, err := net.ListenPacket("udp", net.JoinHostPort(address.String(), "0"))
		w.must(err)
		defer server.Close()
		open := uint16(server.LocalAddr().(*net.UDPAddr).Port)
		if got := w.classOf(udp(address, address, 40000, open), local); got != guard.UDP {
			t.Errorf("%v: an open port: %v, want %v", address, got, guard.UDP)
		}
		asker, err := net.Dial("udp", server.LocalAddr().String())
		w.must(err)
		defer asker.Close()
		asked := uint16(asker.LocalAddr().(*net.UDPAddr).Port)
		if got := w.classOf(udp(address, address, open, asked), local); got != guard.Session {
			t.Errorf("%v: an answer: %v, want %v", address, got, guard.Session)
		}
		if got := w.classOf(udp(address, address, open^1, asked), local); got != guard.UDPClosed {
			t.Errorf("%v: a forged answer: %v, want %v", address, got, guard.UDPClosed)
		}
	}
}

// TestWhatTheKernelMayTranslate is to an address of the router for reasons that leave open whether it is the
// router's: only what a socket takes is, and what asks for an answer to a ping.
func TestWhatTheKernelMayTranslate(t *testing.T) {
	w := newWire(t, nil)
	w.must(w.own(router4), w.own6(local))
	lo, err := netlink.LinkByName("lo")
	w.must(err, netlink.LinkSetUp(lo))
	for _, at := range []struct{ stranger, router netip.Addr }{{stranger4, router4}, {stranger6, router6}} {
		listener, err := net.Listen("tcp", net.JoinHostPort(at.router.String(), "0"))
		w.must(err)
		defer listener.Close()
		server, err := net.ListenPacket("udp", net.JoinHostPort(at.router.String(), "0"))
		w.must(err)
		defer server.Close()
		open, openUDP := uint16(listener.Addr().(*net.TCPAddr).Port), uint16(server.LocalAddr().(*net.UDPAddr).Port)
		ping, pong := uint8(packet.ICMPEcho), uint8(packet.ICMPEchoReply)
		icmp := func(kind uint8) []byte {
			return ip(routerMAC, at.stranger, at.router, packet.ProtoICMP, packet.ICMP{Type: kind}.Append(nil, at.stranger, at.router, make([]byte, 18)))
		}
		if at.router.Is6() {
			ping, pong = packet.ICMPv6Echo, packet.ICMPv6EchoReply
			icmp = func(kind uint8) []byte { return icmp6(routerMAC, at.stranger, at.router, kind) }
		}
		for _, r := range []struct {
			reason guardbenchReason
			base   guard.Class
		}{{guardbenchReasonREASON_BEGINNING, guard.Beginning}, {guardbenchReasonREASON_FIREWALL, guard.Kernel}} {
			for _, c := range []struct {
				name  string
				frame []byte
				want  guard.Class
			}{
				{"SYN to a listener", tcp(at.stranger, at.router, 40000, open, packet.SYN), guard.TCP},
				{"SYN to nobody", tcp(at.stranger, at.router, 40000, open^1, packet.SYN), r.base},
				{"ACK", tcp(at.stranger, at.router, 40000, open, packet.ACK), r.base},
				{"UDP to a socket", udp(at.stranger, at.router, 40000, openUDP), guard.UDP},
				{"UDP to nobody", udp(at.stranger, at.router, 40000, openUDP^1), r.base},
				{"ping", icmp(ping), guard.ICMP},
				{"answer to a ping", icmp(pong), r.base},
				{"GRE", ip(routerMAC, at.stranger, at.router, packet.ProtoGRE, make([]byte, 26)), r.base},
			} {
				if got := w.classOf(c.frame, r.reason); got != c.want {
					t.Errorf("%v, %v: %s: %v, want %v", at.router, r.base, c.name, got, c.want)
				}
			}
		}
		known := guardbenchReasonREASON_CONNECTION
		if got := w.classOf(udp(at.stranger, at.router, 40000, openUDP), known); got != guard.Kernel {
			t.Errorf("%v: UDP that conntrack knows: %v, want %v", at.router, got, guard.Kernel)
		}
		if got := w.classOf(icmp(pong), known); got != guard.Beginning {
			t.Errorf("%v: answer to a ping: %v, want %v", at.router, got, guard.Beginning)
		}
	}
}

// TestBudgets turns the clock by hand.
func TestBudgets(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) {
		s.Budgets[guard.ICMP] = guard.Budget{PerSecond: 1000}
		s.Budgets[guard.TCP] = guard.Budget{PerSource: 100}
		s.Budgets[guard.UDPClosed] = guard.Budget{}
	})
	ping := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d packets passed, want %d", what, got, want)
		}
	}
	want("a burst of a quarter of a second", w.passed(ping, local, 5000), 250)
	want("without time", w.passed(ping, local, 5000), 0)
	w.ask.now += uint64(100 * time.Millisecond)
	want("after a tenth of a second", w.passed(ping, local, 5000), 100)
	w.ask.now += uint64(time.Hour)
	want("after an hour", w.passed(ping, local, 5000), 250)

	syn := tcp(stranger4, router4, 40000, 22, packet.SYN)
	want("of one source", w.passed(syn, local, 5000), 25)
	want("of another", w.passed(tcp(peer4, router4, 40000, 22, packet.SYN), local, 5000), 25)
	w.ask.now += uint64(time.Second) / 10
	want("of the first after a tenth of a second", w.passed(syn, local, 5000), 10)
	want("without a limit", w.passed(udp(stranger4, router4, 1, 2), local, 5000), 5000)

	ruled, err := w.tally(guard.TCP)
	w.must(err)
	if ruled.Passed != 60 || ruled.OverSource != 3*5000-60 || ruled.OverClass != 0 {
		t.Errorf("TCP: counted %+v", ruled)
	}
	flooded, err := w.tally(guard.ICMP)
	w.must(err)
	if flooded.OverClass != 4*5000-600 || flooded.OverSource != 0 {
		t.Errorf("ICMP: counted %+v", flooded)
	}
}

// TestOneFlooderIsCutBeforeOthers lets one source flood a class, beside sources that send little.
func TestOneFlooderIsCutBeforeOthers(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) { s.Budgets[guard.ICMP] = guard.Budget{PerSecond: 1000, PerSource: 100} })
	flood := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	passed, sent := 0, 0
	for range 100 { // a second in steps of 10 ms
		w.passed(flood, local, 1000)
		if sent%2 == 0 { // 50 sources with a packet a second each
			quiet := netip.AddrFrom4([4]byte{10, 0, 0, byte(sent)})
			passed += w.passed(ip(routerMAC, quiet, router4, packet.ProtoICMP, make([]byte, 26)), local, 1)
		} else {
			passed++
		}
		sent++
		w.ask.now += uint64(10 * time.Millisecond)
	}
	if passed != sent {
		t.Errorf("of others, %d of %d packets passed beside one flooder", passed, sent)
	}
}

// TestOneTunnelHasWhatOthersLeave: a source of fragments has far more than its share while nobody else
// needs it, and others lose nothing when they do.
func TestOneTunnelHasWhatOthersLeave(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) { s.Budgets[guard.Fragment] = guard.Budget{PerSecond: 20_000, PerSource: 2000} })
	piece := func(src netip.Addr) []byte {
		f := ip(routerMAC, src, peer4, packet.ProtoUDP, make([]byte, 26))
		f[14+6] = 0x20
		return f
	}
	second := func(perStep int, quiet bool) (tunnel, others int) { // in steps of 50 ms
		for range 20 {
			tunnel += w.passed(piece(stranger4), fragment, perStep)
			for i := 0; quiet && i < 10; i++ {
				others += w.passed(piece(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})), fragment, 50)
			}
			w.ask.now += uint64(50 * time.Millisecond)
		}
		return tunnel, others
	}
	if got, _ := second(900, false); got != 18_000 {
		t.Errorf("alone, %d of 18000 fragments passed", got)
	}
	second(5000, false)
	tunnel, others := second(5000, true)
	if others != 10_000 || tunnel < 9_000 || tunnel > 15_000 {
		t.Errorf("beside a flood 10 sources had %d of their 10000 fragments, the flooder %d", others, tunnel)
	}
}

// TestForgedSourcesHurtNoOtherClass floods a class from a hundred thousand sources: neither what has a class
// of its own nor what comes from a source that was never forged is cut off.
func TestForgedSourcesHurtNoOtherClass(t *testing.T) {
	w := newWire(t, nil)
	w.must(w.neighbour(peer4, peerMAC, 1))
	hello := ip(multicastMAC(netip.MustParseAddr("224.0.0.5")), peer4, netip.MustParseAddr("224.0.0.5"), 89, make([]byte, 26))
	ping := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	syn := tcp(stranger4, router4, 40000, 22, packet.SYN)
	hellos := 0
	for range 20 {
		w.ask.spread = 100_000
		for _, f := range [][]byte{ping, syn, udp(stranger4, router4, 1, 2)} {
			w.passed(f, local, 20_000)
		}
		w.ask.spread = 0
		hellos += w.passed(hello, group, 10)
		w.ask.now += uint64(100 * time.Millisecond)
	}
	if hellos != 200 {
		t.Errorf("%d of 200 OSPF packets passed", hellos)
	}
	flooded, err := w.tally(guard.ICMP)
	w.must(err)
	// Two seconds at 1,000 a second and the burst.
	if flooded.Passed < 2000 || flooded.Passed > 2250 {
		t.Errorf("%d pings of forged sources passed, want 2000 to 2250", flooded.Passed)
	}
	if rare := flooded.OverSource * 100 / (flooded.OverClass + flooded.OverSource); rare > 10 {
		t.Errorf("%d %% of the forged sources were taken for one that floods", rare)
	}
}

// TestOff has a guard that is off: everything passes, nothing is counted.
func TestOff(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) { s.On = false })
	ping := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	for range 1000 {
		if action, _, err := w.run(ping, local, 1); err != nil || action != 2 {
			t.Fatalf("action %d, %v; want 2 (pass)", action, err)
		}
	}
	if w.tallies() != [guard.Classes]guard.Tally{} {
		t.Error("a guard that is off counts")
	}
}

// TestClassesAgree holds the list of bpf/guard_budget.h and that of package guard together.
func TestClassesAgree(t *testing.T) {
	if guardbenchGuardClassGUARD_CLASS_COUNT != guardbenchGuardClass(guard.Classes) {
		t.Fatalf("%d classes in the program, %d in Go", guardbenchGuardClassGUARD_CLASS_COUNT, guard.Classes)
	}
	for class, name := range map[guardbenchGuardClass]string{
		guardbenchGuardClassGUARD_KERNEL: "kernel", guardbenchGuardClassGUARD_SESSION: "sessions", guardbenchGuardClassGUARD_BGP: "bgp-peers",
		guardbenchGuardClassGUARD_ROUTING: "routing-protocols", guardbenchGuardClassGUARD_ROUTING_NEW: "routing-strangers",
		guardbenchGuardClassGUARD_NEIGHBOUR: "neighbours", guardbenchGuardClassGUARD_ARP: "arp", guardbenchGuardClassGUARD_ARP_OTHERS: "arp-others",
		guardbenchGuardClassGUARD_LINK: "link", guardbenchGuardClassGUARD_DHCP: "dhcp", guardbenchGuardClassGUARD_TCP: "tcp",
		guardbenchGuardClassGUARD_UDP: "udp", guardbenchGuardClassGUARD_UDP_CLOSED: "udp-closed", guardbenchGuardClassGUARD_ICMP: "icmp",
		guardbenchGuardClassGUARD_PROTOCOLS: "protocols", guardbenchGuardClassGUARD_TTL: "ttl", guardbenchGuardClassGUARD_NO_ROUTE: "no-route",
		guardbenchGuardClassGUARD_NO_NEIGHBOUR: "no-neighbour", guardbenchGuardClassGUARD_FRAGMENT: "fragments",
		guardbenchGuardClassGUARD_BEGINNING: "new-connections", guardbenchGuardClassGUARD_OPTIONS: "options",
		guardbenchGuardClassGUARD_MULTICAST: "multicast", guardbenchGuardClassGUARD_STRAY: "strays",
	} {
		if guard.Class(class).String() != name {
			t.Errorf("class %d is %v, want %s", class, guard.Class(class), name)
		}
	}
}

// BenchmarkGuard is what the guard costs for a packet, on top of parsing its frame.
func BenchmarkGuard(b *testing.B) {
	d, err := newBed()
	if err != nil {
		b.Fatal(err)
	}
	defer d.close()
	if err := d.own(router4); err != nil {
		b.Fatal(err)
	}
	d.guard.Set(guard.Render(emptyConfig, 1))
	listener, err := net.Listen("tcp", net.JoinHostPort(router4.String(), "0"))
	if err != nil && !strings.Contains(err.Error(), "assign") {
		b.Fatal(err)
	}
	if listener != nil {
		defer listener.Close()
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		reason guardbenchReason
		spread uint32
	}{
		{"kernel", udp(stranger4, peer4, 1, 2), egress, 0},
		{"no-route one source", udp(stranger4, peer4, 1, 2), noRoute, 0},
		{"no-route forged sources", udp(stranger4, peer4, 1, 2), noRoute, 1 << 20},
		{"ping one source", ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26)), local, 0},
		{"ping forged sources", ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26)), local, 1 << 20},
		{"SYN forged sources", tcp(stranger4, router4, 40000, 22, packet.SYN), local, 1 << 20},
		{"ACK forged sources", tcp(stranger4, router4, 40000, 22, packet.ACK), local, 1 << 20},
		{"UDP closed forged sources", udp(stranger4, router4, 40000, 9), local, 1 << 20},
		{"ARP for another", arp(packet.BroadcastMAC, 1, stranger4, peer4), group, 0},
		{"OSPF stranger", ip(multicastMAC(netip.MustParseAddr("224.0.0.5")), stranger4, netip.MustParseAddr("224.0.0.5"), 89, make([]byte, 26)), group, 0},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "-"), func(b *testing.B) {
			d.ask.spread = c.spread
			var with, without []float64
			for b.Loop() {
				for _, ignore := range []uint32{1, 0} {
					d.ask.ignore = ignore
					_, each, err := d.run(c.frame, c.reason, 200_000)
					if err != nil {
						b.Fatal(err)
					}
					if ignore == 1 {
						without = append(without, float64(each))
					} else {
						with = append(with, float64(each))
					}
				}
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(with[len(with)/2]-without[len(without)/2], "ns/packet")
			b.ReportMetric(without[len(without)/2], "ns/around")
			b.ReportMetric(0, "ns/op")
		})
	}
}
