// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
)

// parcel is a packet between the two hosts of a bench, in the words of a rule.
type parcel struct {
	from, to string // address and port
	protocol uint8
	flags    uint8 // of TCP
	kind     uint8 // of ICMP: its type
	ttl      uint8 // 64 when it is 0
}

// frame writes a parcel as it arrives at the router.
func (p parcel) frame(station, sender net.HardwareAddr) []byte {
	from, to := netip.MustParseAddrPort(p.from), netip.MustParseAddrPort(p.to)
	var upper []byte
	payload := []byte("eighteen bytes ...")
	switch p.protocol {
	case packet.ProtoTCP:
		upper = packet.TCP{SrcPort: from.Port(), DstPort: to.Port(), Seq: 1000, Ack: 2000, Flags: p.flags, Window: 500}.Append(nil, from.Addr(), to.Addr(), payload)
	case packet.ProtoICMP, packet.ProtoICMPv6:
		upper = packet.ICMP{Type: p.kind, Rest: 0x00070001}.Append(nil, from.Addr(), to.Addr(), payload)
	case packet.ProtoUDP:
		upper = packet.UDP{SrcPort: from.Port(), DstPort: to.Port()}.Append(nil, from.Addr(), to.Addr(), payload)
	default:
		upper = payload
	}
	ttl := p.ttl
	if ttl == 0 {
		ttl = 64
	}
	e := packet.Ethernet{Dst: packet.MAC(station), Src: packet.MAC(sender), Type: packet.TypeIPv6}
	if from.Addr().Is4() {
		e.Type = packet.TypeIPv4
		return e.Append(nil, packet.IPv4{TTL: ttl, Protocol: p.protocol, Src: from.Addr(), Dst: to.Addr()}.Append(nil, upper))
	}
	return e.Append(nil, packet.IPv6{NextHeader: p.protocol, HopLimit: ttl, Src: from.Addr(), Dst: to.Addr()}.Append(nil, upper))
}

// toB and toA are a parcel as it arrives from either host.
func (p parcel) toB() []byte { return p.frame(macIn, macA) }
func (p parcel) toA() []byte { return p.frame(macOut, macB) }

// udpTo is a datagram from host a to a port of host b.
func udpTo(port string) parcel {
	return parcel{from: "192.0.2.2:4000", to: "198.51.100.2:" + port, protocol: packet.ProtoUDP}
}

// The numbers of a bench's ways for the classifier.
const (
	wayThere = 1 // from in to out
	wayBack  = 10
)

// stateless is a policy between the two ports that keeps no state.
func stateless(rules ...classify.Rule) *filter.Policy {
	p := &filter.Policy{
		Zones:    map[string]uint8{"in": 1, "out": 2},
		Pairs:    map[filter.ZonePair]filter.Pair{{From: 1, To: 2}: {ID: wayThere, Stateless: true}, {From: 2, To: 1}: {ID: wayBack, Stateless: true}},
		Rules:    rules,
		Counters: 20,
	}
	return p
}

func permit(counter uint16) uint32 {
	return filter.Verdict{Action: filter.Permit, Counter: counter}.Word()
}
func drop(counter uint16) uint32 { return filter.Verdict{Action: filter.Drop, Counter: counter}.Word() }

func portsOf(numbers ...uint16) (list []classify.Range) {
	for _, n := range numbers {
		list = append(list, classify.Range{First: n, Last: n})
	}
	return list
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

var (
	onlyTCP = classify.ProtocolSet(packet.ProtoTCP)
	onlyUDP = classify.ProtocolSet(packet.ProtoUDP)
)

// evaluateBy puts a firewall into the bench's fast path.
func (b *bench) evaluateBy(p *filter.Policy) {
	b.t.Helper()
	must(b.t, b.fast.Firewall().Apply(context.Background(), p))
}

// newEvaluated is a bench whose fast path forwards, and evaluates by a policy.
func newEvaluated(t testing.TB, p *filter.Policy) *bench {
	t.Helper()
	b := newBenchWith(t, p)
	b.awaitForwarding()
	return b
}

func (b *bench) awaitForwarding() {
	b.t.Helper()
	eventually(b.t, "the fast path forwards both ways", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).NextHop != 0 &&
			b.run(udp6(macOut, macB, "2001:db8:b::2", "2001:db8:a::2", 64, 0), b.out).NextHop != 0
	})
}

