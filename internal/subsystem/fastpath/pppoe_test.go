// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"minne/internal/lab/statistics"
	"minne/internal/model/packet"
	"minne/internal/model/rib"
)

// paperSessions are sessions of links that exist on paper only: the kernel here has no PPP.
type paperSessions struct {
	forwardingEverywhere
	list *[]session
}

func (p paperSessions) sessions() []session { return *p.list }

// concentrator is the provider's end of the sessions.
var concentrator = net.HardwareAddr{2, 0, 0, 0, 9, 9}

// inSession puts an Ethernet frame's IP packet into a PPPoE session, behind its tags.
func inSession(frame []byte, id uint16) []byte {
	return packet.AddSession(frame, packet.Session{ID: id, Peer: packet.MAC(frame[6:12])})
}

const (
	onPort, onVLAN, line = 1001, 1002, 1003 // ifindexes: a session on a port, one on a VLAN, that VLAN
	idOnPort, idOnVLAN   = 0x1234, 0x00ff
)

// newSessions is a bench whose port "out" carries a session, and a VLAN with another one.
func newSessions(t testing.TB) (*bench, *[]session) {
	b := newBench(t)
	b.watch()
	<-b.watched
	list := &[]session{{"out", idOnPort, [6]byte(concentrator)}, {"line", idOnVLAN, [6]byte(concentrator)}}
	b.fast.tables.read = paperSessions{list: list}
	d := b.desired()
	d.Interfaces["isp"] = DesiredPort{FastPath: true, Carried: true, Session: "out"}
	d.Interfaces["isp-vlan"] = DesiredPort{FastPath: true, Carried: true, Session: "line"}
	d.Interfaces["line"] = DesiredPort{FastPath: true, Carried: true}
	must(t, b.fast.Apply(context.Background(), d))
	b.fast.Links([]rib.Link{
		{Index: line, Name: "line", Parent: b.out.Attrs().Index, VLANID: 7, VLANProto: 0x8100, Up: true, Running: true, MTU: 1500, MAC: macOut},
		{Index: onPort, Name: "isp", Kind: "ppp", Up: true, Running: true, MTU: 1492},
		{Index: onVLAN, Name: "isp-vlan", Kind: "ppp", Up: true, Running: true, MTU: 1492},
	})
	var routes []rib.RouteChange
	for prefix, to := range map[string]int{"203.0.113.0/24": onPort, "2001:db8:f::/64": onPort, "203.0.114.0/24": onVLAN} {
		routes = append(routes, rib.RouteChange{Route: rib.Route{Prefix: netip.MustParsePrefix(prefix), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{{Interface: to, Weight: 1}}}})
	}
	gateway := rib.Hop{Interface: onPort, Gateway: netip.MustParseAddr("fe80::1"), Weight: 1}
	b.fast.Routes(append(routes, rib.RouteChange{Route: rib.Route{Prefix: netip.MustParsePrefix("2001:db8:e::/64"), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{gateway}}}))
	b.watched = make(chan struct{})
	close(b.watched)
	return b, list
}

