// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"minne/internal/model/packet"
	"minne/internal/testing/testframes"
)

// lively is what the program that packets meet did with one of them, read off its counters.
type lively struct {
	action  uint32
	reason  Reason
	packet  []byte
	traffic map[int]ObservedTraffic
}

// runLive sends a frame through the program that is on the ports, in a test run.
func (b *bench) runLive(frame []byte, on int) lively {
	b.t.Helper()
	before := b.counted()
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+headroom),
		Context: contextXDP{DataEnd: uint32(len(frame)), Ingress: uint32(on)}}
	action, err := b.fast.prog.objects.Router.Run(&o)
	must(b.t, err)
	after := b.counted()
	l := lively{action: action, packet: o.DataOut, traffic: map[int]ObservedTraffic{}}
	counted := 0
	for r, n := range after.reasons {
		if n != before.reasons[r] {
			l.reason = r
			counted += int(n - before.reasons[r])
		}
	}
	for i, t := range after.traffic {
		was := before.traffic[i]
		l.traffic[i] = ObservedTraffic{RxPackets: t.RxPackets - was.RxPackets, TxPackets: t.TxPackets - was.TxPackets}
		counted += int(t.RxPackets - was.RxPackets)
	}
	if counted != 1 {
		b.t.Fatalf("one packet was counted %d times", counted)
	}
	return l
}

type counts struct {
	reasons map[Reason]uint64
	traffic map[int]ObservedTraffic
}

func (b *bench) counted() counts {
	c := counts{map[Reason]uint64{}, map[int]ObservedTraffic{}}
	for _, r := range Reasons() {
		var each []uint64
		key := uint32(r)
		must(b.t, b.fast.prog.objects.Reasons.Lookup(&key, &each))
		for _, n := range each {
			c.reasons[r] += n
		}
	}
	for _, l := range []int{b.in.Attrs().Index, b.out.Attrs().Index} {
		t, err := readTraffic(b.fast.prog.objects.Traffic, l)
		must(b.t, err)
		c.traffic[l] = t
	}
	return c
}