const (
	denied      = Reason(routerReasonREASON_DENIED)
	byKernel    = Reason(routerReasonREASON_FIREWALL)
	byRule      = Reason(routerReasonREASON_RULE)
	noZone      = Reason(routerReasonREASON_ZONE)
	begins      = Reason(routerReasonREASON_BEGINNING)
	ofConntrack = Reason(routerReasonREASON_CONNECTION)
	ends        = Reason(routerReasonREASON_ENDS)
	badHeader   = Reason(routerReasonREASON_TRANSPORT)
	clamped     = Reason(routerReasonREASON_SEGMENT_SIZE)
)

// TestAFirewallForTheKernelAlone: what the fast path can't repeat, it leaves to the kernel, whether it
// had a firewall before or not, and whether it runs already or starts.
func TestAFirewallForTheKernelAlone(t *testing.T) {
	alone := &filter.Policy{Kernel: "too many zones"}
	b := newBench(t)
	b.awaitForwarding()
	frame := udpTo("53").toB()
	b.expect(frame, b.in, Forwarded)
	b.evaluateBy(alone)
	b.expect(frame, b.in, byKernel)
	b.evaluateBy(stateless(classify.Rule{Verdict: permit(1)}))
	b.expect(frame, b.in, Forwarded)
	b.evaluateBy(alone)
	b.expect(frame, b.in, byKernel)
	b.expect(udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 0), b.in, byKernel)
	b.evaluateBy(nil)
	b.expect(frame, b.in, Forwarded)

	b.stop()
	must(t, Off(b.inst))
	b.firewall = alone
	b.start()
	b.expect(frame, b.in, byKernel)
	o, err := b.fast.Observe(context.Background())
	must(t, err)
	if o.Firewall == nil || o.Firewall.Kernel != alone.Kernel {
		t.Errorf("observed %+v", o.Firewall)
	}

	tooMany := stateless(classify.Rule{Verdict: permit(1)})
	tooMany.Counters = filter.MaxCounters
	b.evaluateBy(tooMany)
	b.expect(frame, b.in, byKernel)
}

// verdictOf expects a reason and, of packets that the rules decided, the counter that counts them.
func (b *bench) verdictOf(frame []byte, want Reason, counter uint16) {
	b.t.Helper()
	v := b.expect(frame, b.in, want)
	if got := v.Evaluated.Counter; got != counter {
		b.t.Errorf("%v: counter %d, expected %d", v.Reason, got, counter)
	}
}

// TestStatelessVerdicts tries policies one after the other in one program.
func TestStatelessVerdicts(t *testing.T) {
	b := newEvaluated(t, stateless(classify.Rule{Verdict: permit(1)}))
	b.tryRules()
	b.tryInterfacesWithoutZone()
	b.trySegmentSizes()
}