// TestPPPoE: packets get the header of their session and lose it, on a port and on a VLAN, of both families; from one
// session to another they exchange it. What is not exactly an IP packet in that session is the kernel's.
func TestPPPoE(t *testing.T) {
	b, list := newSessions(t)
	c7 := vlanTag{0x8100, 7}
	for _, c := range []struct {
		name   string
		in     []byte
		on     string
		out    []byte
		egress int
	}{
		{"out", udp4(macIn, macA, "192.0.2.2", "203.0.113.9", 64, 18), "in",
			inSession(udp4(concentrator, macOut, "192.0.2.2", "203.0.113.9", 63, 18), idOnPort), onPort},
		{"out IPv6", udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::9", 64, 9), "in",
			inSession(udp6(concentrator, macOut, "2001:db8:a::2", "2001:db8:f::9", 63, 9), idOnPort), onPort},
		{"out IPv6 by a gateway", udp6(macIn, macA, "2001:db8:a::2", "2001:db8:e::9", 64, 9), "in",
			inSession(udp6(concentrator, macOut, "2001:db8:a::2", "2001:db8:e::9", 63, 9), idOnPort), onPort},
		{"out on a VLAN", udp4(macIn, macA, "192.0.2.2", "203.0.114.9", 64, 18), "in",
			inSession(tagged(udp4(concentrator, macOut, "192.0.2.2", "203.0.114.9", 63, 18), c7), idOnVLAN), onVLAN},
		{"largest", udp4(macIn, macA, "192.0.2.2", "203.0.113.9", 64, 1464), "in",
			inSession(udp4(concentrator, macOut, "192.0.2.2", "203.0.113.9", 63, 1464), idOnPort), onPort},
		{"in", inSession(udp4(macOut, concentrator, "203.0.113.9", "192.0.2.2", 64, 18), idOnPort), "out",
			udp4(macA, macIn, "203.0.113.9", "192.0.2.2", 63, 18), 0},
		{"in with padding", append(inSession(udp4(macOut, concentrator, "203.0.113.9", "192.0.2.2", 64, 1), idOnPort), 1, 2, 3), "out",
			udp4(macA, macIn, "203.0.113.9", "192.0.2.2", 63, 1), 0},
		{"in IPv6", inSession(udp6(macOut, concentrator, "2001:db8:f::9", "2001:db8:a::2", 64, 0), idOnPort), "out",
			udp6(macA, macIn, "2001:db8:f::9", "2001:db8:a::2", 63, 0), 0},
		{"in on a VLAN", inSession(tagged(udp4(macOut, concentrator, "203.0.114.9", "192.0.2.2", 64, 18), c7), idOnVLAN), "out",
			udp4(macA, macIn, "203.0.114.9", "192.0.2.2", 63, 18), 0},
		{"from session to session", inSession(udp4(macOut, concentrator, "203.0.113.9", "203.0.114.9", 64, 18), idOnPort), "out",
			inSession(tagged(udp4(concentrator, macOut, "203.0.113.9", "203.0.114.9", 63, 18), c7), idOnVLAN), onVLAN},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, egress := b.in, c.egress
			if c.on == "out" {
				on = b.out
			}
			if egress == 0 {
				egress = b.in.Attrs().Index
			}
			v := b.expect(c.in, on, Forwarded)
			if v.Egress != egress || !bytes.Equal(v.Packet, c.out) {
				t.Errorf("out of %d\n%x\nexpected %d\n%x", v.Egress, v.Packet, egress, c.out)
			}
		})
	}
	good := inSession(udp4(macOut, concentrator, "203.0.113.9", "192.0.2.2", 64, 18), idOnPort)
	changed := func(at int, bytes ...byte) []byte {
		f := slices.Clone(good)
		copy(f[at:], bytes)
		return f
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		reason routerReason
	}{
		{"another session's number", changed(16, 0x12, 0x35), routerReasonREASON_ETHERTYPE},
		{"another sender", changed(6, 2, 0, 0, 0, 9, 8), routerReasonREASON_ETHERTYPE},
		{"for another station", changed(0, 2, 0, 0, 0, 9, 8), routerReasonREASON_OTHER_MAC},
		{"to all", changed(0, 255, 255, 255, 255, 255, 255), routerReasonREASON_GROUP_MAC},
		{"the end of a session", changed(14, 0x11, 0xa7), routerReasonREASON_ETHERTYPE},
		{"LCP", changed(20, 0xc0, 0x21), routerReasonREASON_ETHERTYPE},
		{"longer than the frame", changed(18, 0x00, 0x40), routerReasonREASON_ETHERTYPE},
		{"no room for the protocol", changed(18, 0x00, 0x01), routerReasonREASON_ETHERTYPE},
		{"nothing but the protocol", changed(18, 0x00, 0x02), routerReasonREASON_ETHERTYPE},
		{"the IP packet is longer than the session says", changed(18, 0x00, 0x2f), routerReasonREASON_BAD_LENGTH},
		{"ends in the header", good[:20], routerReasonREASON_ETHERTYPE},
		{"ends in the IP header", inSession(udp4(macOut, concentrator, "203.0.113.9", "192.0.2.2", 64, 18)[:30], idOnPort), routerReasonREASON_TRUNCATED},
		{"of a session on the VLAN", inSession(udp4(macOut, concentrator, "203.0.114.9", "192.0.2.2", 64, 18), idOnVLAN), routerReasonREASON_ETHERTYPE},
		{"too large for a session", udp4(macOut, macB, "198.51.100.2", "203.0.113.9", 64, 1465), routerReasonREASON_TOO_BIG},
	} {
		t.Run(c.name, func(t *testing.T) { b.expect(c.frame, b.out, Reason(c.reason)) })
	}

	t.Run("explained", func(t *testing.T) {
		arrival, err := b.fast.ArrivalOf("isp-vlan")
		must(t, err)
		frame := arrival.InSession(packet.AddTags(udp4(arrival.MAC[:], concentrator, "203.0.114.9", "192.0.2.2", 64, 18), arrival.Tags))
		e, err := b.fast.Explain(frame, arrival.Port)
		must(t, err)
		if e.Verdict != VerdictForwarded || e.Interface != "isp-vlan" || e.IP.Source.String() != "203.0.114.9" || e.IP.Session != idOnVLAN {
			t.Errorf("%+v", e)
		}
	})

	links := func() {
		b.fast.Links([]rib.Link{{Index: onPort, Name: "isp", Kind: "ppp", Up: true, Running: true, MTU: 1492}})
	}
	out := udp4(macIn, macA, "192.0.2.2", "203.0.113.9", 64, 18)
	t.Run("dialed again", func(t *testing.T) {
		(*list)[0].id = 77
		links()
		b.expect(good, b.out, Reason(routerReasonREASON_ETHERTYPE))
		b.expect(changed(16, 0, 77), b.out, Forwarded)
		if v := b.expect(out, b.in, Forwarded); binary.BigEndian.Uint16(v.Packet[16:]) != 77 {
			t.Errorf("%x", v.Packet)
		}
		(*list)[0].id = idOnPort
		links()
		b.expect(good, b.out, Forwarded)
	})
	t.Run("two sessions on one interface", func(t *testing.T) {
		*list = append(*list, session{"out", 5, [6]byte(concentrator)})
		links()
		b.expect(good, b.out, Reason(routerReasonREASON_ETHERTYPE))
		b.expect(out, b.in, Reason(routerReasonREASON_EGRESS))
		*list = (*list)[:2]
		links()
		b.expect(good, b.out, Forwarded)
	})
	t.Run("down", func(t *testing.T) {
		b.fast.Links([]rib.Link{{Index: onPort, Name: "isp", Kind: "ppp", MTU: 1492}})
		b.expect(good, b.out, Reason(routerReasonREASON_ETHERTYPE))
		b.expect(out, b.in, Reason(routerReasonREASON_EGRESS))
		links()
		b.expect(good, b.out, Forwarded)
	})
	t.Run("no longer configured", func(t *testing.T) {
		must(t, b.fast.Apply(context.Background(), b.desired()))
		b.expect(good, b.out, Reason(routerReasonREASON_ETHERTYPE))
		b.expect(out, b.in, Reason(routerReasonREASON_EGRESS))
	})
}

