// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"minne/internal/fastpath/classify"
	"minne/internal/fastpath/judge"
	"minne/internal/packet"
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
func stateless(rules ...classify.Rule) *judge.Policy {
	p := &judge.Policy{
		Zones:    map[string]uint8{"in": 1, "out": 2},
		Pairs:    map[judge.Way]judge.Pair{{From: 1, To: 2}: {ID: wayThere, Stateless: true}, {From: 2, To: 1}: {ID: wayBack, Stateless: true}},
		Rules:    rules,
		Counters: 20,
	}
	return p
}

func permit(counter uint16) uint32 {
	return judge.Verdict{Action: judge.Permit, Counter: counter}.Word()
}
func drop(counter uint16) uint32 { return judge.Verdict{Action: judge.Drop, Counter: counter}.Word() }

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

// judgeBy puts a firewall into the bench's fast path.
func (b *bench) judgeBy(p *judge.Policy) {
	b.t.Helper()
	must(b.t, b.fast.Firewall().Apply(context.Background(), p))
}

// newJudged is a bench whose fast path forwards, and judges by a policy.
func newJudged(t testing.TB, p *judge.Policy) *bench {
	t.Helper()
	b := newBench(t)
	b.awaitForwarding()
	b.judgeBy(p)
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
	learned     = Reason(routerReasonREASON_LEARNED)
	ends        = Reason(routerReasonREASON_ENDS)
	badHeader   = Reason(routerReasonREASON_TRANSPORT)
	clamped     = Reason(routerReasonREASON_SEGMENT_SIZE)
)

// TestAFirewallForTheKernelAlone: what the fast path can't repeat, it leaves to the kernel, whether it
// had a firewall before or not, and whether it runs already or starts.
func TestAFirewallForTheKernelAlone(t *testing.T) {
	alone := &judge.Policy{Kernel: "too many zones"}
	b := newBench(t)
	b.awaitForwarding()
	frame := udpTo("53").toB()
	b.expect(frame, b.in, Forwarded)
	b.judgeBy(alone)
	b.expect(frame, b.in, byKernel)
	b.judgeBy(stateless(classify.Rule{Verdict: permit(1)}))
	b.expect(frame, b.in, Forwarded)
	b.judgeBy(alone)
	b.expect(frame, b.in, byKernel)
	b.expect(udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 0), b.in, byKernel)
	b.judgeBy(nil)
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
	tooMany.Counters = judge.MaxCounters
	b.judgeBy(tooMany)
	b.expect(frame, b.in, byKernel)
}
