// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/flow"
)

// stateful is a policy that lets connections begin at "in", translated or not.
func stateful(translates bool) *filter.Policy {
	p := stateless(classify.Rule{Zones: []uint8{wayThere}}, classify.Rule{Verdict: drop(1)})
	p.Pairs = map[filter.ZonePair]filter.Pair{{From: 1, To: 2}: {ID: wayThere}, {From: 2, To: 1}: {ID: wayBack}}
	p.Stateful, p.Translates = true, translates
	return p
}

// masquerading makes the kernel follow connections, and translate those that leave by "out".
const masquerading = `table inet minne_policy {
	chain forward { type filter hook forward priority 0; ct state invalid drop; ct state established accept; iifname "out" drop; }
	chain postrouting { type nat hook postrouting priority srcnat; oifname "out" masquerade; }
}`

const following = `table inet minne_policy {
	chain forward { type filter hook forward priority 0; ct state invalid drop; ct state established accept; iifname "out" drop; }
}`

// flowBench is a bench whose kernel follows connections.
type flowBench struct {
	*bench
	wireA, wireB *wire
}

func newFlowBench(t testing.TB, ruleset string, p *filter.Policy) *flowBench {
	t.Helper()
	nft(t, "-f", "-", ruleset)
	t.Cleanup(func() { nft(t, "delete", "table", "inet", "minne_policy") })
	for _, knob := range []string{"nf_conntrack_tcp_be_liberal", "nf_conntrack_acct"} {
		sysctl(t, "netfilter/"+knob, "1")
	}
	sysctl(t, "netfilter/nf_conntrack_checksum", "0")
	b := &flowBench{bench: newEvaluated(t, p)}
	b.wireA, b.wireB = newWire(t, b.a), newWire(t, b.b)
	t.Cleanup(func() { _ = exec.Command("conntrack", "-F").Run() })
	return b
}

// nft runs nft; the last argument is its input when the one before is "-".
func nft(t testing.TB, args ...string) {
	t.Helper()
	input := ""
	if n := len(args); n > 1 && args[n-2] == "-" {
		args, input = args[:n-1], args[n-1]
	}
	c := exec.Command("nft", args...)
	c.Stdin = strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("nft %v: %v\n%s", args, err, out)
	}
}

// there sends a frame from host a and returns what arrives at b; back is the other way.
func (b *flowBench) there(frame []byte) []byte {
	b.t.Helper()
	b.wireA.send(frame)
	return b.wireB.next(time.Second, addressed(macB))
}

func (b *flowBench) back(frame []byte) []byte {
	b.t.Helper()
	b.wireB.send(frame)
	return b.wireA.next(time.Second, addressed(macA))
}

// talk is a connection in the making.
type talk struct {
	*flowBench
	out parcel // from a to b
	in  parcel // the replies, as b sends them: to the router's address where it masquerades
}

// open makes a connection that conntrack calls established.
func (b *flowBench) open(p parcel) *talk {
	b.t.Helper()
	first := p
	if p.protocol == packet.ProtoTCP {
		first.flags = packet.SYN
	}
	arrived := b.there(first.toB())
	if arrived == nil {
		b.t.Fatalf("%v: the first packet does not arrive", p)
	}
	as := packet.Summarize(arrived)
	c := &talk{flowBench: b, out: p, in: parcel{from: p.to, to: netip.AddrPortFrom(as.Source, as.SrcPort).String(), protocol: p.protocol}}
	c.out.flags, c.in.flags = packet.ACK, packet.ACK
	reply := c.in
	if p.protocol == packet.ProtoTCP {
		reply.flags = packet.SYN | packet.ACK
	}
	if b.back(answering(reply.toA())) == nil {
		b.t.Fatalf("%v: the answer does not arrive", p)
	}
	for range 3 { // UDP is assured by the third packet, and a little time
		if b.there(c.out.toB()) == nil {
			b.t.Fatalf("%v: the connection does not carry packets", p)
		}
	}
	if p.protocol == packet.ProtoUDP {
		b.assure(c)
	}
	return c
}

