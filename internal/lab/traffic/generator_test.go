// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
)

// variety is a lap of all kinds of packets and the sizes of RFC 2544 with an odd
// one, each kind a stream.
func variety(kinds ...Packet) Lap {
	var all []Packet
	for i, bytes := range []uint16{60, 61, 124, 508, 1514} {
		for stream, p := range kinds {
			p.FrameBytes = max(bytes, uint16(LeastFrame(p.Source.Is6(), p.Protocol)))
			p.Stream, p.SourcePort = uint8(stream), p.SourcePort+uint16(i)
			all = append(all, p)
		}
	}
	return lapOf(all...)
}

func lapOf(all ...Packet) Lap {
	return Lap{Packets: len(all), Packet: func(i int) Packet { return all[i] }}
}

func between(from, to string, protocol uint8) Packet {
	return Packet{Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr(to), SourcePort: 49152, DestinationPort: 7,
		Protocol: protocol, FrameBytes: uint16(LeastFrame(netip.MustParseAddr(from).Is6(), protocol))}
}

var (
	udp4 = between("198.18.1.2", "198.19.255.1", packet.ProtoUDP)
	tcp4 = between("198.18.1.3", "203.0.113.77", packet.ProtoTCP)
	udp6 = between("2001:2::1", "2001:db8:1:2:ffff::9", packet.ProtoUDP)
	tcp6 = between("2001:2::2", "2001:db8::1:0:0:1", packet.ProtoTCP)
)

// checkFrame reads a frame with nothing of this package's and compares it with what was ordered.
func checkFrame(f []byte, r Route, p Packet, ttl uint8, summed bool) (payload []byte, err error) {
	if len(f) != int(p.FrameBytes) {
		return nil, fmt.Errorf("%d bytes, expected %d", len(f), p.FrameBytes)
	}
	if !bytes.Equal(f[:6], r.To) || !bytes.Equal(f[6:12], r.From) {
		return nil, fmt.Errorf("MACs % x", f[:12])
	}
	var got Packet
	var hops uint8
	var upper []byte
	switch typ := binary.BigEndian.Uint16(f[12:]); {
	case typ == packet.TypeIPv4 && f[14] == 0x45:
		ip := f[14:34]
		if packet.Checksum(ip) != 0 || int(binary.BigEndian.Uint16(ip[2:])) != len(f)-14 {
			return nil, fmt.Errorf("IPv4 header % x", ip)
		}
		got.Source, got.Destination = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
		got.Protocol, hops, upper = ip[9], ip[8], f[34:]
	case typ == packet.TypeIPv6 && f[14] == 0x60:
		ip := f[14:54]
		if int(binary.BigEndian.Uint16(ip[4:])) != len(f)-54 {
			return nil, fmt.Errorf("IPv6 header % x", ip)
		}
		got.Source, got.Destination = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
		got.Protocol, hops, upper = ip[6], ip[7], f[54:]
	default:
		return nil, fmt.Errorf("type %04x, % x", typ, f[14:])
	}
	got.SourcePort, got.DestinationPort = binary.BigEndian.Uint16(upper), binary.BigEndian.Uint16(upper[2:])
	got.FrameBytes, got.Stream = p.FrameBytes, p.Stream
	if got != p || hops != ttl {
		return nil, fmt.Errorf("is %+v with TTL %d, expected %+v with %d", got, hops, p, ttl)
	}
	if got.Protocol == packet.ProtoTCP {
		if upper[12] != 0x50 || upper[13] != packet.SYN {
			return nil, fmt.Errorf("TCP header % x", upper[:20])
		}
		payload = upper[20:]
	} else {
		if int(binary.BigEndian.Uint16(upper[4:])) != len(upper) {
			return nil, fmt.Errorf("UDP header % x", upper[:8])
		}
		payload = upper[8:]
	}
	switch none := got.Protocol == packet.ProtoUDP && binary.BigEndian.Uint16(upper[6:]) == 0; {
	case none && summed:
		return nil, errors.New("no UDP checksum")
	case !none && packet.UpperChecksum(got.Source, got.Destination, got.Protocol, upper) != 0:
		return nil, errors.New("wrong transport checksum")
	}
	return payload, nil
}