// explainWorld is the bench's router as the generator of packets sees it.
func explainWorld(b *bench, v6 bool) testframes.World {
	parse := netip.MustParsePrefix
	entry := func(port int, mac []byte, source string) testframes.Entry {
		return testframes.Entry{Port: port, MAC: packet.MAC(mac), MTU: 1500, Sources: []netip.Prefix{parse(source)}}
	}
	in, out := b.in.Attrs().Index, b.out.Attrs().Index
	if v6 {
		return testframes.World{
			Entries:      []testframes.Entry{entry(in, macIn, "2001:db8:a::/64"), entry(out, macOut, "2001:db8:b::/64")},
			Destinations: []testframes.Pool{{Weight: 3, Prefixes: []netip.Prefix{parse("2001:db8:a::2/128"), parse("2001:db8:b::2/128"), parse("2001:db8:f::/64")}}, {Weight: 1, Prefixes: []netip.Prefix{parse("2001:db8::/32")}}},
			Specials:     []netip.Addr{netip.MustParseAddr("::"), netip.MustParseAddr("::1"), netip.MustParseAddr("ff02::1"), netip.MustParseAddr("2001:db8:a::1"), netip.MustParseAddr("fe80::1")},
			EgressMTUs:   []int{1500},
		}
	}
	return testframes.World{
		Entries:      []testframes.Entry{entry(in, macIn, "192.0.2.0/24"), entry(out, macOut, "198.51.100.0/24")},
		Destinations: []testframes.Pool{{Weight: 3, Prefixes: []netip.Prefix{parse("192.0.2.2/32"), parse("198.51.100.2/32"), parse("203.0.113.0/24")}}, {Weight: 1, Prefixes: []netip.Prefix{parse("10.0.0.0/8")}}},
		Specials:     []netip.Addr{netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.255")},
		EgressMTUs:   []int{1500, 600},
	}
}

// TestExplainIsExact asks about thousands of packets and then sends each through the program that
// forwards: same verdict, same reason, same bytes, same port. Asking leaves no mark.
func TestExplainIsExact(t *testing.T) {
	const frames = 4000                              // of each family
	sysctl(t, "ipv6/fib_multipath_hash_policy", "1") // by the kernel's own, 0, most IPv6 packets go up
	b := newBench(t)
	d := b.desired()
	d.Interfaces["in"] = DesiredPort{FastPath: true, AntiSpoof: "strict"}
	d.Interfaces["out"] = DesiredPort{FastPath: true, AntiSpoof: "loose"}
	must(t, b.fast.Apply(t.Context(), d))
	ip(t, "route", "add", "203.0.113.0/24", "nexthop", "via", "198.51.100.2", "nexthop", "via", "192.0.2.2")
	ip(t, "route", "add", "10.1.0.0/16", "via", "198.51.100.2", "mtu", "600")
	ip(t, "route", "add", "blackhole", "10.2.0.0/16")
	ip(t, "route", "add", "10.3.0.0/16", "via", "198.51.100.77")
	ip(t, "-6", "route", "add", "2001:db8:f::/64", "nexthop", "via", "2001:db8:b::2", "nexthop", "via", "2001:db8:a::2")
	group := udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::9", 64, 0)
	eventually(t, "the last route", func() bool { return b.run(group, b.in).NextHop != 0 })
	for _, v6 := range []bool{false, true} {
		g := testframes.NewGenerator(explainWorld(b, v6), 4)
		verdicts, reasons, wrong := map[string]int{}, map[string]bool{}, 0
		for n := uint64(0); n < frames && wrong < 10; n++ {
			s := g.At(n)
			if len(s.Frame) > 3400 {
				continue // the kernel runs no larger frame
			}
			before := b.counted()
			e, err := b.fast.Explain(s.Frame, s.Port)
			must(t, err)
			if after := b.counted(); !equalCounts(before, after) {
				t.Fatalf("frame %d: asking was counted", n)
			}
			live := b.runLive(s.Frame, s.Port)
			verdicts[e.Verdict]++
			reasons[e.Reason] = true
			if why := disagreement(e, live); why != "" {
				wrong++
				t.Errorf("frame %d (%s): %s\nexplained %+v\n%x", n, s.Kind(), why, e, s.Frame)
			}
		}
		t.Logf("IPv6 %v: %v, %d reasons", v6, verdicts, len(reasons))
		if verdicts[VerdictForwarded] < frames/5 || verdicts[VerdictPunted] < frames/20 || verdicts[VerdictDropped] < frames/20 {
			t.Errorf("IPv6 %v: %v of %d frames: the test says little", v6, verdicts, frames)
		}
	}
}

func equalCounts(a, b counts) bool {
	for r, n := range a.reasons {
		if b.reasons[r] != n {
			return false
		}
	}
	for i, t := range a.traffic {
		if b.traffic[i] != t {
			return false
		}
	}
	return true
}

// disagreement compares an explanation with what happened; "" when they agree. The last stage that
// is told must be the one that refused, and only that one.
func disagreement(e Explanation, live lively) string {
	switch {
	case e.Run.Action != live.action || e.Verdict != VerdictOf(live.action):
		return "the program's verdict is " + VerdictOf(live.action)
	case e.Run.Reason != live.reason:
		return "the program's reason is " + live.reason.String()
	case !bytes.Equal(e.Run.Packet, live.packet):
		return "the program leaves other bytes"
	case live.action == ActionRedirect && live.traffic[e.Run.Egress].TxPackets != 1:
		return "the program sends it elsewhere"
	}
	for i, s := range e.Steps {
		last := i == len(e.Steps)-1
		if s.Text == "" || s.Passed != (!last || live.action == ActionRedirect) {
			return "step " + s.Stage + " does not fit the verdict"
		}
	}
	return ""
}

func TestExplainWords(t *testing.T) {
	b := newBench(t)
	d := b.desired()
	d.Interfaces["in"] = DesiredPort{FastPath: true, AntiSpoof: "strict"}
	must(t, b.fast.Apply(t.Context(), d))
	good := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18)
	for _, c := range []struct {
		frame []byte
		want  []string // of each step in turn, or of all that is said
	}{
		{good, []string{"for us, by in", "IPv4 is forwarded", "46 bytes", "TTL 64", "198.51.100.0/24 dev out", "strict: 192.0.2.0/24 dev in",
			"198.51.100.2 on out is 02:00:00:00:00:0b (permanent)", "fit the MTU of out (1500)", "trusts", "MAC 02:00:00:00:00:02 to 02:00:00:00:00:0b, TTL 63"}},
		{source4(good, "198.51.100.7"), []string{"for us", "IPv4", "46 bytes", "TTL 64", "dev out", "strict: 198.51.100.0/24 dev out: the route back to the source uses another interface"}},
		{destination4(good, "203.0.113.1"), []string{"for us", "IPv4", "46 bytes", "TTL 64", "no prefix matches 203.0.113.1: no route"}},
		{destination4(good, "192.0.2.1"), []string{"for us", "IPv4", "46 bytes", "TTL 64", "192.0.2.1/32 is the router's own: for the router itself"}},
		{destination4(good, "198.51.100.77"), []string{"for us", "IPv4", "46 bytes", "TTL 64", "dev out", "strict", "198.51.100.77 is not known as a neighbour: "}},
		{edit(good, 5, 9), []string{"frame for another station, and this interface has 02:00:00:00:00:01"}},
		{edit(good, 24, good[24]^1), []string{"for us", "IPv4", "checksum is wrong"}},
	} {
		e, err := b.fast.Explain(c.frame, b.in.Attrs().Index)
		must(t, err)
		if len(e.Steps) != len(c.want) {
			t.Fatalf("%d steps, expected %d: %+v", len(e.Steps), len(c.want), e)
		}
		for i, s := range e.Steps {
			if !strings.Contains(s.Text, c.want[i]) {
				t.Errorf("%s says %q, expected %q", s.Stage, s.Text, c.want[i])
			}
		}
	}
	if _, err := b.fast.ArrivalOf("lan0"); err == nil || !strings.Contains(err.Error(), `no interface "lan0": the router has`) {
		t.Errorf("unknown interface: %v", err)
	}
}

// TestStagesHaveWords holds the list of stages of bpf/maps.h and the words together.
func TestStagesHaveWords(t *testing.T) {
	for stage, words := range stageTexts {
		if words.name == "" || words.says == nil {
			t.Errorf("stage %d of bpf/maps.h has no words in stages.go", stage)
		}
	}
}
