// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// MaxDestinations is how many packets a lap may have.
const MaxDestinations = 1 << 20

// The least frames that carry a stamp, without FCS.
const (
	MinFrame4    = 60
	MinFrame6    = 80
	MinFrame4TCP = 72
	MinFrame6TCP = 92
)

const maxFrame = 1514

// Layout of a packet in the lap's array (struct packet in bpf/lab_generate.h).
const (
	narrow = 16 // bytes per packet when the lap has IPv4 only
	broad  = 40

	kindIPv6 = 1
	kindTCP  = 2
)

// LeastFrame is the least length of a frame, without FCS, for an IP protocol.
func LeastFrame(ipv6 bool, protocol uint8) int {
	switch tcp := protocol == unix.IPPROTO_TCP; {
	case ipv6 && tcp:
		return MinFrame6TCP
	case ipv6:
		return MinFrame6
	case tcp:
		return MinFrame4TCP
	}
	return MinFrame4
}

// check says what is wrong with a packet of a lap.
func (p Packet) check() error {
	switch {
	case !p.Source.IsValid() || !p.Destination.IsValid() || p.Source.Is4() != p.Destination.Is4():
		return fmt.Errorf("from %v to %v: expected two addresses of one family", p.Source, p.Destination)
	case p.Source.Is4In6() || p.Destination.Is4In6():
		return fmt.Errorf("from %v to %v: expected IPv4 addresses as such, not inside IPv6", p.Source, p.Destination)
	case p.Protocol != unix.IPPROTO_UDP && p.Protocol != unix.IPPROTO_TCP:
		return fmt.Errorf("protocol %d: expected 17 (UDP) or 6 (TCP)", p.Protocol)
	}
	if least := LeastFrame(p.Source.Is6(), p.Protocol); int(p.FrameBytes) < least || p.FrameBytes > maxFrame {
		return fmt.Errorf("frame of %d bytes: expected %d to %d without FCS for %s", p.FrameBytes, least, maxFrame, p.words())
	}
	return nil
}

func (p Packet) words() string {
	return map[uint8]string{0: "UDP over IPv4", kindIPv6: "UDP over IPv6", kindTCP: "TCP over IPv4", kindIPv6 | kindTCP: "TCP over IPv6"}[p.kind()]
}

func (p Packet) kind() (k uint8) {
	if p.Source.Is6() {
		k |= kindIPv6
	}
	if p.Protocol == unix.IPPROTO_TCP {
		k |= kindTCP
	}
	return k
}

// put writes the packet as the program reads it.
func (p Packet) put(b []byte) {
	binary.BigEndian.PutUint16(b, p.SourcePort)
	binary.BigEndian.PutUint16(b[2:], p.DestinationPort)
	binary.NativeEndian.PutUint16(b[4:], p.FrameBytes)
	b[6], b[7] = p.Stream, p.kind()
	putAddresses(b[8:], p)
}

func putAddresses(b []byte, p Packet) {
	if p.Source.Is4() {
		from, to := p.Source.As4(), p.Destination.As4()
		copy(b, from[:])
		copy(b[4:], to[:])
		return
	}
	from, to := p.Source.As16(), p.Destination.As16()
	copy(b, from[:])
	copy(b[16:], to[:])
}

// shape is what a lap's packets have in common.
type shape struct {
	packets int
	wide    bool // IPv6 is among them
	largest int  // frame
	streams [256]bool
	// The filler of one packet overlaps the headers of another, so a page that comes
	// back does not hold the right one.
	mixed bool
	flips
}

// survey checks all packets of a lap.
func survey(l Lap) (shape, error) {
	s := shape{packets: l.Packets}
	if l.Packets < 1 || l.Packets > MaxDestinations || l.Packet == nil {
		return s, fmt.Errorf("a lap of %d packets: expected 1 to %d", l.Packets, MaxDestinations)
	}
	var kinds, filled uint8
	var free freeBits
	for i := range l.Packets {
		p := l.Packet(i)
		if err := p.check(); err != nil {
			return s, fmt.Errorf("packet %d of the lap: %w", i, err)
		}
		kinds |= 1 << p.kind()
		if int(p.FrameBytes) > LeastFrame(p.Source.Is6(), p.Protocol) {
			filled = 1
		}
		s.wide = s.wide || p.Source.Is6()
		s.largest = max(s.largest, int(p.FrameBytes))
		s.streams[p.Stream] = true
		free.see(p)
	}
	s.mixed = kinds&(kinds-1) != 0 && filled != 0
	if l.Fresh {
		s.flips = free.flips()
	}
	return s, nil
}

// flips says in which bits further laps differ from the first (Lap.Fresh).
type flips struct {
	fresh                                    bool
	portShift, portBits, hostShift, hostBits uint8
	scatter                                  bool
}

// freeBits finds the bits of source port and address that are the same in all
// packets. When the number of the lap goes into those, no two laps have a flow in common.
type freeBits struct {
	seen                 bool
	port, host           uint16 // of the first packet
	portMoves, hostMoves uint16
	low                  bool // a port below 16384
}

func (f *freeBits) see(p Packet) {
	address := p.Source.AsSlice()
	host := binary.BigEndian.Uint16(address[len(address)-2:])
	if !f.seen {
		f.seen, f.port, f.host = true, p.SourcePort, host
	}
	f.portMoves |= p.SourcePort ^ f.port
	f.hostMoves |= host ^ f.host
	f.low = f.low || p.SourcePort < 1<<14
}

// enough is how many bits must be free: with fewer, few laps would be different.
const enough = 12

func (f *freeBits) flips() flips {
	changeable := uint8(14)
	if f.low {
		changeable = 10 // ports stay above the well-known ones
	}
	out := flips{fresh: true}
	out.portShift, out.portBits = longestRun(^f.portMoves & (1<<changeable - 1))
	out.hostShift, out.hostBits = longestRun(^f.hostMoves)
	if out.portBits+out.hostBits < enough {
		out.scatter, out.portBits = true, changeable
	}
	return out
}

// longestRun finds the most one bits side by side.
func longestRun(word uint16) (shift, width uint8) {
	for at := 0; at < 16; {
		if word>>at&1 == 0 {
			at++
			continue
		}
		n := bits.TrailingZeros16(^(word >> at))
		if n > 16-at {
			n = 16 - at
		}
		if n > int(width) {
			shift, width = uint8(at), uint8(n)
		}
		at += n
	}
	return shift, width
}