// BenchmarkSession is the program's own cost of a packet that comes in and leaves by PPPoE sessions, beside one that does
// neither: one flow, hot caches. Here both ends of a session have the router's MAC, so that the packet can come in again.
func BenchmarkSession(b *testing.B) {
	bench, list := newSessions(b)
	(*list)[0].peer = [6]byte(macOut)
	bench.fast.Links([]rib.Link{{Index: onPort, Name: "isp", Kind: "ppp", Up: true, Running: true, MTU: 1492}})
	gateway := rib.Hop{Interface: bench.out.Attrs().Index, Gateway: netip.MustParseAddr("198.51.100.3"), Weight: 1}
	bench.fast.Neighbours([]rib.Neighbour{{Interface: bench.out.Attrs().Index, Address: gateway.Gateway, State: rib.NeighPermanent, MAC: macOut}})
	bench.fast.Routes([]rib.RouteChange{{Route: rib.Route{Prefix: netip.MustParsePrefix("203.0.115.0/24"), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{gateway}}}})
	prog := bench.fast.prog
	bench.loopBy(bench.out)
	for word := range 2 {
		prog.sessionsAt.store(2+word, prog.sessionsAt.load(2*bench.out.Attrs().Index+word))
	}
	frames := map[string][]byte{
		"plain":   udp4(macOut, macOut, "192.0.2.2", "203.0.115.2", 255, 18),
		"session": inSession(udp4(macOut, macOut, "192.0.2.2", "203.0.113.2", 255, 18), idOnPort),
	}
	for name, frame := range frames {
		if v := bench.run(frame, bench.out); v.Reason != Forwarded || !bytes.Equal(v.Packet[:20], frame[:20]) {
			b.Fatalf("%s: %v %x", name, v.Reason, v.Packet)
		}
	}
	once := func(frame []byte) float64 { return float64(bench.repeat(frame).Nanoseconds()) }
	const rounds = 400
	var plain, again, session []float64
	for range b.N {
		for range rounds { // in turn
			plain, session, again = append(plain, once(frames["plain"])), append(session, once(frames["session"])), append(again, once(frames["plain"]))
		}
	}
	b.ReportMetric(statistics.Median(plain), "ns/plain")
	b.ReportMetric(statistics.Median(session)-statistics.Median(plain), "ns-more/session")
	b.ReportMetric(statistics.Median(again)-statistics.Median(plain), "ns-more/plain")
	b.ReportMetric(0, "ns/op")
}

func TestReadSessions(t *testing.T) {
	const text = `Id       Address              Device
00003412 02:00:00:00:09:09     eth0
0000FF00 02:00:00:00:09:0a   line.7
nonsense
00010000 02:00:00:00:09:0b     eth1
`
	got := fmt.Sprint(readSessions(strings.NewReader(text)))
	want := fmt.Sprint([]session{{"eth0", 0x1234, [6]byte{2, 0, 0, 0, 9, 9}}, {"line.7", 0x00ff, [6]byte{2, 0, 0, 0, 9, 10}}})
	if got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
}
