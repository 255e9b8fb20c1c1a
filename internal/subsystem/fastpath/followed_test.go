// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/flow"
)

// agreeable is a conntrack that knows of every connection, or of none.
type agreeable struct {
	mu     sync.Mutex
	no     bool
	silent chan struct{} // until it is closed, nothing is answered
	asked  int
}

func (a *agreeable) Carriable(ctx context.Context, k flow.Key) ([2]flow.Key, bool, error) {
	a.mu.Lock()
	no, silent := a.no, a.silent
	a.asked++
	a.mu.Unlock()
	if silent != nil {
		select {
		case <-silent:
		case <-ctx.Done():
		}
	}
	if k.EchoReply {
		return [2]flow.Key{k.Reply(0), k}, !no, nil
	}
	reply := k.Reply(0)
	if k.Protocol == packet.ProtoICMP || k.Protocol == packet.ProtoICMPv6 {
		reply.EchoReply = true
	}
	return [2]flow.Key{k, reply}, !no, nil
}

func (a *agreeable) Close() {}

func (a *agreeable) set(no bool, silent chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.no, a.silent = no, silent
}

func (a *agreeable) questions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// TestFollowed: connections without ports are carried when conntrack says so, and as long as it does; what conntrack
// tells apart by more than the flow table does, never is, whatever anybody says.
func TestFollowed(t *testing.T) {
	b := newFlowBench(t, following, stateful(false))
	c := &agreeable{}
	must(t, b.fast.withTables(func() error {
		b.fast.conntrack = func() Conntrack { return c }
		return b.fast.prog.follow(b.fast.conntrack, slog.New(slog.DiscardHandler))
	}))
	echo4 := parcel{from: "192.0.2.2:0", to: "198.51.100.2:0", protocol: packet.ProtoICMP, kind: packet.ICMPEcho}
	echo6 := parcel{from: "[2001:db8:a::2]:0", to: "[2001:db8:b::2]:0", protocol: packet.ProtoICMPv6, kind: packet.ICMPv6Echo}
	of := func(p parcel, protocol uint8) []byte { p.protocol = protocol; return p.toB() }
	edit := func(f []byte, at int, b ...byte) []byte { copy(f[packet.EthernetLen+packet.IPv4Len+at:], b); return f }
	timestamp := echo4
	timestamp.kind = 13
	carried := map[string][]byte{"echo": echo4.toB(), "echo of IPv6": echo6.toB(), "ESP": of(echo4, 50), "ESP over IPv6": of(echo6, 50),
		"GRE": edit(of(echo4, 47), 0, 0x20, 0), "protocol 253": of(echo4, 253)}
	kernels := map[string][]byte{"timestamp": timestamp.toB(), "echo with a code": edit(echo4.toB(), 1, 1), "GRE of PPTP": edit(of(echo4, 47), 0, 0x30, 1),
		"SCTP": of(echo4, 132), "DCCP": of(echo4, 33), "UDP-Lite": of(echo4, 136), "ICMPv6 over IPv4": edit(of(echo4, 58), 0, 128, 0), "ICMP over IPv6": of(echo6, 1)}
	is := func(name string, frame []byte, want Reason) {
		t.Helper()
		eventually(t, name+": "+want.String(), func() bool {
			b.wireA.send(frame)
			return b.run(frame, b.in).Reason == want
		})
	}
	for name, frame := range carried {
		b.expect(frame, b.in, ofConntrack)
		is(name, frame, Forwarded)
	}
	before := c.questions()
	for name, frame := range kernels {
		b.wireA.send(frame)
		if v := b.run(frame, b.in); v.Action != ActionPass {
			t.Errorf("%s: %v", name, v.Reason)
		}
	}
	if flows := len(b.flows()); flows != len(carried) {
		t.Errorf("%d flows, want %d: %+v", flows, len(carried), b.flows())
	}
	if more := c.questions() - before; more > len(carried)*20 {
		t.Errorf("%d questions about %d connections", more, len(carried))
	}
	reply := echo4
	reply.from, reply.to, reply.kind = echo4.to, echo4.from, packet.ICMPEchoReply
	b.expect(reply.toA(), b.out, Forwarded)
	reply.kind = packet.ICMPEcho // the other host asks with the same id
	b.expect(reply.toA(), b.out, ofConntrack)

	b.fast.ForgetFlows()
	b.expect(echo4.toB(), b.in, ofConntrack)
	is("echo after a commit", echo4.toB(), Forwarded)

	limited := stateful(false)
	limited.ICMPLimited = true
	b.evaluateBy(limited)
	is("ESP where ICMP is limited", carried["ESP"], Forwarded)
	b.expect(echo4.toB(), b.in, ofConntrack)
	b.evaluateBy(stateful(false))
	is("echo", echo4.toB(), Forwarded)

	c.set(true, nil)
	is("echo that conntrack has lost", echo4.toB(), ofConntrack)
	is("ESP that conntrack has lost", carried["ESP"], ofConntrack)
	eventually(t, "what conntrack has lost is in the table no more", func() bool {
		for _, f := range b.flows() {
			if !f.Stale {
				return false
			}
		}
		return true
	})
	start, asked := time.Now(), c.questions()
	for range 500 {
		b.wireA.send(carried["ESP"])
	}
	if more, most := c.questions()-asked, int(time.Since(start)/time.Second)+2; more > most {
		t.Errorf("500 packets of a connection that conntrack does not know made %d questions, at most %d are right", more, most)
	}

	c.set(false, nil)
	is("echo", echo4.toB(), Forwarded)
	silent := make(chan struct{})
	c.set(false, silent)
	is("echo that nobody confirms", echo4.toB(), ofConntrack)
	close(silent)
	c.set(false, nil)
	is("echo that is confirmed again", echo4.toB(), Forwarded)
}
