// SPDX-License-Identifier: Apache-2.0

package pcap

import (
	"encoding/binary"
	"io"
	"time"
)

// Directions of a packet (epb_flags).
const (
	Inbound  = 1
	Outbound = 2
)

const (
	statisticsBlock = 5

	optionEnd        = 0
	optionComment    = 1
	optionName       = 2 // if_name
	optionProgram    = 4 // shb_userappl
	optionFlags      = 2 // epb_flags
	optionSeen       = 4 // isb_ifrecv
	optionLost       = 5 // isb_ifdrop
	nanosecondDigits = 9
)

// Writer writes a pcapng file. Errors of the stream below stick.
type Writer struct {
	w        io.Writer
	snapshot uint32
	names    map[string]uint32
	err      error
}

// NewWriter begins a section. snapshot is the greatest number of bytes of a packet that will be written.
func NewWriter(w io.Writer, program string, snapshot int) (*Writer, error) {
	p := &Writer{w: w, snapshot: uint32(snapshot), names: map[string]uint32{}}
	body := binary.NativeEndian.AppendUint32(nil, byteOrderMagic)
	body = binary.NativeEndian.AppendUint16(body, 1) // version 1.0
	body = binary.NativeEndian.AppendUint16(body, 0)
	body = binary.NativeEndian.AppendUint64(body, 1<<64-1) // length not said
	body = option(body, optionProgram, []byte(program))
	p.block(sectionHeader, option(body, optionEnd, nil))
	return p, p.err
}

// Packet is a packet to be written.
type Packet struct {
	Interface string
	Time      time.Time
	Direction uint32 // Inbound, Outbound, or 0
	Frame     []byte // as far as it was captured
	Wire      int    // its length, bytes
	Comment   string
}

// Write writes a packet, and first describes its interface when it is new.
func (p *Writer) Write(k Packet) error {
	id, ok := p.names[k.Interface]
	if !ok {
		id = p.describe(k.Interface)
	}
	n := binary.NativeEndian
	at := uint64(k.Time.UnixNano())
	body := n.AppendUint32(make([]byte, 0, 64+len(k.Frame)+len(k.Comment)), id)
	body = n.AppendUint32(n.AppendUint32(body, uint32(at>>32)), uint32(at))
	body = n.AppendUint32(n.AppendUint32(body, uint32(len(k.Frame))), uint32(k.Wire))
	body = pad(append(body, k.Frame...))
	if k.Comment != "" {
		body = option(body, optionComment, []byte(k.Comment))
	}
	body = option(body, optionFlags, n.AppendUint32(nil, k.Direction))
	p.block(enhancedPacket, option(body, optionEnd, nil))
	return p.err
}

// describe writes an interface description with times in ns.
func (p *Writer) describe(name string) uint32 {
	n := binary.NativeEndian
	body := n.AppendUint16(n.AppendUint16(nil, Ethernet), 0)
	body = n.AppendUint32(body, p.snapshot)
	body = option(body, optionName, []byte(name))
	body = option(body, optionTimeUnit, []byte{nanosecondDigits})
	p.block(interfaceBlock, option(body, optionEnd, nil))
	id := uint32(len(p.names))
	p.names[name] = id
	return id
}

// Finish writes how many packets were seen and lost, if there is an interface to say it of. The
// figures are of all interfaces together and stand with the first.
func (p *Writer) Finish(now time.Time, seen, lost uint64) error {
	if len(p.names) == 0 {
		p.describe("any")
	}
	n := binary.NativeEndian
	at := uint64(now.UnixNano())
	body := n.AppendUint32(n.AppendUint32(n.AppendUint32(nil, 0), uint32(at>>32)), uint32(at))
	body = option(body, optionSeen, n.AppendUint64(nil, seen))
	body = option(body, optionLost, n.AppendUint64(nil, lost))
	p.block(statisticsBlock, option(body, optionEnd, nil))
	return p.err
}

// block writes a block in one piece, so that a reader of a pipe sees whole ones.
func (p *Writer) block(kind uint32, body []byte) {
	if p.err != nil {
		return
	}
	n := binary.NativeEndian
	length := uint32(len(body) + 12)
	b := n.AppendUint32(n.AppendUint32(make([]byte, 0, length), kind), length)
	_, p.err = p.w.Write(n.AppendUint32(append(b, body...), length))
}

func option(b []byte, code uint16, value []byte) []byte {
	n := binary.NativeEndian
	b = n.AppendUint16(n.AppendUint16(b, code), uint16(len(value)))
	return pad(append(b, value...))
}

// pad fills up to a multiple of four bytes.
func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }
