// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"fmt"
	"net/netip"

	"minne/internal/lab/destinations"
)

// Ends says between which addresses the packets of a pattern travel, in both directions.
type Ends struct {
	Forward Direction // from the first port to the second; tables are of this direction
	Back    Direction // used by bidirectional patterns
	// Avoid are networks of the device itself: no destination out of a table or of
	// the whole Internet is drawn from them, nor from those behind the sending port.
	Avoid []netip.Prefix
}

// Direction is one way through the device.
type Direction struct {
	Name       string // as streams are named in reports: "left to right"
	IPv4, IPv6 Networks
}

// Networks are the addresses of one IP version in one direction.
type Networks struct {
	Stream uint8 // id of the direction's stream of this version
	// Source addresses are drawn from here: a network that the device takes to be
	// behind the sending port, without an address of the device itself.
	Sources netip.Prefix
	// Destinations are drawn from here unless the pattern draws them elsewhere:
	// networks that the device routes to the station behind the receiving port.
	Destinations []netip.Prefix
}

// Benchmark networks: 198.18.0.0/15 is set aside for measuring IPv4 (RFC 2544
// appendix C, RFC 6890), 2001:2::/48 for IPv6 (RFC 5180 section 8). Each is
// divided between the two sides.
var (
	left4, right4 = netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")
	left6, right6 = netip.MustParsePrefix("2001:2::/49"), netip.MustParsePrefix("2001:2:0:8000::/49")
)

// BenchmarkEnds returns ends in the networks that are set aside for benchmarks:
// 198.18.0.0/16 and 2001:2::/49 behind the first port, 198.19.0.0/16 and
// 2001:2:0:8000::/49 behind the second. Streams are 0 and 1 forward (IPv4, IPv6), 2 and 3 back.
func BenchmarkEnds() Ends {
	return Ends{
		Forward: Direction{
			Name: "left to right",
			IPv4: Networks{Stream: 0, Sources: left4, Destinations: []netip.Prefix{right4}},
			IPv6: Networks{Stream: 1, Sources: left6, Destinations: []netip.Prefix{right6}},
		},
		Back: Direction{
			Name: "right to left",
			IPv4: Networks{Stream: 2, Sources: right4, Destinations: []netip.Prefix{left4}},
			IPv6: Networks{Stream: 3, Sources: right6, Destinations: []netip.Prefix{left6}},
		},
	}
}

// Stream is one direction's packets of one IP version.
type Stream struct {
	ID   uint8
	Name string // for reports: "IPv4, left to right"
	Back bool
	IPv6 bool
	// Share of the pattern's packets, 0…1.
	Share float64
	// FrameBytes is the size of all its frames without FCS, or 0 when they differ.
	FrameBytes int
}

// Streams returns the streams of the pattern's lap, forward ones first. A capture has none.
func (p Pattern) Streams(ends Ends) (out []Stream) {
	if p.Shape == Replay {
		return nil
	}
	for i, d := range p.directions(ends) {
		for _, ipv6 := range []bool{false, true} {
			weight, n, name := p.Family.IPv4, d.IPv4, "IPv4"
			if ipv6 {
				weight, n, name = p.Family.IPv6, d.IPv6, "IPv6"
			}
			if weight == 0 {
				continue
			}
			if d.Name != "" {
				name += ", " + d.Name
			}
			one := p
			one.Family = Family{IPv4: 1}
			if ipv6 {
				one.Family = Family{IPv6: 1}
			}
			out = append(out, Stream{
				ID: n.Stream, Name: name, Back: i == 1, IPv6: ipv6,
				Share:      float64(weight) / float64((p.Family.IPv4+p.Family.IPv6)*len(p.directions(ends))),
				FrameBytes: max(0, one.FrameSize()-fcs),
			})
		}
	}
	return out
}

func (p Pattern) directions(ends Ends) []Direction {
	if p.Bidirectional {
		return []Direction{ends.Forward, ends.Back}
	}
	return []Direction{ends.Forward}
}

// check refuses networks from which a stream's packets can't be made.
func (n Networks) check(stream string, ipv6, needsDestinations bool) error {
	version := map[bool]string{false: "IPv4", true: "IPv6"}[ipv6]
	if !n.Sources.IsValid() {
		return fmt.Errorf("traffic: stream %q needs %s source addresses, and these ends have none: use another family, or another topology", stream, version)
	}
	if needsDestinations && len(n.Destinations) == 0 {
		return fmt.Errorf("traffic: stream %q needs %s destinations, and these ends have none: use table=FILE, another family, or another topology", stream, version)
	}
	for _, p := range append([]netip.Prefix{n.Sources}, n.Destinations...) {
		if p.Addr().Is6() != ipv6 || !destinations.HasUnicast(p) {
			return fmt.Errorf("traffic: stream %q: %s is no network of %s hosts", stream, p, version)
		}
	}
	return nil
}