// answering gives a TCP segment the numbers of an answer to what a parcel sends.
func answering(f []byte) []byte {
	s := packet.Summarize(f)
	if s.Protocol != packet.ProtoTCP {
		return f
	}
	at := len(f) - 18 - 20
	binary.BigEndian.PutUint32(f[at+4:], 1999)
	binary.BigEndian.PutUint32(f[at+8:], 1001)
	return f
}

// assure goes on until conntrack calls the connection assured, two seconds after it began.
func (b *flowBench) assure(c *talk) {
	eventually(b.t, "conntrack calls the connection assured", func() bool {
		b.there(c.out.toB())
		return b.back(c.in.toA()) != nil && b.run(c.out.toB(), b.in).Reason != ofConntrack
	})
}

// carried waits until the fast path carries the connection.
func (c *talk) carried() {
	c.t.Helper()
	eventually(c.t, "the fast path carries the connection", func() bool {
		if c.there(c.out.toB()) == nil {
			c.t.Fatal("a packet of the connection is lost")
		}
		return c.run(c.out.toB(), c.bench.in).Reason == Forwarded
	})
}

func (b *flowBench) flows() (list []flow.Flow) {
	b.fast.Flows(flow.Filter{}, func(f flow.Flow) bool { list = append(list, f); return true })
	return list
}

// misses is how often the program looked for a flow in vain.
func (b *flowBench) misses() uint64 {
	b.t.Helper()
	stats, _, err := b.fast.FlowStats()
	must(b.t, err)
	return stats.Misses
}

var talks = []struct {
	name string
	p    parcel
}{
	{"TCP over IPv4", parcel{from: "192.0.2.2:4001", to: "198.51.100.2:80", protocol: packet.ProtoTCP}},
	{"UDP over IPv4", parcel{from: "192.0.2.2:4002", to: "198.51.100.2:53", protocol: packet.ProtoUDP}},
	{"TCP over IPv6", parcel{from: "[2001:db8:a::2]:4003", to: "[2001:db8:b::2]:80", protocol: packet.ProtoTCP}},
	{"UDP over IPv6", parcel{from: "[2001:db8:a::2]:4004", to: "[2001:db8:b::2]:53", protocol: packet.ProtoUDP}},
}

// checkAt is where the checksum of TCP or UDP stands in a parcel's frame.
func checkAt(f []byte) int {
	at, _, _ := packet.NetworkOffset(f)
	s := packet.Summarize(f)
	if at += packet.IPv4Len; s.Source.Is6() {
		at += packet.IPv6Len - packet.IPv4Len
	}
	if s.Protocol == packet.ProtoTCP {
		return at + 16
	}
	return at + 6
}

// withCheck is a frame with another checksum of TCP or UDP, right or wrong.
func withCheck(f []byte, check uint16) []byte {
	f = bytes.Clone(f)
	binary.BigEndian.PutUint16(f[checkAt(f):], check)
	return f
}