func (b *bench) tryRules() {
	logged := filter.Verdict{Action: filter.Drop, Log: true, Counter: 5}
	b.evaluateBy(stateless(
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(53), Verdict: permit(1)},
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(54), Verdict: drop(2)},
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(55)}, // the kernel's: reject, limit
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(57), Verdict: logged.Word()},
		classify.Rule{ICMP: []classify.ICMPRange{{Type: 8, LastCode: 255}, {Type: 128, LastCode: 255}}, Verdict: permit(6)},
		classify.Rule{Protocols: onlyTCP, Source: prefixes("192.0.2.0/30", "2001:db8:a::/126"), SourcePorts: portsOf(4000), Verdict: permit(7)},
		classify.Rule{Family: classify.IPv6, Protocols: onlyUDP, Verdict: permit(8)},
		classify.Rule{Zones: []uint8{wayThere, wayBack}, Verdict: drop(9)},
	))
	four := func(protocol, flags, kind uint8) parcel {
		return parcel{from: "192.0.2.2:4000", to: "198.51.100.2:80", protocol: protocol, flags: flags, kind: kind}
	}
	six := func(protocol, flags, kind uint8) parcel {
		return parcel{from: "[2001:db8:a::2]:4000", to: "[2001:db8:b::2]:80", protocol: protocol, flags: flags, kind: kind}
	}
	b.verdictOf(udpTo("53").toB(), Forwarded, 1)
	b.verdictOf(udpTo("54").toB(), denied, 2)
	b.verdictOf(udpTo("55").toB(), byRule, 0)
	b.verdictOf(udpTo("57").toB(), denied, 5) // asking takes no turn to be logged
	b.verdictOf(udpTo("58").toB(), denied, 9)
	b.verdictOf(four(packet.ProtoICMP, 0, 8).toB(), Forwarded, 6)
	b.verdictOf(four(packet.ProtoICMP, 0, 13).toB(), denied, 9)
	b.verdictOf(six(packet.ProtoICMPv6, 0, 128).toB(), Forwarded, 6)
	b.verdictOf(six(packet.ProtoICMPv6, 0, 3).toB(), denied, 9)
	b.verdictOf(four(packet.ProtoTCP, packet.SYN, 0).toB(), Forwarded, 7)
	b.verdictOf(six(packet.ProtoTCP, packet.ACK, 0).toB(), Forwarded, 7)
	b.verdictOf(six(packet.ProtoUDP, 0, 0).toB(), Forwarded, 8)
	b.verdictOf(four(47, 0, 0).toB(), denied, 9)
	if v := b.expect(udpTo("53").toB(), b.in, Forwarded); v.Egress != b.out.Attrs().Index {
		b.t.Errorf("leaves by %d", v.Egress)
	}

	// What ends inside its header, or tells a wrong length, is the kernel's.
	short := udpTo("53").toB()
	short[14+20+5]++ // longer than the packet
	b.verdictOf(short, badHeader, 0)
	long := four(packet.ProtoTCP, packet.ACK, 0).toB()
	long[14+20+12] = 0xf0 // a header of 60 bytes
	b.verdictOf(long, badHeader, 0)
	b.verdictOf(six(60, 0, 0).toB(), Reason(routerReasonREASON_EXTENSION_HEADER), 0)
	// TTL and size come before the rules: the kernel evaluates what it has to answer.
	late := udpTo("54")
	late.ttl = 1
	b.verdictOf(late.toB(), Reason(routerReasonREASON_TTL), 0)
}

func (b *bench) tryInterfacesWithoutZone() {
	p := stateless(classify.Rule{Verdict: permit(1)})
	delete(p.Zones, "out")
	b.evaluateBy(p)
	b.verdictOf(udpTo("53").toB(), noZone, 0)
	b.expect(parcel{from: "198.51.100.2:1", to: "192.0.2.2:2", protocol: packet.ProtoUDP}.toA(), b.out, noZone)
	p = stateless(classify.Rule{Verdict: permit(1)})
	delete(p.Pairs, filter.ZonePair{From: 1, To: 2}) // a way that only the kernel evaluates
	b.evaluateBy(p)
	b.verdictOf(udpTo("53").toB(), noZone, 0)
	b.expect(parcel{from: "198.51.100.2:1", to: "192.0.2.2:2", protocol: packet.ProtoUDP}.toA(), b.out, Forwarded)
}

// trySegmentSizes: a SYN is the kernel's where it lowers the segment size, if it is permitted at all.
func (b *bench) trySegmentSizes() {
	p := stateless(classify.Rule{Protocols: onlyTCP, DestinationPorts: portsOf(80), Verdict: permit(1)}, classify.Rule{Verdict: drop(2)})
	p.MSSClamp = true
	b.evaluateBy(p)
	for _, c := range []struct {
		flags uint8
		to    string
		want  Reason
	}{
		{packet.SYN, "198.51.100.2:80", clamped}, {packet.SYN | packet.ACK, "198.51.100.2:80", clamped},
		{packet.ACK, "198.51.100.2:80", Forwarded}, {packet.SYN | packet.RST, "198.51.100.2:80", Forwarded}, {packet.SYN, "198.51.100.2:81", denied},
	} {
		b.expect(parcel{from: "192.0.2.2:4000", to: c.to, protocol: packet.ProtoTCP, flags: c.flags}.toB(), b.in, c.want)
	}
}

