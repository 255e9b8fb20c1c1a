// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"slices"

	"minne/internal/base/ipnet"
	"minne/internal/lab/destinations"
)

// Ports of RFC 4814 section 4.5: pseudorandom and uniform, both ends included.
// Sources of flows are from the same range.
const (
	firstSourcePort, lastSourcePort           = 1024, 65535
	firstDestinationPort, lastDestinationPort = 1, 49151
	discardPort                               = 9     // RFC 863: destination of all that has no random one
	fixedSourcePort                           = 40000 // of shapes whose source port does not change

	// lapBits are the low bits of source ports that are the same in all of a lap whose
	// flows must not come again: the generator puts the number of the lap there
	// (traffic.Lap.Fresh), so no flow comes again for 2^12 laps, which are 4 billion packets.
	lapBits = 12
)

// source makes the packets of one stream.
type source struct {
	shape   Shape
	least   int // frame size with FCS
	flows   int // at the same time
	packets int // of a flow; 0 is without end
	rfc4814 bool
	fresh   bool // the lap's flows must not come again

	from, to destinations.Draw
	random   *rand.Rand // addresses and ports
	shuffle  *rand.Rand // order of flows
	deal     *rand.Rand // order of sizes

	sent   int      // packets so far
	order  []int    // places of this round's flows
	places []uint32 // the flow in every place now, as an index in the lap
	used   map[uint64]struct{}
	hand   []int       // sizes of the deck that is being dealt
	one    [2][16]byte // source and destination of shapes that keep them
}

// What a stream's random sources are for.
const (
	forAddresses = iota
	forOrder
	forSizes
)

// sources returns the stream's sources, in the order of Streams.
func (p Pattern) sources(ends Ends) ([]*source, error) {
	streams := p.Streams(ends)
	drawn, err := p.tableDraws(ends)
	if err != nil {
		return nil, err
	}
	flows := p.shareFlows()
	out := make([]*source, len(streams))
	for i, s := range streams {
		n := ends.Forward.IPv4
		switch {
		case s.Back && s.IPv6:
			n = ends.Back.IPv6
		case s.Back:
			n = ends.Back.IPv4
		case s.IPv6:
			n = ends.Forward.IPv6
		}
		elsewhere := drawn != nil && !s.Back
		if err := n.check(s.Name, s.IPv6, !elsewhere); err != nil {
			return nil, err
		}
		src := &source{
			shape: p.Shape, least: p.Least(s.IPv6), flows: flows[s.IPv6], packets: p.FlowPackets, rfc4814: p.RFC4814, fresh: p.fresh(),
			from: hosts([]netip.Prefix{n.Sources}), to: hosts(n.Destinations),
			random: p.random(i, forAddresses), shuffle: p.random(i, forOrder), deal: p.random(i, forSizes),
			used: map[uint64]struct{}{},
		}
		if elsewhere {
			if src.to, err = drawn(s.IPv6); err != nil {
				return nil, err
			}
		}
		if src.shape == RandomTo || src.shape == RandomPorts {
			src.one = [2][16]byte{bytesOf(src.from(src.random)), bytesOf(src.to(src.random))}
		}
		out[i] = src
	}
	return out, nil
}

// shareFlows divides the flows between the IP versions in the ratio of their packets.
func (p Pattern) shareFlows() map[bool]int {
	n6 := (p.Flows*p.Family.IPv6*2 + p.Family.IPv4 + p.Family.IPv6) / (2 * (p.Family.IPv4 + p.Family.IPv6))
	if p.Family.versions() == 2 {
		n6 = min(max(n6, 1), p.Flows-1)
	}
	return map[bool]int{false: p.Flows - n6, true: n6}
}

// hosts draws hosts of networks, each network alike. Of IPv4 networks the first
// and last address are no hosts (unless they have no others).
func hosts(networks []netip.Prefix) destinations.Draw {
	return func(random *rand.Rand) netip.Addr {
		p := networks[random.IntN(len(networks))].Masked()
		for {
			a := destinations.HostOf(p, random)
			if a.Is6() || p.Bits() >= 31 || a != p.Addr() && p.Contains(a.Next()) {
				return a
			}
		}
	}
}