// TestTranslatesAsTheKernel holds the bytes of translated packets against the kernel's, both ways, at
// the edges of one's complement arithmetic: whatever the checksum was, it leaves as from the kernel.
func TestTranslatesAsTheKernel(t *testing.T) {
	b := newFlowBench(t, masquerading, stateful(true))
	for _, c := range talks {
		t.Run(c.name, func(t *testing.T) {
			k := b.open(c.p)
			frames := map[bool][][]byte{}
			for _, there := range []bool{true, false} {
				frame, pass := k.out.toB(), b.there
				if !there {
					frame, pass = k.in.toA(), b.back
				}
				arrived := pass(frame)
				if was, is := packet.Summarize(frame), packet.Summarize(arrived); was.Source == is.Source && was.Destination == is.Destination {
					t.Fatalf("not translated: %x", arrived)
				}
				// What translation adds to a checksum, to find those that become 0 and 0xffff.
				adds := int(binary.BigEndian.Uint16(arrived[checkAt(arrived):])) - int(binary.BigEndian.Uint16(frame[checkAt(frame):])) + 2*0xffff
				for _, edge := range []int{0, 1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff} {
					frames[there] = append(frames[there], withCheck(frame, uint16(edge)), withCheck(frame, uint16((edge-adds+4*0xffff)%0xffff)))
				}
			}
			b.evaluateBy(&filter.Policy{Kernel: "for comparison"})
			want := map[bool][][]byte{}
			for there, list := range frames {
				for _, f := range list {
					want[there] = append(want[there], pick(there, b.there, b.back)(f))
				}
			}
			b.evaluateBy(stateful(true))
			k.carried()
			before := b.fastPackets(b.in) + b.fastPackets(b.out)
			for there, list := range frames {
				for i, f := range list {
					if got := pick(there, b.there, b.back)(f); got == nil || !bytes.Equal(got, want[there][i]) {
						t.Errorf("there: %t, checksum %x:\nfast path %x\nkernel    %x", there, f[checkAt(f):checkAt(f)+2], got, want[there][i])
					}
				}
			}
			if sent := b.fastPackets(b.in) + b.fastPackets(b.out) - before; sent != uint64(len(frames[true])+len(frames[false])) {
				t.Errorf("the fast path sent %d of %d packets", sent, len(frames[true])+len(frames[false]))
			}
		})
	}
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// TestConnections: what begins, ends, or belongs to nothing is the kernel's or dropped; a flow is
// learned from conntrack, and no longer than conntrack has the connection.
func TestConnections(t *testing.T) {
	b := newFlowBench(t, following, stateful(false))
	k := b.open(talks[0].p)
	k.carried()
	flags := func(p parcel, flags uint8) parcel { p.flags = flags; return p }
	other := flags(k.out, packet.ACK)
	other.from = "192.0.2.2:4999"
	stray := flags(k.in, packet.ACK)
	stray.from = "198.51.100.2:81"
	for _, c := range []struct {
		what  string
		frame []byte
		on    bool // arrives from b
		want  Reason
	}{
		{"of the connection", k.out.toB(), false, Forwarded},
		{"a reply", k.in.toA(), true, Forwarded},
		{"SYN of the connection", flags(k.out, packet.SYN).toB(), false, ofConntrack},
		{"SYN and ACK of the connection", flags(k.in, packet.SYN|packet.ACK).toA(), true, ofConntrack},
		{"no flags", flags(k.out, 0).toB(), false, ofConntrack},
		{"FIN", flags(k.out, packet.FIN|packet.ACK).toB(), false, ends},
		{"RST", flags(k.in, packet.RST).toA(), true, ends},
		{"begins", flags(other, packet.SYN).toB(), false, begins},
		{"of no connection, where some may begin", other.toB(), false, begins},
		{"of no connection, where none may begin", stray.toA(), true, denied},
		{"begins where none may", flags(stray, packet.SYN).toA(), true, denied},
		{"ICMP, where state is kept", parcel{from: "192.0.2.2:0", to: "198.51.100.2:0", protocol: packet.ProtoICMP, kind: 8}.toB(), false, ofConntrack},
	} {
		if v := b.expect(c.frame, pick(c.on, b.out, b.bench.in), c.want); v.Reason != c.want {
			t.Errorf("%s", c.what)
		}
	}
	if list := b.flows(); len(list) != 1 || list[0].Translated || list[0].Packets[0] == 0 {
		t.Errorf("flows: %+v", list)
	}
	room := b.fast.prog.shape.firewall.flows
	if s, ok, err := b.fast.FlowStats(); err != nil || !ok || s.Counts.Inserts != 1 {
		t.Errorf("statistics: %+v, %t, %v", s, ok, err)
	}

	for _, c := range []struct{ asked, want int }{{flow.MinFlows, flow.MinFlows}, {0, room}} {
		d := b.desired()
		d.Flows = c.asked
		must(t, b.fast.Apply(t.Context(), d))
		if got := b.fast.prog.shape.firewall.flows; got != c.want {
			t.Errorf("room for %d flows with flows: %d, expected %d", got, c.asked, c.want)
		}
	}
	k.carried()

	b.fast.ForgetFlows()
	misses := b.misses()
	for range 2 { // asking learns nothing: the second time, too, there is no flow
		b.expect(k.out.toB(), b.bench.in, Forwarded)
	}
	if got := b.misses(); got != misses {
		t.Errorf("asking counts: %d misses before, %d after", misses, got)
	}
	if list := b.flows(); len(list) != 1 || !list[0].Stale {
		t.Errorf("flows after asking, expected the one that was forgotten: %+v", list)
	}
	k.carried()

	// Silent for longer than any timeout, as the collector sees it.
	must(t, b.fast.withTables(func() error {
		b.fast.prog.firewall.flows.Sweep(flow.Now()+1000, 1<<20)
		return nil
	}))
	if list := b.flows(); len(list) != 0 {
		t.Errorf("silent flows are still there: %+v", list)
	}
	b.expect(k.out.toB(), b.bench.in, Forwarded)
	if list := b.flows(); len(list) != 0 {
		t.Errorf("asking has made flows: %+v", list)
	}
	k.carried()

	// A FIN goes up, and so does what follows it.
	if b.there(flags(k.out, packet.FIN|packet.ACK).toB()) == nil {
		t.Error("a FIN does not arrive")
	}
	b.expect(k.out.toB(), b.bench.in, ofConntrack)
	if b.back(flags(k.in, packet.RST).toA()) == nil {
		t.Error("a RST does not arrive")
	}
	if list := b.flows(); len(list) != 0 {
		t.Errorf("flows after the end: %+v", list)
	}
}

// TestConntrackStaysTrue: conntrack hears of connections that the fast path carries, and a connection
// that it has no more is not carried on.
func TestConntrackStaysTrue(t *testing.T) {
	b := newFlowBench(t, following, stateful(false))
	// The fast path was told 120 seconds; what goes through the kernel gets 20.
	sysctl(t, "netfilter/nf_conntrack_udp_timeout_stream", "20")
	t.Cleanup(func() { sysctl(t, "netfilter/nf_conntrack_udp_timeout_stream", "120") })
	k := b.open(talks[1].p)
	k.carried()
	eventually(t, "conntrack's timeout is renewed", func() bool {
		b.there(k.out.toB())
		fields := strings.Fields(conntrack(t, "-L", "-p", "udp", "--orig-port-dst", "53"))
		return len(fields) > 2 && len(fields[2]) == 3 // seconds, of 120
	})
	b.expect(k.out.toB(), b.bench.in, Forwarded)
	conntrack(t, "-D", "-p", "udp", "--orig-port-dst", "53")
	eventually(t, "the flow is forgotten", func() bool {
		b.back(k.in.toA())
		return b.run(k.in.toA(), b.out).Reason == denied
	})
	if f := b.back(k.in.toA()); f != nil {
		t.Errorf("a reply to nothing arrives: %x", f)
	}
}

func conntrack(t testing.TB, args ...string) string {
	t.Helper()
	c := exec.Command("conntrack", args...)
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	if err != nil {
		t.Fatalf("conntrack %v: %v: %s", args, err, problem.String())
	}
	return string(out)
}

// TestWithoutConntracksFunctions: where the kernel can't be asked about connections, it carries them all;
// ways without state are evaluated as everywhere.
func TestWithoutConntracksFunctions(t *testing.T) {
	p := stateful(false)
	p.Rules = []classify.Rule{{Zones: []uint8{wayThere}}, {Zones: []uint8{wayBack}, Verdict: permit(2)}}
	p.Pairs[filter.ZonePair{From: 2, To: 1}] = filter.Pair{ID: wayBack, Stateless: true}
	b := newEvaluated(t, p)
	must(t, b.fast.withTables(func() error {
		s := b.fast.prog.shape
		s.firewall.conntrack, s.firewall.flows = false, 0
		return b.fast.rebuild(s)
	}))
	if _, ok, err := b.fast.FlowStats(); ok || err != nil {
		t.Errorf("flows are carried: %t, %v", ok, err)
	}
	for _, c := range talks {
		c.p.flags = packet.ACK
		back := c.p
		back.from, back.to = back.to, back.from
		if v := b.run(c.p.toB(), b.in); v.Action != ActionPass || v.Reason != ofConntrack && v.Reason != begins {
			t.Errorf("%s: %v", c.name, v.Reason)
		}
		b.expect(back.toA(), b.out, Forwarded)
	}
}