func TestFramesAreAsOrdered(t *testing.T) {
	for _, c := range []struct {
		name   string
		lap    Lap
		filled bool
		ttl    uint8
	}{
		{"UDP over IPv4", variety(udp4), false, 64},
		{"UDP over IPv4, filled", variety(udp4), true, 255},
		{"TCP over IPv4", variety(tcp4), false, 64},
		{"UDP over IPv6", variety(udp6), false, 1},
		{"TCP over IPv6, filled", variety(tcp6), true, 64},
		{"all kinds", variety(udp4, tcp4, udp6, tcp6), false, 64},
		{"least frames of all kinds", lapOf(udp4, tcp4, udp6, tcp6), false, 64},
		{"one flow", lapOf(udp4), false, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := plug(t)
			off, err := Accepting(wire.right.index)
			if err != nil {
				t.Fatal(err)
			}
			defer off()
			captured, before := wire.right.capture(t), wire.right.received(t)
			g := newGenerator(t, c.lap)
			route := wire.left.to(wire.right)
			const laps, start = 7, 2
			frames := uint64(c.lap.Packets * laps)
			o := Order{Routes: map[uint8]Route{}, TTL: c.ttl, Frames: frames, Filled: c.filled, Offset: start}
			for i := range 4 {
				o.Routes[uint8(i)] = route
			}
			// A pace that no machine loses frames at.
			o.Rate = 20_000
			sent := run(t, g, o)
			next, last := map[uint8]uint64{}, time.Duration(0)
			for i := range int(frames) {
				p := c.lap.Packet((i + start) % c.lap.Packets)
				payload, err := checkFrame(captured.next(), route, p, c.ttl, c.filled)
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				stream, sequence, at, ok := ReadStamp(payload)
				if !ok || stream != p.Stream || sequence != next[stream] || at < last {
					t.Fatalf("frame %d: stamp %d %d %v %v, expected number %d of stream %d", i, stream, sequence, at, ok, next[p.Stream], p.Stream)
				}
				next[stream]++
				last = at
			}
			captured.quiet()
			if got := wire.right.received(t) - before; got != frames || sent.Frames != frames {
				t.Errorf("%d frames ordered, %d sent, the kernel counted %d", frames, sent.Frames, got)
			}
			for stream, n := range next {
				if sent.PerStream[stream] != n {
					t.Errorf("stream %d: %d sent, %d captured", stream, sent.PerStream[stream], n)
				}
			}
		})
	}
}

func TestSinkAndKernelCountWhatWasSent(t *testing.T) {
	lap := variety(udp4, tcp4, udp6, tcp6)
	for _, c := range []struct {
		name  string
		order Order
	}{
		{"paced", Order{Rate: 50_000, Frames: 4_000, Filled: true}},
		{"paced by time", Order{Rate: 40_000, Duration: 100 * time.Millisecond, Filled: true, Batch: 1, Burst: time.Second}},
		{"with stamps of every frame", Order{Rate: 50_000, Frames: 4_000, Filled: true, Timed: true, Batch: 256}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := plug(t)
			sink := newSink(t, wire.right)
			before := wire.right.received(t)
			g := newGenerator(t, lap)
			c.order.Routes = map[uint8]Route{}
			expected := map[uint8]Expect{}
			for i := range uint8(4) {
				c.order.Routes[i] = wire.left.to(wire.right)
				expected[i] = Expect{TTL: 64, MAC: wire.right.mac, MACBytes: 6, Timed: c.order.Timed, Filled: true}
			}
			if err := sink.ExpectStreams(expected); err != nil {
				t.Fatal(err)
			}
			sent := run(t, g, c.order)
			if sent.Frames != 4_000 {
				t.Errorf("%d frames sent, expected 4000", sent.Frames)
			}
			arrived := await(t, sink, sent.Frames)
			bytes := uint64(0)
			for i := range c.order.Routes {
				a := arrived[i]
				if a.Received != 1_000 || a.Received != sent.PerStream[i] || a.Duplicated+a.Reordered != 0 || a.Wrong() != "" {
					t.Errorf("stream %d: sent %d, arrived %+v", i, sent.PerStream[i], a)
				}
				if timed := a.Latency.Count(); c.order.Timed && timed != a.Received || !c.order.Timed && timed != 0 {
					t.Errorf("stream %d: %d latencies", i, timed)
				}
				bytes += a.Bytes
			}
			want := uint64(0)
			for i := range 4_000 {
				want += uint64(lap.Packet(i % lap.Packets).FrameBytes)
			}
			if got := wire.right.received(t) - before; got != sent.Frames || bytes != want {
				t.Errorf("sent %d frames, %d bytes; the kernel counted %d, the sink %d bytes", sent.Frames, want, got, bytes)
			}
		})
	}
}

