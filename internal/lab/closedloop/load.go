// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/ipnet"
	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/traffic"
)

// Load is what is sent along a path: packets in a generator of their own, so that
// trials of several loads can alternate.
type Load struct {
	Subject result.Subject // without a device

	generator *traffic.Generator
	packets   int           // of its lap
	streams   map[uint8]int // frame bytes of each without FCS; 0 is any
	offset    int           // walks on through the lap from trial to trial
	ahead     int           // so many frames at least go ahead of a trial: what the device knows of all of them is in its caches
	unit      int           // a trial has a multiple of so many frames; 0 is 1
	recorded  bool          // frames of a capture, which carry no stamps: they are counted, not looked at
	cpu       int           // that sends it
	beside    *Load         // which another processor may be sending meanwhile; nil for none
}

// Streams of a load.
const (
	stream4     = 0
	stream6     = 1
	streamReply = 2 // IPv4, the other way

	secondStream4, secondStreamReply = 3, 4 // of a second processor
)

// answers says whether a stream goes the other way.
func answers(stream uint8) bool { return stream == streamReply || stream == secondStreamReply }

// benchmarking are the ranges that all networks of the rig are in; no destination that is drawn from a table is.
var benchmarking = ipnet.Must("198.18.0.0/15", "2001:2::/48")

// HostRoutes are the routes to destinations that don't come from a table: one for each family.
func HostRoutes() []netip.Prefix { return append([]netip.Prefix(nil), device.OutHosts...) }

// ends are where patterns begin and end: sources are behind the entry, and behind the way
// out are destinations of patterns that don't draw them from a table.
func ends() pattern.Ends {
	return pattern.Ends{
		Forward: pattern.Direction{
			IPv4: pattern.Networks{Stream: stream4, Sources: device.InHosts[0], Destinations: device.OutHosts[:1]},
			IPv6: pattern.Networks{Stream: stream6, Sources: device.InHosts[1], Destinations: device.OutHosts[1:]},
		},
		Avoid: benchmarking,
	}
}

// Supports says why a pattern can't be sent in a closed loop, or nil.
func Supports(p pattern.Pattern) error {
	switch {
	case p.Bidirectional:
		return fmt.Errorf("traffic %q: the closed loop sends in one direction; leave out bidirectional", p)
	case p.Shape == pattern.Replay:
		return fmt.Errorf("traffic %q: frames of a capture carry no stamps that the closed loop could count; use another pattern", p)
	}
	return nil
}

// Load prepares a pattern's packets.
func (r *Rig) Load(p pattern.Pattern) (*Load, error) {
	if err := Supports(p); err != nil {
		return nil, err
	}
	lap, err := p.Lap(ends())
	if err != nil {
		return nil, err
	}
	streams := map[uint8]int{}
	for _, s := range p.Streams(ends()) {
		streams[s.ID] = s.FrameBytes
	}
	return r.newLoad(p.Subject(""), lap, streams)
}

// LoadTo prepares packets of the least length to these destinations in turn, all of one family.
func (r *Rig) LoadTo(to []netip.Addr) (*Load, error) {
	if len(to) == 0 {
		return nil, errors.New("no destinations to send to")
	}
	if to[0].Is6() {
		return r.loadTo(to, stream6, 40000)
	}
	return r.loadTo(to, stream4, 40000)
}

func (r *Rig) loadTo(to []netip.Addr, stream uint8, from uint16) (*Load, error) {
	packet := traffic.Packet{Source: device.InHosts[0].Addr().Next(), SourcePort: from, DestinationPort: 9, Protocol: unix.IPPROTO_UDP, FrameBytes: traffic.MinFrame4, Stream: stream}
	if to[0].Is6() {
		packet.Source, packet.FrameBytes = device.InHosts[1].Addr().Next(), traffic.MinFrame6
	}
	lap := traffic.Lap{Packets: len(to), Packet: func(i int) traffic.Packet {
		one := packet
		one.Destination = to[i]
		return one
	}}
	size := int(packet.FrameBytes) + 4 // with FCS
	subject := result.Subject{Traffic: fmt.Sprintf("%d destinations", len(to)), FrameSize: size, MeanSize: float64(size)}
	return r.newLoad(subject, lap, map[uint8]int{packet.Stream: int(packet.FrameBytes)})
}

func (r *Rig) newLoad(subject result.Subject, lap traffic.Lap, streams map[uint8]int) (*Load, error) {
	g, err := traffic.NewGenerator()
	if err != nil {
		return nil, err
	}
	r.generators = append(r.generators, g)
	if err := g.SetLap(lap); err != nil {
		return nil, err
	}
	return &Load{Subject: subject, generator: g, packets: lap.Packets, streams: streams, cpu: r.cpu}, nil
}

// whole returns so many frames that all of the lap's units are complete.
func (l *Load) whole(frames int) int {
	unit := max(1, l.unit)
	return (frames + unit - 1) / unit * unit
}

// together are the load and the one beside it.
func (l *Load) together() iter.Seq[*Load] {
	return func(yield func(*Load) bool) {
		if yield(l) && l.beside != nil {
			yield(l.beside)
		}
	}
}

// next returns where in the lap a trial of so many frames begins: where the one before ended.
func (l *Load) next(frames int) int {
	at := l.offset
	l.offset = (l.offset + frames) % l.packets
	return at
}
