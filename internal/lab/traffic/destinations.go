// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Ports of the packets of a Stream.
const (
	firstPort = 40000
	sinkPort  = 9 // discard (RFC 863)
)

// Stream is a sequence of UDP packets of one length from one source to the loaded
// destinations: the plainest of laps, for measurements that change only the way
// that it takes from trial to trial.
type Stream struct {
	ID           int              // 0…255; a sink counts per id
	Port         int              // ifindex of the port to send from
	From, To     net.HardwareAddr // this port's MAC and the router port's
	Source       netip.Addr       // its family is the stream's
	TTL          uint8            // 0 is 64
	FrameBytes   int              // without FCS; 0 is the least
	Frames       uint64           // how many to send
	Rate         float64          // frames per second; 0 is as fast as it goes
	Burst        time.Duration    // of a paced stream: unsent time that may be caught up; 0 is 1 ms
	Gap          time.Duration    // see Order
	Destinations int              // how many of the loaded destinations to walk; 0 is all
	Offset       int              // where in them to begin
}

// destinations are laps of both families that differ in the destination only.
type destinations struct {
	ipv4, ipv6 *sender
	from4      sameForAll
	from6      sameForAll
}

// sameForAll is what all packets of such a lap have in common.
type sameForAll struct {
	source netip.Addr
	bytes  int
}

func (d *destinations) close() error {
	for _, s := range []*sender{d.ipv4, d.ipv6} {
		if s != nil {
			s.close()
		}
	}
	*d = destinations{}
	return nil
}

// SetDestinations replaces the destinations of both families by these, walked in their order.
func (g *Generator) SetDestinations(to []netip.Addr) error {
	var v4, v6 []netip.Addr
	for _, a := range to {
		if a.Is4() && len(v4) < MaxDestinations {
			v4 = append(v4, a)
		} else if a.Is6() && len(v6) < MaxDestinations {
			v6 = append(v6, a)
		} else {
			return fmt.Errorf("more than %d destinations of one family, or an invalid one", MaxDestinations)
		}
	}
	g.mu.Lock()
	g.running = g.current
	g.mu.Unlock()
	if err := g.towards.close(); err != nil {
		return err
	}
	var err error
	d := &g.towards
	d.from4, d.from6 = sameForAll{netip.IPv4Unspecified(), MinFrame4}, sameForAll{netip.IPv6Unspecified(), MinFrame6}
	if d.ipv4, err = towards(v4, d.from4); err == nil {
		d.ipv6, err = towards(v6, d.from6)
	}
	return err
}

// towards loads a lap to destinations of one family; without any there is none.
func towards(to []netip.Addr, same sameForAll) (*sender, error) {
	if len(to) == 0 {
		return nil, nil
	}
	l := Lap{Packets: len(to), Packet: func(i int) Packet {
		return Packet{Source: same.source, Destination: to[i], SourcePort: firstPort, DestinationPort: sinkPort,
			Protocol: unix.IPPROTO_UDP, FrameBytes: uint16(same.bytes)}
	}}
	n, err := survey(l)
	if err != nil {
		return nil, err
	}
	s, err := loadGenerate(n.packets, n.wide, nil)
	if err != nil {
		return nil, err
	}
	s.fill(l, n)
	return s, nil
}

// change rewrites what all packets have in common.
func (s *sender) change(was *sameForAll, to sameForAll) {
	if *was == to {
		return
	}
	*was = to
	source, width := to.source.AsSlice(), stride(s.wide)
	for i := range int(s.array.MaxEntries()) {
		b := s.memory[i*width:]
		binary.NativeEndian.PutUint16(b[4:], uint16(to.bytes))
		copy(b[8:], source)
	}
	s.largest = to.bytes
}

// Send sends the stream and returns when it is over or ctx ends, with what was sent.
// The calling thread must be in the namespace of the stream's port.
func (g *Generator) Send(ctx context.Context, st Stream) (Sent, error) {
	s, was, least := g.towards.ipv4, &g.towards.from4, MinFrame4
	if st.Source.Is6() {
		s, was, least = g.towards.ipv6, &g.towards.from6, MinFrame6
	}
	bytes := st.FrameBytes
	bytes = cmp.Or(bytes, least)
	switch {
	case s == nil:
		return Sent{}, fmt.Errorf("generator: no destinations of the family of source %v", st.Source)
	case bytes < least || bytes > maxFrame:
		return Sent{}, fmt.Errorf("generator: frame of %d bytes: expected %d to %d", bytes, least, maxFrame)
	case st.ID < 0 || st.ID > 255:
		return Sent{}, fmt.Errorf("generator: stream %d: expected 0 to 255", st.ID)
	case st.Frames == 0:
		return Sent{}, nil
	}
	s.change(was, sameForAll{st.Source, bytes})
	s.packets = int(s.array.MaxEntries())
	if st.Destinations > 0 {
		s.packets = min(s.packets, st.Destinations)
	}
	return g.send(ctx, s, Order{
		Routes: map[uint8]Route{0: {Port: st.Port, From: st.From, To: st.To}},
		TTL:    st.TTL, Rate: st.Rate, Frames: st.Frames, Gap: st.Gap, Burst: st.Burst, Offset: st.Offset,
	}, map[uint8]uint8{0: uint8(st.ID)})
}
