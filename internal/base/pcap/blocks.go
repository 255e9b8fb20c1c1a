// SPDX-License-Identifier: Apache-2.0

package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// Blocks of pcapng (draft-ietf-opsawg-pcapng) that matter here; others are passed over.
const (
	sectionHeader  = 0x0a0d0d0a // the same in both byte orders
	interfaceBlock = 1
	simplePacket   = 3
	enhancedPacket = 6

	byteOrderMagic = 0x1a2b3c4d
	optionTimeUnit = 9  // if_tsresol
	optionTrailer  = 13 // if_fcslen
)

// capturedAt is an interface of a pcapng section.
type capturedAt struct {
	link     uint16
	snapshot uint32 // greatest captured length; 0 is no limit
	units    uint64 // of time in a second
	trailer  int    // bytes of FCS behind every frame
}

// section is what blocks refer to.
type section struct {
	order      binary.ByteOrder
	interfaces []capturedAt
	last       uint64 // ns: time of the last frame; simple packets have none of their own
}

// readBlocks reads a pcapng file.
func (c *reader) readBlocks(in io.Reader) error {
	var s section
	for n := 1; ; n++ {
		kind, body, err := s.next(in)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = c.block(&s, kind, body)
		}
		if errors.Is(err, errStopped) {
			return err
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
	}
}

var errCut = errors.New("the file ends inside it")

// next reads a block. A section header sets the byte order of what follows.
func (s *section) next(in io.Reader) (kind uint32, body []byte, err error) {
	var head [12]byte
	if _, err := io.ReadFull(in, head[:8]); err != nil {
		if err == io.EOF {
			return 0, nil, err
		}
		return 0, nil, errCut
	}
	already := 0 // of the body, in head
	if binary.BigEndian.Uint32(head[:]) == sectionHeader {
		if _, err := io.ReadFull(in, head[8:]); err != nil {
			return 0, nil, errCut
		}
		already = 4
		*s = section{}
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			if order.Uint32(head[8:]) == byteOrderMagic {
				s.order = order
			}
		}
		if s.order == nil {
			return 0, nil, fmt.Errorf("byte order % x is unknown: the file is damaged", head[8:])
		}
	}
	kind = s.order.Uint32(head[:])
	length := s.order.Uint32(head[4:])
	if length < uint32(12+already) || length%4 != 0 || length > MaxBytes {
		return 0, nil, fmt.Errorf("a length of %d bytes is impossible: the file is damaged", length)
	}
	rest := int64(length) - 8 - int64(already)
	if length > 2*maxRecord {
		// No frame is as long; secrets and names can be.
		if _, err := io.CopyN(io.Discard, in, rest); err != nil {
			return 0, nil, errCut
		}
		return 0, nil, nil
	}
	body = make([]byte, rest)
	if _, err := io.ReadFull(in, body); err != nil {
		return 0, nil, errCut
	}
	if s.order.Uint32(body[rest-4:]) != length {
		return 0, nil, errors.New("its two lengths differ: the file is damaged")
	}
	return kind, body[:rest-4], nil
}

func (c *reader) block(s *section, kind uint32, body []byte) error {
	switch kind {
	case interfaceBlock:
		return s.addInterface(body)
	case enhancedPacket:
		return c.enhanced(s, body)
	case simplePacket:
		return c.simple(s, body)
	}
	return nil
}

var errShort = errors.New("it is too short: the file is damaged")

// addInterface reads an interface description: link type, snapshot length, options.
func (s *section) addInterface(body []byte) error {
	if len(body) < 8 {
		return errShort
	}
	i := capturedAt{link: s.order.Uint16(body), snapshot: s.order.Uint32(body[4:]), units: 1e6}
	for options := body[8:]; len(options) >= 4; {
		code, length := s.order.Uint16(options), int(s.order.Uint16(options[2:]))
		padded := 4 + (length+3)/4*4
		if code == 0 || padded > len(options) {
			break
		}
		switch value := options[4 : 4+length]; {
		case code == optionTimeUnit && length == 1:
			var err error
			if i.units, err = timeUnits(value[0]); err != nil {
				return err
			}
		case code == optionTrailer && length == 1:
			i.trailer = int(value[0])
		}
		options = options[padded:]
	}
	s.interfaces = append(s.interfaces, i)
	return nil
}

// timeUnits returns the units in a second: 10^n, or with the highest bit set 2^n.
func timeUnits(n byte) (uint64, error) {
	switch power := n & 0x7f; {
	case n&0x80 != 0 && power < 64:
		return 1 << power, nil
	case n&0x80 == 0 && power <= 19:
		return uint64(math.Pow10(int(power))), nil
	}
	return 0, fmt.Errorf("time resolution %#x is not known", n)
}

// enhanced reads a packet with its interface and time.
func (c *reader) enhanced(s *section, body []byte) error {
	if len(body) < 20 {
		return errShort
	}
	id, held, wire := s.order.Uint32(body), s.order.Uint32(body[12:]), s.order.Uint32(body[16:])
	if uint64(id) >= uint64(len(s.interfaces)) {
		return fmt.Errorf("interface %d is not described: the file is damaged", id)
	}
	if uint64(held) > uint64(len(body)-20) {
		return errShort
	}
	i := s.interfaces[id]
	units := uint64(s.order.Uint32(body[4:]))<<32 | uint64(s.order.Uint32(body[8:]))
	high, low := bits.Mul64(units, 1e9)
	if high >= i.units {
		return fmt.Errorf("time %d is impossible: the file is damaged", units)
	}
	s.last, _ = bits.Div64(high, low, i.units)
	return c.packet(s, i, body[20:20+held], wire)
}

// simple reads a packet of the first interface. It has no time: it follows the one before at once.
func (c *reader) simple(s *section, body []byte) error {
	if len(body) < 4 {
		return errShort
	}
	if len(s.interfaces) == 0 {
		return errors.New("its interface is not described: the file is damaged")
	}
	i, wire := s.interfaces[0], s.order.Uint32(body)
	held := wire
	if i.snapshot > 0 {
		held = min(held, i.snapshot)
	}
	if uint64(held) > uint64(len(body)-4) {
		return errShort
	}
	return c.packet(s, i, body[4:4+held], wire)
}

func (c *reader) packet(s *section, i capturedAt, frame []byte, wire uint32) error {
	return c.give(Record{Link: int(i.link), Time: s.last, Frame: frame, Wire: wire}, i.trailer)
}