func TestOneGeneratorSendsInBothDirections(t *testing.T) {
	wire := plug(t)
	sink := newSink(t, wire.left, wire.right)
	back := udp4
	back.Source, back.Destination, back.Stream = udp4.Destination, udp4.Source, 200
	g := newGenerator(t, lapOf(udp4, back))
	err := sink.ExpectStreams(map[uint8]Expect{
		0:   {TTL: 64, MAC: wire.right.mac, MACBytes: 6},
		200: {TTL: 64, MAC: wire.left.mac, MACBytes: 6},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := run(t, g, Order{Routes: map[uint8]Route{0: wire.left.to(wire.right), 200: wire.right.to(wire.left)}, Rate: 20_000, Frames: 1_001})
	arrived := await(t, sink, 1_001)
	if sent.PerStream[0] != 501 || sent.PerStream[200] != 500 || arrived[0].Received != 501 || arrived[200].Received != 500 ||
		arrived[0].Wrong()+arrived[200].Wrong() != "" {
		t.Errorf("sent %v, arrived %d and %d", sent.PerStream, arrived[0].Received, arrived[200].Received)
	}
}

func TestGeneratorsShareALap(t *testing.T) {
	wire := plug(t)
	sink := newSink(t, wire.right)
	first := newGenerator(t, variety(udp4, tcp4))
	second, err := NewGenerator()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.ShareLap(first); err != nil {
		t.Fatal(err)
	}
	if err := sink.ExpectStreams(map[uint8]Expect{0: {TTL: 64, Filled: true}, 1: {TTL: 64, Filled: true}}); err != nil {
		t.Fatal(err)
	}
	o := Order{Routes: map[uint8]Route{0: wire.left.to(wire.right), 1: wire.left.to(wire.right)}, Rate: 20_000, Frames: 500, Filled: true}
	run(t, first, o)
	first.Close() // the lap stays with the other
	if sent := run(t, second, o); sent.Frames != 500 {
		t.Fatalf("%+v", sent)
	}
	for stream, a := range await(t, sink, 1_000) {
		// The second generator's numbers begin at 0 again.
		if a.Received != 250 || a.Duplicated != 250 || a.Wrong() != "" {
			t.Errorf("stream %d: %+v", stream, a)
		}
	}
}

func TestFreshLapsHaveNewFlows(t *testing.T) {
	flows := make([]Packet, 20)
	for i := range flows {
		flows[i] = udp4
		flows[i].SourcePort = uint16(50_000 + i/2) // two packets each
	}
	scattered := make([]Packet, 20)
	for i := range scattered {
		scattered[i] = udp6
		scattered[i].SourcePort = uint16(i*2503 + 1025)
		a := udp6.Source.As16()
		a[14], a[15] = byte(i*59), byte(i*83)
		scattered[i].Source = netip.AddrFrom16(a)
		scattered[i].Destination = netip.MustParseAddr("2001:db8::1")
	}
	for _, c := range []struct {
		name        string
		lap         Lap
		flowsPerLap int
	}{
		{"one packet", lapOf(udp4), 1},
		{"neighbouring ports", lapOf(flows...), 10},
		{"random ports and hosts", lapOf(scattered...), 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.lap.Fresh = true
			wire := plug(t)
			off, err := Accepting(wire.right.index)
			if err != nil {
				t.Fatal(err)
			}
			defer off()
			captured := wire.right.capture(t)
			g := newGenerator(t, c.lap)
			laps := 2_000 / c.lap.Packets
			route := wire.left.to(wire.right)
			run(t, g, Order{Routes: map[uint8]Route{0: route}, Rate: 20_000, Frames: uint64(laps * c.lap.Packets), Filled: true})
			seen := map[string]int{}
			for i := range laps * c.lap.Packets {
				f := captured.next()
				p := c.lap.Packet(i % c.lap.Packets)
				at := 26
				if p.Source.Is6() {
					at = 22
				}
				size := p.Source.BitLen() / 8
				from, _ := netip.AddrFromSlice(f[at : at+size])
				port := binary.BigEndian.Uint16(f[at+2*size:])
				seen[string(f[at:at+2*size+4])]++
				if i < c.lap.Packets && (from != p.Source || port != p.SourcePort) {
					t.Fatalf("packet %d of the first lap comes from %v port %d, expected %v port %d", i, from, port, p.Source, p.SourcePort)
				}
				same := p
				same.Source, same.SourcePort = from, port
				if _, err := checkFrame(f, route, same, 64, true); err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				if port < 1024 {
					t.Fatalf("frame %d: source port %d", i, port)
				}
			}
			if len(seen) != laps*c.flowsPerLap {
				t.Errorf("%d laps had %d different flows, expected %d", laps, len(seen), laps*c.flowsPerLap)
			}
		})
	}
}

func TestReplayedFramesKeepAllButTheirMACs(t *testing.T) {
	wire := plug(t)
	off, err := Accepting(wire.right.index)
	if err != nil {
		t.Fatal(err)
	}
	captured := wire.right.capture(t)
	var frames []Recorded
	for i, n := range []int{60, 1514, 14, 333, 61} {
		f := bytes.Repeat([]byte{byte(i + 1)}, n)
		f[12], f[13] = 0x08, 0x00
		frames = append(frames, Recorded{At: time.Duration(i*i) * time.Millisecond, Stream: uint8(i % 2), Frame: f})
	}
	g, err := NewGenerator()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.SetReplay(frames, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	routes := map[uint8]Route{0: wire.left.to(wire.right), 1: {Port: wire.left.index, From: wire.right.mac, To: wire.left.mac}}
	check := func(n int) {
		t.Helper()
		for i := range n {
			f, r := captured.next(), frames[i%len(frames)]
			to := routes[r.Stream]
			if want := slices.Concat(to.To, to.From, r.Frame[12:]); !bytes.Equal(f, want) {
				t.Fatalf("frame %d: % x, expected % x", i, f, want)
			}
		}
		captured.quiet()
	}
	if sent := run(t, g, Order{Routes: routes, Rate: 10_000, Frames: 23}); sent.Frames != 23 || sent.PerStream[0] != 14 {
		t.Errorf("%+v", sent)
	}
	check(23)
	// Two rounds in their own time: the last frame of the second is 36 ms after the first of the first.
	sent := run(t, g, Order{Routes: routes, OwnTime: true, Frames: 10})
	if sent.Elapsed < 36*time.Millisecond {
		t.Errorf("two rounds took %v only", sent.Elapsed)
	}
	check(10)
	off()
	sink := newSink(t, wire.right)
	if err := sink.TakeAll(true); err != nil {
		t.Fatal(err)
	}
	run(t, g, Order{Routes: routes, Rate: 10_000, Frames: 10})
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		others, err := sink.Others()
		if err != nil {
			t.Fatal(err)
		}
		// The frame of 14 bytes has no packet and is passed on.
		if got := others[wire.right.index]; got.Frames == 10 && got.Bytes == 2*(60+1514+14+333+61) {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("others: %+v", others)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	wire := plug(t)
	newSink(t, wire.right)
	g := newGenerator(t, lapOf(udp4))
	for _, o := range []Order{{}, {Rate: 1_000}, {Frames: 1 << 60}, {Duration: time.Hour}} {
		o.Routes = map[uint8]Route{0: wire.left.to(wire.right)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := g.Run(ctx, o)
			done <- err
		}()
		for limit := time.Now().Add(time.Minute); g.Progress().Frames == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("nothing is sent")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		g.SetLap(lapOf(udp4)) //nolint:errcheck // it was good before
	}
}

func TestMistakesAreNamed(t *testing.T) {
	wire := plug(t)
	good := Order{Routes: map[uint8]Route{0: wire.left.to(wire.right)}, Frames: 1}
	with := func(change func(o *Order)) Order {
		o := good
		change(&o)
		return o
	}
	short, large, sctp, both := tcp6, udp4, udp4, udp4
	short.FrameBytes = 91
	large.FrameBytes = 1515
	sctp.Protocol = 132
	both.Destination = udp6.Destination
	for _, c := range []struct {
		name  string
		lap   Lap
		order Order
		want  string
	}{
		{"good", lapOf(udp4), good, ""},
		{"short frame", lapOf(udp4, short), good, "packet 1 of the lap: frame of 91 bytes: expected 92 to 1514 without FCS for TCP over IPv6"},
		{"large frame", lapOf(large), good, "expected 60 to 1514"},
		{"another protocol", lapOf(sctp), good, "protocol 132: expected 17 (UDP) or 6 (TCP)"},
		{"two families", lapOf(both), good, "expected two addresses of one family"},
		{"nothing", Lap{}, good, "a lap of 0 packets"},
		{"no route", lapOf(udp4), Order{Frames: 1}, "stream 0 has no route"},
		{"no such port", lapOf(udp4), with(func(o *Order) { o.Routes = map[uint8]Route{0: {99, wire.left.mac, wire.right.mac}} }), "no port with index 99"},
		{"no MAC", lapOf(udp4), with(func(o *Order) { o.Routes = map[uint8]Route{0: {Port: wire.left.index}} }), "expected 6 bytes each"},
		{"batch", lapOf(udp4), with(func(o *Order) { o.Batch = 257 }), "batch of 257 frames: expected 1 to 256"},
		{"rate", lapOf(udp4), with(func(o *Order) { o.Rate = -1 }), "rate of -1"},
		{"own time", lapOf(udp4), with(func(o *Order) { o.OwnTime = true }), "only a replay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := NewGenerator()
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if err = g.SetLap(c.lap); err == nil {
				_, err = g.Run(t.Context(), c.order)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
	left, err := netlink.LinkByIndex(wire.left.index)
	if err == nil {
		err = netlink.LinkSetDown(left)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newGenerator(t, lapOf(udp4)).Run(t.Context(), good); err == nil || !strings.Contains(err.Error(), "is down") {
		t.Errorf("port down: %v", err)
	}
}
