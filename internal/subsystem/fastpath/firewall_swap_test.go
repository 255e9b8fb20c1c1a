// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/filter"
)

// Ports of a mixture of packets: what all policies permit, and what none does.
const (
	alwaysPort = "6000"
	neverPort  = "6001"
)

// mixture sends packets that all policies permit, some that none does, and others, until it is told to
// stop. It reports how many of the first were sent and lost, and how many of the second came through.
func (b *bench) mixture(others ...string) (stop func() (sent, lost, through int)) {
	b.t.Helper()
	wireA, wireB := newWire(b.t, b.a), newWire(b.t, b.b)
	always, never := udpTo(alwaysPort).toB(), udpTo(neverPort).toB()
	var rest [][]byte
	for _, p := range others {
		rest = append(rest, udpTo(p).toB())
	}
	quit, done := make(chan struct{}), make(chan [3]int)
	go func() {
		sent, arrived, lost, through := 0, 0, 0, 0
		collect := func() { // never more on their way than a veth's ring holds
			for sent-lost > arrived {
				f := wireB.next(5*time.Second, addressed(macB))
				if f == nil {
					lost = sent - arrived
					return
				}
				switch binary.BigEndian.Uint16(f[36:]) {
				case 6000:
					arrived++
				case 6001:
					through++
				}
			}
		}
		for {
			select {
			case <-quit:
				collect()
				done <- [3]int{sent, lost, through}
				return
			default:
			}
			for range 8 {
				for _, f := range append([][]byte{never}, rest...) {
					wireA.send(f)
				}
				wireA.send(always)
				sent++
			}
			collect()
		}
	}()
	return func() (int, int, int) {
		close(quit)
		r := <-done
		return r[0], r[1], r[2]
	}
}

func (b *bench) expectAllOrNothing(stop func() (sent, lost, through int)) {
	b.t.Helper()
	if sent, lost, through := stop(); lost != 0 || through != 0 || sent == 0 {
		b.t.Errorf("of %d packets that all policies permit %d were lost; %d came through that none permits", sent, lost, through)
	}
}

// Two policies that agree about two ports only, and of which every mixture is wrong: the zones of one
// with the ways or the rules of the other, or with the members of its sets.
func twoPolicies() (policies [2]*filter.Policy) {
	const trap = 100
	for i := range policies {
		zone := uint8(1 + 2*i) // in is zone 1 or 3, out 2 or 4
		id := uint8(20 + 10*i)
		mine := []uint8{id + uint8(i)} // the source is in the set, or not
		ports := classify.Rule{Zones: mine, Protocols: onlyUDP, DestinationPorts: portsOf(6000, uint16(7000+i)), Verdict: permit(1)}
		p := &filter.Policy{
			Zones: map[string]uint8{"in": zone, "out": zone + 1},
			Pairs: map[filter.ZonePair]filter.Pair{
				{From: zone, To: zone + 1}:     {ID: id, Stateless: true, Tests: []filter.Test{{Set: 0}}},
				{From: 4 - zone, To: 5 - zone}: {ID: trap, Stateless: true}, // the other's zones
			},
			Rules:    []classify.Rule{ports, {Zones: mine, Verdict: drop(2)}, {Protocols: onlyUDP, DestinationPorts: portsOf(6001), Verdict: permit(3)}, {Verdict: drop(4)}},
			Sets:     []filter.Set{{Name: "set", Prefixes: prefixes([]string{"192.0.2.128/25", "192.0.2.0/25"}[i], "2001:db8::/32")}},
			Counters: 4,
		}
		policies[i] = p
	}
	return policies
}

// TestNoPacketMeetsTwoFirewalls: while one policy takes the place of the other, each packet is evaluated
// wholly by one of them.
func TestNoPacketMeetsTwoFirewalls(t *testing.T) {
	policies := twoPolicies()
	b := newEvaluated(t, policies[0])
	before := b.xdpProgram(b.in)
	b.expect(udpTo("7000").toB(), b.in, Forwarded)
	b.expect(udpTo("7001").toB(), b.in, denied)
	stop := b.mixture("7000", "7001")
	for i := range 50 {
		b.evaluateBy(policies[(i+1)%2])
	}
	b.evaluateBy(policies[1])
	b.expectAllOrNothing(stop)
	b.expect(udpTo("7000").toB(), b.in, denied)
	b.expect(udpTo("7001").toB(), b.in, Forwarded)
	if b.xdpProgram(b.in) != before {
		t.Error("the program was exchanged, which is not what is tested here")
	}
}

// TestRebuildsLoseNothing: firewalls that need another program, and tables that grow, with packets on
// their way.
func TestRebuildsLoseNothing(t *testing.T) {
	rules := []classify.Rule{{Protocols: onlyUDP, DestinationPorts: portsOf(6000), Verdict: permit(1)}, {Verdict: drop(2)}}
	plain := stateless(rules...)
	large := stateless(rules...)
	large.Sets = []filter.Set{{Name: "large"}}
	for i := range 5000 {
		large.Sets[0].Prefixes = append(large.Sets[0].Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32))
	}
	b := newEvaluated(t, plain)
	stop := b.mixture()
	programs := map[uint32]bool{}
	for _, p := range []*filter.Policy{large, plain} {
		b.evaluateBy(p)
		programs[b.xdpProgram(b.in)] = true
	}
	must(t, b.fast.withTables(func() error {
		s := b.fast.prog.shape
		s.capacity4 = fib.Full
		return b.fast.rebuild(s)
	}))
	programs[b.xdpProgram(b.in)] = true
	b.expectAllOrNothing(stop)
	if len(programs) != 2 { // the room for members stays
		t.Errorf("%d programs, expected 2", len(programs))
	}
	b.verdictOf(udpTo(alwaysPort).toB(), Forwarded, 1)
	b.verdictOf(udpTo(neverPort).toB(), denied, 2)
}

