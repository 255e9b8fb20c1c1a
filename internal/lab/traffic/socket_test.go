// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
)

// everything is a lap of four streams in all sizes, whose flows change from lap to lap.
func everything() Lap {
	l := variety(udp4, tcp4, udp6, tcp6)
	l.Fresh = true
	return l
}

// compare holds captured frames against Build: the order's frames, stream by
// stream in sequence, in lap after lap.
func compare(t *testing.T, c *capture, l Lap, o Order, frames int) {
	t.Helper()
	s, err := survey(l)
	if err != nil {
		t.Fatal(err)
	}
	next := map[uint8]uint64{}
	for n := range frames {
		at := (n + o.Offset) % l.Packets
		p := l.Packet(at)
		if laps := (n + o.Offset) / l.Packets; l.Fresh && laps > 0 {
			p = s.flip(p, uint32(laps))
		}
		got := c.next()
		if len(got) != int(p.FrameBytes) {
			t.Fatalf("frame %d has %d bytes, expected %d", n, len(got), p.FrameBytes)
		}
		stream, sequence, sent, ok := ReadStamp(got[LeastFrame(p.Source.Is6(), p.Protocol)-StampBytes:])
		if !ok || stream != p.Stream || sequence != next[p.Stream] || sent <= 0 {
			t.Fatalf("frame %d: stream %d, sequence number %d, sent at %v, stamped %v; expected stream %d, number %d", n, stream, sequence, sent, ok, p.Stream, next[p.Stream])
		}
		next[p.Stream]++
		want, err := Build(p, o.Routes[p.Stream], o.TTL, sequence, sent, o.Filled || s.mixed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("frame %d of stream %d:\n% x\nexpected\n% x", n, stream, got, want)
		}
		ttl := o.TTL
		if ttl == 0 {
			ttl = 64
		}
		if _, err := checkFrame(got, o.Routes[p.Stream], p, ttl, o.Filled || s.mixed || p.Source.Is6()); err != nil {
			t.Fatalf("frame %d: %v", n, err)
		}
	}
	c.quiet()
}

func routes(c cable) map[uint8]Route {
	r := c.left.to(c.right)
	return map[uint8]Route{0: r, 1: r, 2: r, 3: r}
}

// TestBuildIsWhatTheProgramSends holds both against each other, byte by byte.
func TestBuildIsWhatTheProgramSends(t *testing.T) {
	for name, c := range map[string]struct {
		lap    Lap
		filled bool
	}{
		"mixed":           {everything(), true},
		"IPv4":            {variety(udp4), false},
		"IPv4 with sums":  {variety(udp4), true},
		"IPv6":            {variety(udp6), false},
		"TCP":             {variety(tcp4), false},
		"same destiny":    {Lap{Packets: 1, Packet: func(int) Packet { return udp4 }, Fresh: true}, false},
		"all bits in use": {Lap{Packets: 4096, Packet: scattered, Fresh: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			wire := plug(t)
			off, err := Accepting(wire.right.index)
			if err != nil {
				t.Fatal(err)
			}
			defer off()
			captured := wire.right.capture(t)
			frames := 3*c.lap.Packets + 1
			o := Order{Routes: routes(wire), Frames: uint64(frames), Filled: c.filled, TTL: 64, Rate: 20_000}
			if sent := run(t, newGenerator(t, c.lap), o); sent.Frames != uint64(frames) {
				t.Fatalf("sent %d frames", sent.Frames)
			}
			compare(t, captured, c.lap, o, frames)
		})
	}
}

// scattered are flows that leave no bits of port and address free.
func scattered(i int) Packet {
	p := udp4
	p.SourcePort = uint16(i * 16)
	p.Source = netip.AddrFrom4([4]byte{198, 18, byte(i * 7), byte(i * 31)})
	return p
}

func TestSocketSendsWhatTheProgramSends(t *testing.T) {
	for name, o := range map[string]Order{
		"as fast as it goes": {Frames: 1000, Filled: true},
		"paced":              {Frames: 200, Rate: 20_000, Timed: true},
		"small batches":      {Frames: 77, Batch: 1, TTL: 9, Offset: 3},
		"for a time":         {Duration: 50 * time.Millisecond, Rate: 2000, Burst: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			wire := plug(t)
			captured := wire.right.capture(t)
			l := everything()
			g := NewSocketGenerator()
			if err := g.SetLap(l); err != nil {
				t.Fatal(err)
			}
			o.Routes = routes(wire)
			sent, err := g.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			frames := max(o.Frames, 100)
			if o.Frames > 0 {
				frames = o.Frames
			}
			total := uint64(0)
			for _, n := range sent.PerStream {
				total += n
			}
			if sent.Frames != frames || total != frames || len(sent.PerStream) != 4 || wire.right.received(t) != frames {
				t.Fatalf("sent %+v, the kernel counted %d; expected %d", sent, wire.right.received(t), frames)
			}
			compare(t, captured, l, o, int(frames))
		})
	}
}

