// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"minne/internal/lab/result"
	"minne/internal/lab/traffic"
)

// Shape is what distinguishes one packet from the next.
type Shape uint8

const (
	OneFlow     Shape = iota // nothing
	Flows                    // Pattern.Flows flows take turns
	RandomTo                 // rDoS: a random destination in every packet
	RandomTuple              // rDoS: a random 5-tuple in every packet
	RandomPorts              // random ports in every packet (RFC 4814)
	Replay                   // the frames of a capture
)

// Draw is where destinations come from.
type Draw uint8

const (
	FromNetworks Draw = iota // the networks behind the device
	InTable                  // addresses that the table covers; of IPv6, where those of few short prefixes would be nearly all, as PerPrefix
	PerPrefix                // a host of every prefix in turn
	Uniform                  // anywhere on the public Internet
)

// Family says how many of the packets are IPv4 and IPv6: their shares are in this ratio.
type Family struct{ IPv4, IPv6 int }

// Pattern is a parsed text. The zero value is no pattern: Parse makes them.
type Pattern struct {
	Shape         Shape
	Flows         int // at the same time in each direction, of Shape Flows
	FlowPackets   int // after so many a flow is replaced; 0 is never
	SYN           bool
	RFC4814       bool // ports of Shape Flows, RandomTo and RandomPorts
	Bidirectional bool
	Sizes         Sizes
	Family        Family
	Table         string // file, "full", or "" for none
	Draw          Draw
	Seed          uint64
	Capture       string // file, of Shape Replay
	OwnTiming     bool   // of Shape Replay
}

// String returns the canonical text: Parse makes the same pattern of it.
func (p Pattern) String() string {
	if p.Shape == Replay {
		return p.Traffic()
	}
	return p.Traffic() + " size=" + p.Sizes.Text
}

// Traffic returns the canonical text without the frame sizes.
func (p Pattern) Traffic() string {
	words := []string{p.shapeText()}
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	add(p.RFC4814 && p.Shape != RandomPorts, "ports=rfc4814")
	add(p.OwnTiming, "timing=own")
	add(p.SYN, "syn")
	add(p.Bidirectional, "bidirectional")
	add(p.Family != Family{1, 0}, "family="+p.Family.String())
	add(p.Table != "", "table="+quoted(p.Table))
	switch {
	case p.Draw == PerPrefix:
		add(true, "draw=per-prefix")
	case p.Draw == Uniform:
		add(true, "draw=uniform")
	}
	add(p.Seed != 1, "seed="+strconv.FormatUint(p.Seed, 10))
	return strings.Join(words, " ")
}

func (p Pattern) shapeText() string {
	switch p.Shape {
	case Flows:
		if p.FlowPackets > 0 {
			return fmt.Sprintf("flows=%d@%d", p.Flows, p.FlowPackets)
		}
		return fmt.Sprintf("flows=%d", p.Flows)
	case RandomTo:
		return "rdos"
	case RandomTuple:
		return "rdos=5tuple"
	case RandomPorts:
		return "ports=rfc4814"
	case Replay:
		return "pcap=" + quoted(p.Capture)
	}
	return "one-flow"
}

// String returns the value of the word family.
func (f Family) String() string {
	switch {
	case f.IPv6 == 0:
		return "ipv4"
	case f.IPv4 == 0:
		return "ipv6"
	}
	return fmt.Sprintf("ipv4:%d,ipv6:%d", f.IPv4, f.IPv6)
}

// quoted returns a file's name as a word: in quotes when it would be several, or when it begins with one.
func quoted(name string) string {
	if name == "" || strings.ContainsAny(name, " \t\r\n\"\\") || strconv.Quote(name) != `"`+name+`"` {
		return strconv.Quote(name)
	}
	return name
}

// Sizes of Ethernet frames, in bytes with FCS.
const (
	fcs           = 4
	leastFrame    = 64
	greatestFrame = 1518
)

// Least returns the size of the shortest frame of a family, with FCS: room for
// its headers and the stamp by which a sink knows it.
func (p Pattern) Least(ipv6 bool) int {
	return traffic.LeastFrame(ipv6, p.protocol()) + fcs
}

// protocol is that of all packets.
func (p Pattern) protocol() uint8 {
	if p.SYN {
		return 6
	}
	return 17
}

// MeanSize returns the mean frame size with FCS, in bytes; 0 of a capture, whose frames tell (Capture.MeanSize).
func (p Pattern) MeanSize() float64 {
	if p.Shape == Replay {
		return 0
	}
	sum := 0
	for _, size := range p.Sizes.Deck {
		sum += p.Family.IPv4*max(size, p.Least(false)) + p.Family.IPv6*max(size, p.Least(true))
	}
	return float64(sum) / float64(len(p.Sizes.Deck)*(p.Family.IPv4+p.Family.IPv6))
}

// FrameSize returns the size of all frames with FCS, or 0 when they differ.
func (p Pattern) FrameSize() int {
	mean := p.MeanSize()
	if mean != math.Trunc(mean) {
		return 0
	}
	size := int(mean)
	for _, s := range p.Sizes.Deck {
		if p.Family.IPv4 > 0 && max(s, p.Least(false)) != size || p.Family.IPv6 > 0 && max(s, p.Least(true)) != size {
			return 0
		}
	}
	return size
}

// Mix returns the name of a mix of sizes, or "" when all frames have one size.
func (p Pattern) Mix() string {
	switch {
	case p.Shape == Replay || p.FrameSize() != 0:
		return ""
	case len(p.Sizes.Deck) == 1: // raised to the least IPv6 frame
		return fmt.Sprintf("%d (IPv4), %d (IPv6)", max(p.Sizes.Deck[0], p.Least(false)), max(p.Sizes.Deck[0], p.Least(true)))
	}
	return p.Sizes.Text
}

// Subject returns what figures taken with this pattern are about.
func (p Pattern) Subject(device string) result.Subject {
	return result.Subject{Device: device, Traffic: p.Traffic(), FrameSize: p.FrameSize(), Mix: p.Mix(), MeanSize: p.MeanSize()}
}