// TestAdoptsWithAFirewall: the daemon goes, packets are evaluated on; a new one comes with another policy.
func TestAdoptsWithAFirewall(t *testing.T) {
	policies := twoPolicies()
	b := newEvaluated(t, policies[0])
	kernelForbids(t, neverPort) // while the old program's rules are not the new ones, all is the kernel's
	stop := b.mixture("7000", "7001")
	b.stop()
	sent := b.fastPackets(b.out)
	eventually(t, "packets are evaluated without a daemon", func() bool { return b.fastPackets(b.out) > sent+10 })
	b.firewall = policies[1]
	b.start()
	b.expectAllOrNothing(stop)
	b.expect(udpTo("7000").toB(), b.in, denied)
	b.expect(udpTo("7001").toB(), b.in, Forwarded)
	if o, err := b.fast.Observe(context.Background()); err != nil || o.Adopted != 2 || o.Firewall == nil || o.Firewall.Rules != len(policies[1].Rules) {
		t.Errorf("observed %+v, %v", o.Firewall, err)
	}
}

// TestPortsWaitForTheFirewall: where the firewall evaluates, no port runs the program before it was told.
func TestPortsWaitForTheFirewall(t *testing.T) {
	b := newBench(t)
	evaluated := b.desired()
	for name, d := range evaluated.Interfaces {
		d.Evaluated = true
		evaluated.Interfaces[name] = d
	}
	must(t, b.fast.Apply(context.Background(), evaluated))
	if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in != 0 || out != 0 {
		t.Errorf("programs %d and %d are attached before the firewall is known", in, out)
	}
	b.evaluateBy(stateless(classify.Rule{Verdict: drop(1)}))
	must(t, b.fast.Apply(context.Background(), evaluated))
	if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in == 0 || out == 0 {
		t.Errorf("programs %d and %d with the firewall", in, out)
	}
	b.expect(udpTo("53").toB(), b.in, denied)
	b.evaluateBy(nil) // no firewall, though the configuration has one
	must(t, b.fast.Apply(context.Background(), evaluated))
	if b.xdpProgram(b.in) != 0 {
		t.Error("the program is attached without the firewall")
	}
}

// TestRuleCounts: what rules count on the wire, those that log among them.
func TestRuleCounts(t *testing.T) {
	b := newEvaluated(t, stateless(
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6000), Verdict: permit(1)},
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6001), Verdict: drop(2)},
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6002), Verdict: filter.Verdict{Action: filter.Permit, Log: true, Counter: 3}.Word()},
		classify.Rule{Verdict: drop(4)},
	))
	before := b.reasonCount("logged")
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	const packets = 40
	for range packets {
		wireA.send(udpTo("6001").toB())
		for _, p := range []string{"6002", "6000"} {
			wireA.send(udpTo(p).toB())
			if wireB.next(time.Second, addressed(macB)) == nil {
				t.Fatalf("nothing arrives at port %s", p)
			}
		}
	}
	length := uint64(len(udpTo("6000").toB()) - 14)
	counts, err := b.fast.RuleCounts()
	must(t, err)
	for _, counter := range []uint16{1, 2} {
		if c := counts[counter]; c != (RuleCount{packets, packets * length}) {
			t.Errorf("counter %d: %+v, expected %d packets of %d bytes", counter, c, packets, length)
		}
	}
	logged := b.reasonCount("logged") - before
	if here := counts[3].Packets; here+logged != packets || logged == 0 || here == 0 || len(counts) != 3 {
		t.Errorf("%d packets were counted here and %d left to the kernel's log, expected %d together; %v", here, logged, packets, counts)
	}

	// The same rules with other sets, and another program: they go on counting.
	same := stateless(
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6000), Verdict: permit(1)},
		classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6001), Verdict: drop(2)},
		classify.Rule{Verdict: drop(4)},
	)
	b.evaluateBy(same)
	must(t, b.fast.withTables(func() error { return b.fast.rebuild(b.fast.prog.shape) }))
	wireA.send(udpTo("6001").toB())
	wireA.send(udpTo("6000").toB())
	if wireB.next(time.Second, addressed(macB)) == nil {
		t.Fatal("nothing arrives")
	}
	counts, err = b.fast.RuleCounts()
	must(t, err)
	if want := (RuleCount{packets + 1, (packets + 1) * length}); counts[1] != want || counts[2] != want {
		t.Errorf("carried on: %v, expected %v", counts, want)
	}
	other := stateless(classify.Rule{Verdict: drop(1)})
	other.Names.Counters = []string{"", "another rule"}
	b.evaluateBy(other)
	if counts, err := b.fast.RuleCounts(); err != nil || len(counts) != 0 {
		t.Errorf("a new firewall begins with %v, %v", counts, err)
	}
}

// reasonCount is how many packets left the journey by a reason.
func (b *bench) reasonCount(name string) uint64 {
	b.t.Helper()
	o, err := b.fast.Observe(context.Background())
	must(b.t, err)
	for _, r := range o.Reasons {
		if r.Reason == name {
			return r.Count
		}
	}
	return 0
}