// tableDraws returns how destinations are drawn when it is not from the ends' networks, else nil.
func (p Pattern) tableDraws(ends Ends) (func(ipv6 bool) (destinations.Draw, error), error) {
	avoid := slices.Clone(ends.Avoid)
	for _, n := range []Networks{ends.Forward.IPv4, ends.Forward.IPv6} {
		if n.Sources.IsValid() {
			avoid = append(avoid, n.Sources)
		}
	}
	switch p.Draw {
	case FromNetworks:
		return nil, nil
	case Uniform:
		return func(ipv6 bool) (destinations.Draw, error) { return destinations.Public(ipv6).Outside(avoid), nil }, nil
	}
	table, err := p.Prefixes()
	if err != nil {
		return nil, err
	}
	return func(ipv6 bool) (destinations.Draw, error) {
		prefixes, version := table.IPv4, "IPv4"
		if ipv6 {
			prefixes, version = table.IPv6, "IPv6"
		}
		prefixes = slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return inside(p, avoid) })
		draw, err := destinations.EachPrefix(prefixes, ipv6)
		if p.Draw == InTable && !ipv6 {
			draw, err = destinations.Covered(prefixes)
		}
		if err != nil {
			return nil, fmt.Errorf("traffic: table=%s has no %s prefix to which packets could be sent: use another family or table", p.Table, version)
		}
		return draw.Outside(avoid), nil
	}, nil
}

// inside reports whether one of the networks holds the whole prefix.
func inside(p netip.Prefix, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return ipnet.Within(p, n) })
}

// Prefixes returns the pattern's routing table; it is empty when the pattern names none.
func (p Pattern) Prefixes() (destinations.Table, error) {
	if p.Table == "" {
		return destinations.Table{}, nil
	}
	return destinations.Named(p.Table)
}

// next returns the flow of the stream's next packet, made when it is a new one.
func (s *source) next(m *made) (uint32, error) {
	defer func() { s.sent++ }()
	switch s.shape {
	case Flows:
		return s.nextTurn(m)
	case OneFlow:
		if s.places == nil {
			s.places = []uint32{m.add(s.draw())}
		}
		return s.places[0], nil
	}
	return m.add(s.draw()), nil
}

// nextTurn returns the flow whose turn it is. In every round each place has one
// turn; place j's flow is j/flows of a life older than place 0's.
func (s *source) nextTurn(m *made) (uint32, error) {
	round, turn := s.sent/s.flows, s.sent%s.flows
	if turn == 0 {
		if s.order == nil {
			s.order, s.places = make([]int, s.flows), make([]uint32, s.flows)
			for i := range s.order {
				s.order[i] = i
			}
		}
		s.shuffle.Shuffle(s.flows, func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	}
	place := s.order[turn]
	born := round == 0
	if s.packets > 0 && (round+place*s.packets/s.flows)%s.packets == 0 {
		born = true
	}
	if born {
		t, err := s.unused()
		if err != nil {
			return 0, err
		}
		s.places[place] = m.add(t)
	}
	return s.places[place], nil
}

var tupleSeed = maphash.MakeSeed()

// unused draws a flow that the stream has not had yet.
func (s *source) unused() (tuple, error) {
	for range 1000 {
		t := s.draw()
		key := maphash.Comparable(tupleSeed, t)
		if _, had := s.used[key]; !had {
			s.used[key] = struct{}{}
			return t, nil
		}
	}
	return tuple{}, fmt.Errorf("traffic: after %d flows all addresses and ports are used up: use fewer flows, a table, or larger networks behind the ports", len(s.used))
}

// draw makes a flow.
func (s *source) draw() tuple {
	t := tuple{from: fixedSourcePort, to: discardPort}
	switch s.shape {
	case RandomTo:
		t.source, t.destination = s.one[0], bytesOf(s.to(s.random))
	case RandomPorts:
		t.source, t.destination = s.one[0], s.one[1]
	default:
		t.source, t.destination = bytesOf(s.from(s.random)), bytesOf(s.to(s.random))
	}
	switch changes := s.shape == Flows || s.shape == RandomTuple || s.rfc4814; {
	case changes && s.fresh: // from 16384 on, as traffic wants it
		t.from = port(4, 15, s.random)<<lapBits | fixedSourcePort&(1<<lapBits-1)
	case changes:
		t.from = port(firstSourcePort, lastSourcePort, s.random)
	}
	if s.shape == RandomTuple || s.rfc4814 {
		t.to = port(firstDestinationPort, lastDestinationPort, s.random)
	}
	return t
}

func port(first, last int, random *rand.Rand) uint16 {
	return uint16(first + random.IntN(last-first+1))
}

// size returns the frame size with FCS of the direction's k-th packet: of an
// ordered deck the k-th card, else the next of the stream's own shuffled deck.
func (s *source) size(sizes Sizes, k int) int {
	if sizes.Ordered || len(sizes.Deck) == 1 {
		return sizes.Deck[k%len(sizes.Deck)]
	}
	if len(s.hand) == 0 {
		s.hand = append(s.hand, sizes.Deck...)
		s.deal.Shuffle(len(s.hand), func(i, j int) { s.hand[i], s.hand[j] = s.hand[j], s.hand[i] })
	}
	last := len(s.hand) - 1
	size := s.hand[last]
	s.hand = s.hand[:last]
	return size
}

// add keeps a flow and returns its index.
func (m *made) add(t tuple) uint32 {
	m.flows = append(m.flows, t)
	return uint32(len(m.flows) - 1)
}