// TestSocketToSink: a sink takes the frames of a packet socket like those of the program, on two ports at once.
func TestSocketToSink(t *testing.T) {
	one, other := plug(t), plug(t)
	sink := newSink(t, one.right, other.right)
	l := variety(udp4, tcp4, udp6, tcp6)
	order := Order{Frames: 4000, Filled: true, Routes: map[uint8]Route{
		0: one.left.to(one.right), 1: other.left.to(other.right), 2: one.left.to(one.right), 3: other.left.to(other.right),
	}}
	expected := map[uint8]Expect{}
	for stream, r := range order.Routes {
		expected[stream] = Expect{TTL: 64, MAC: r.To, MACBytes: 6, Timed: true, Filled: true}
	}
	if err := sink.ExpectStreams(expected); err != nil {
		t.Fatal(err)
	}
	g := NewSocketGenerator()
	if err := g.SetLap(l); err != nil {
		t.Fatal(err)
	}
	sent, err := g.Run(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	for stream, a := range await(t, sink, sent.Frames) {
		if a.Received != 1000 || sent.PerStream[stream] != 1000 || a.Duplicated+a.Reordered != 0 || a.Wrong() != "" {
			t.Errorf("stream %d: sent %d, arrived %+v %s", stream, sent.PerStream[stream], a, a.Wrong())
		}
	}
}

func TestSocketReplays(t *testing.T) {
	for _, own := range []bool{false, true} {
		wire := plug(t)
		captured := wire.right.capture(t)
		var frames []Recorded
		for i, n := range []int{60, 14, 1514, 300} {
			frames = append(frames, Recorded{At: time.Duration(i) * time.Millisecond, Stream: uint8(i % 2), Frame: bytes.Repeat([]byte{byte(i + 1)}, n)})
		}
		g := NewSocketGenerator()
		if err := g.SetReplay(frames, 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		sent, err := g.Run(t.Context(), Order{Routes: routes(wire), Frames: 10, OwnTime: own, Burst: time.Minute})
		if err != nil || sent.Frames != 10 || sent.PerStream[0] != 5 || sent.PerStream[1] != 5 {
			t.Fatalf("sent %+v, %v", sent, err)
		}
		for i := range 10 {
			got, want := captured.next(), frames[i%4].Frame
			if !bytes.Equal(got[:6], wire.right.mac) || !bytes.Equal(got[6:12], wire.left.mac) || !bytes.Equal(got[12:], want[12:]) {
				t.Fatalf("frame %d: % x", i, got[:20])
			}
		}
		captured.quiet()
	}
}

func TestSocketStopsWithItsContext(t *testing.T) {
	wire := plug(t)
	g := NewSocketGenerator()
	if err := g.SetLap(lapOf(udp4)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	sent, err := g.Run(ctx, Order{Routes: routes(wire), Rate: 1000})
	if err != nil || sent.Frames != wire.right.received(t) || sent.PerStream[0] != sent.Frames {
		t.Errorf("sent %+v, %v; the kernel counted %d", sent, err, wire.right.received(t))
	}
}

func TestSocketRefuses(t *testing.T) {
	wire := plug(t)
	g := NewSocketGenerator()
	refused := func(what, want string, o Order) {
		t.Helper()
		if sent, err := g.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || sent.Frames != 0 {
			t.Errorf("%s: sent %d, error %v; expected %q in it", what, sent.Frames, err, want)
		}
	}
	refused("no lap", "nothing to send", Order{Frames: 1})
	if err := g.SetLap(Lap{}); err == nil {
		t.Error("an empty lap is taken")
	}
	if err := g.SetLap(lapOf(udp4)); err != nil {
		t.Fatal(err)
	}
	refused("no route", "no route", Order{Frames: 1})
	refused("own time", "replay", Order{Frames: 1, OwnTime: true, Routes: routes(wire)})
	port, err := netlink.LinkByIndex(wire.left.index)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetDown(port); err != nil {
		t.Fatal(err)
	}
	refused("port down", "is down", Order{Frames: 1, Routes: routes(wire)})
}

func TestBuildRefuses(t *testing.T) {
	good := Route{From: make([]byte, 6), To: make([]byte, 6)}
	short, mixed, icmp := udp6, udp4, udp4
	short.FrameBytes, mixed.Destination, icmp.Protocol = 79, udp6.Destination, packet.ProtoICMP
	for _, p := range []Packet{short, mixed, icmp, {}} {
		if _, err := Build(p, good, 64, 0, 0, true); err == nil {
			t.Errorf("a frame is made of %+v", p)
		}
	}
	if _, err := Build(udp4, Route{}, 64, 0, 0, true); err == nil {
		t.Error("a frame without MACs is made")
	}
}

// Build returns the frame that the generator sends for a packet, without FCS:
// Ethernet, IP, UDP or a TCP SYN, the stamp, and the filler. It is the reference
// that the program in bpf/lab_generate.h is held against, and what a
// SocketGenerator sends. sequence counts the frames of the packet's stream from 0, sent is the time on
// CLOCK_MONOTONIC; ttl 0 is 64. Without filled (see Order), UDP over IPv4 has no checksum.
func Build(p Packet, route Route, ttl uint8, sequence uint64, sent time.Duration, filled bool) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(route.From) != 6 || len(route.To) != 6 {
		return nil, fmt.Errorf("route of stream %d: MACs %v and %v: expected six bytes each", p.Stream, route.From, route.To)
	}
	b := make([]byte, p.FrameBytes)
	p.write(b, route, ttl, sequence, sent, filled)
	return b, nil
}