// withSets has two ways to be evaluated by sets: packets from members of "from" are dropped, those to
// members of "to" too.
func withSets(from, to []netip.Prefix) *filter.Policy {
	p := stateless(
		classify.Rule{Zones: []uint8{wayThere}, Verdict: permit(1)},
		classify.Rule{Zones: []uint8{wayThere + 1, wayThere + 3}, Verdict: drop(2)},
		classify.Rule{Zones: []uint8{wayThere + 2}, Verdict: drop(3)},
		classify.Rule{Verdict: drop(4)},
	)
	p.Sets = []filter.Set{{Name: "from", Prefixes: from}, {Name: "to", Prefixes: to}}
	p.Pairs[filter.ZonePair{From: 1, To: 2}] = filter.Pair{ID: wayThere, Stateless: true, Tests: []filter.Test{{Set: 0}, {Set: 1, Destination: true}}}
	return p
}

func TestSets(t *testing.T) {
	b := newEvaluated(t, withSets(prefixes("192.0.2.128/25", "2001:db8:a::8/125"), prefixes("198.51.100.64/26")))
	addNeighbour(t, b.out, "198.51.100.70", macB, unix.NUD_PERMANENT)
	from4, from6 := udpTo("53"), parcel{from: "[2001:db8:a::9]:4000", to: "[2001:db8:b::2]:80", protocol: packet.ProtoUDP}
	from4.from = "192.0.2.130:4000"
	to4 := parcel{from: "192.0.2.2:4000", to: "198.51.100.70:53", protocol: packet.ProtoUDP}
	plain4, plain6 := udpTo("53"), parcel{from: "[2001:db8:a::2]:4000", to: "[2001:db8:b::2]:80", protocol: packet.ProtoUDP}
	eventually(t, "the neighbour is known", func() bool { return b.run(to4.toB(), b.in).Reason == denied })
	check := func(when string, want map[*parcel]uint16) {
		t.Helper()
		for p, counter := range want {
			v := b.run(p.toB(), b.in)
			if got := v.Evaluated.Counter; got != counter || (v.Reason == Forwarded) != (counter == 1) {
				t.Errorf("%s, %v: %v, counter %d, expected %d", when, *p, v.Reason, got, counter)
			}
		}
	}
	change := func(name string, known bool, add, del []netip.Prefix) {
		t.Helper()
		if got, err := b.fast.ChangeSet(name, add, del); got != known || err != nil {
			t.Fatalf("set %s: known %t, %v", name, got, err)
		}
	}
	check("as configured", map[*parcel]uint16{&from4: 2, &from6: 2, &to4: 3, &plain4: 1, &plain6: 1})
	change("from", true, prefixes("192.0.2.2/32", "2001:db8:a::2/128"), prefixes("192.0.2.128/25"))
	changed := map[*parcel]uint16{&from4: 1, &from6: 2, &to4: 2, &plain4: 2, &plain6: 2}
	check("changed", changed)
	change("others", false, prefixes("192.0.2.9/32"), nil)
	change("", false, prefixes("192.0.2.9/32"), nil)

	// The tables grow: what was changed since the firewall was told holds in the new program too.
	must(t, b.fast.withTables(func() error {
		s := b.fast.prog.shape
		s.capacity4, s.capacity6 = 0, 0 // fib.Full
		return b.fast.rebuild(s)
	}))
	check("with grown tables", changed)
	b.evaluateBy(withSets(prefixes("192.0.2.128/25"), nil))
	check("with a new firewall", map[*parcel]uint16{&from4: 2, &from6: 1, &to4: 1, &plain4: 1, &plain6: 1})
}
