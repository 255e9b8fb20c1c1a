// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"minne/internal/lab/traffic"
)

// shortLap is about how many packets laps have that need not be as long as they
// can be: random orders don't repeat at once, and the generator's memory stays in its cache.
const shortLap = 1 << 14

// tuple is a flow: 36 bytes, because a lap can have a million of them.
type tuple struct {
	source, destination [16]byte // IPv4 in the first four
	from, to            uint16   // ports
}

// slot is one packet of a lap.
type slot struct {
	flow   uint32
	bytes  uint16 // without FCS
	stream uint8  // index
}

// made is a lap in memory.
type made struct {
	slots    []slot
	flows    []tuple
	streams  []Stream
	protocol uint8
}

// Lap makes the pattern's packets. With several directions they alternate packet
// by packet, and IP versions are spread evenly. The same pattern and ends make the same packets.
func (p Pattern) Lap(ends Ends) (traffic.Lap, error) {
	if p.Shape == Replay {
		return traffic.Lap{}, errors.New("traffic: the frames of a capture are replayed, they are no pattern")
	}
	perDirection, err := p.length()
	if err != nil {
		return traffic.Lap{}, fmt.Errorf("traffic: %w", err)
	}
	sources, err := p.sources(ends)
	if err != nil {
		return traffic.Lap{}, err
	}
	m := &made{streams: p.Streams(ends), protocol: p.protocol()}
	if err := p.fill(m, sources, perDirection); err != nil {
		return traffic.Lap{}, err
	}
	return traffic.Lap{Packets: len(m.slots), Packet: m.packet, Fresh: p.fresh()}, nil
}

// fresh reports whether further laps must not repeat the flows of this one. Ports
// of the whole range of RFC 4814 leave no bits in which laps could differ; such laps
// of a million packets just repeat.
func (p Pattern) fresh() bool {
	return p.Shape == RandomTo && !p.RFC4814 || p.Shape == RandomTuple || p.Shape == Flows && p.FlowPackets > 0
}

// fill deals the packets of all streams.
func (p Pattern) fill(m *made, sources []*source, perDirection int) error {
	families := p.Family.order()
	perStream := len(sources) / p.ways()
	m.slots = make([]slot, 0, perDirection*p.ways())
	for k := range perDirection {
		for way := range p.ways() {
			at := way * perStream
			if perStream == 2 && families[k%len(families)] {
				at++
			}
			s := sources[at]
			flow, err := s.next(m)
			if err != nil {
				return err
			}
			size := s.size(p.Sizes, k)
			m.slots = append(m.slots, slot{flow: flow, bytes: uint16(max(size, s.least) - fcs), stream: uint8(at)})
		}
	}
	return nil
}

// packet returns packet i of the lap.
func (m *made) packet(i int) traffic.Packet {
	s := m.slots[i]
	f, stream := &m.flows[s.flow], m.streams[s.stream]
	p := traffic.Packet{
		SourcePort: f.from, DestinationPort: f.to, Protocol: m.protocol, FrameBytes: s.bytes, Stream: stream.ID,
		Source: netip.AddrFrom16(f.source), Destination: netip.AddrFrom16(f.destination),
	}
	if !stream.IPv6 {
		p.Source, p.Destination = netip.AddrFrom4([4]byte(f.source[:4])), netip.AddrFrom4([4]byte(f.destination[:4]))
	}
	return p
}

func bytesOf(a netip.Addr) (b [16]byte) {
	copy(b[:], a.AsSlice())
	return b
}

// ways is how many directions have packets.
func (p Pattern) ways() int {
	if p.Bidirectional {
		return 2
	}
	return 1
}

// most is the greatest number of packets per direction.
func (p Pattern) most() int { return MaxPackets / p.ways() }

// flowPeriod is after how many packets of a direction all flows have had their turn, or their life.
func (p Pattern) flowPeriod() int {
	if p.Shape != Flows {
		return 1
	}
	return p.Flows * max(1, p.FlowPackets)
}

// length returns how many packets of each direction a lap has: all decks of sizes
// and families come out even, and where the lap is long enough for it the lives of flows too.
func (p Pattern) length() (int, error) {
	cards := (p.Family.IPv4 + p.Family.IPv6) * len(p.Sizes.Deck)
	most, period := p.most(), p.flowPeriod()
	switch {
	case cards > most:
		return 0, &fault{message: fmt.Sprintf("the shares come out even only after %d packets", cards), expected: fmt.Sprintf("shares that do within %d", most)}
	case period > most:
		return 0, &fault{message: fmt.Sprintf("the flows' lives take %d packets", period), expected: fmt.Sprintf("flows × packets up to %d (in each direction)", most)}
	case p.Shape == Flows && p.Flows < p.Family.versions():
		return 0, &fault{message: "one flow can't be of both IP versions", expected: "two or more flows"}
	}
	unit := lcm(cards, period)
	if unit > most {
		unit = cards
	}
	want := shortLap
	switch {
	case p.Shape == OneFlow && (len(p.Sizes.Deck) == 1 || p.Sizes.Ordered):
		want = unit
	case p.fresh() || p.Shape != Flows && p.Shape != OneFlow:
		want = most
	case p.Shape == Flows:
		want = min(most, max(want, 16*p.Flows))
	}
	return max(unit, want/unit*unit), nil
}

// order returns the IP versions of one deck of packets, true for IPv6, spread
// evenly: each next one is of the version that is furthest behind its share.
func (f Family) order() []bool {
	total := f.IPv4 + f.IPv6
	out := make([]bool, total)
	behind := 0
	for i := range out {
		behind += f.IPv6
		if 2*behind > total || f.IPv4 == 0 {
			out[i] = true
			behind -= total
		}
	}
	return out
}

// versions is how many IP versions have packets.
func (f Family) versions() int {
	if f.IPv4 > 0 && f.IPv6 > 0 {
		return 2
	}
	return 1
}

// random returns the random source for one purpose of one stream, so that
// changing the sizes, say, leaves the flows as they are.
func (p Pattern) random(stream, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(stream)<<8|uint64(purpose)))
}
