// SPDX-License-Identifier: Apache-2.0

// Package pcap reads and writes capture files: the classic pcap format of either
// byte order with times in µs or ns (draft-ietf-opsawg-pcap), and pcapng
// (draft-ietf-opsawg-pcapng). Reading is strict: lengths that can't be right are
// errors that say where. Only pcapng is written, because it has room for remarks.
package pcap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxBytes is the largest file that is read.
	MaxBytes = 256 << 20
	// Ethernet is the link type of Ethernet frames (LINKTYPE_ETHERNET).
	Ethernet = 1

	maxRecord = 256 << 10 // the greatest snapshot length of tcpdump and Wireshark
)

// Record is one packet of a capture. Its bytes belong to the reader: they are good until the next record.
type Record struct {
	Link  int    // link type
	Time  uint64 // ns, of any epoch
	Frame []byte // as far as it was captured, without FCS
	Wire  uint32 // length on the wire, bytes
}

// Read calls each with every packet of a capture, in the order of the file, until each returns an
// error, which Read then returns as it is.
func Read(r io.Reader, each func(Record) error) error {
	limited := &io.LimitedReader{R: r, N: MaxBytes}
	in := bufio.NewReader(limited)
	magic, err := in.Peek(4)
	if err != nil {
		return errors.New("the file is too short: expected a pcap or pcapng file")
	}
	c := &reader{each: each}
	if binary.BigEndian.Uint32(magic) == sectionHeader {
		err = c.readBlocks(in)
	} else {
		err = c.readPcap(in)
	}
	if err != nil && c.stopped == nil && limited.N <= 0 {
		return fmt.Errorf("more than %d MB: cut it into smaller files", MaxBytes>>20)
	}
	if c.stopped != nil {
		return c.stopped
	}
	return err
}

// reader is one reading of a file.
type reader struct {
	each    func(Record) error
	read    int   // packets so far
	stopped error // what each returned
}

var errStopped = errors.New("stopped")

// give hands a packet on, without the FCS that the last trailer bytes are.
func (c *reader) give(r Record, trailer int) error {
	if trailer > 0 && int(r.Wire) == len(r.Frame) && len(r.Frame) >= trailer {
		r.Frame, r.Wire = r.Frame[:len(r.Frame)-trailer], r.Wire-uint32(trailer)
	}
	c.read++
	if c.stopped = c.each(r); c.stopped != nil {
		return errStopped
	}
	return nil
}

// readPcap reads the classic format.
func (c *reader) readPcap(in io.Reader) error {
	var head [24]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return errors.New("the file ends inside its header: expected a pcap or pcapng file")
	}
	order, unit := pcapKind(head[:4])
	if order == nil {
		return fmt.Errorf("it begins with % x: expected a pcap or pcapng file", head[:4])
	}
	link := order.Uint32(head[20:])
	if link&0xffff != Ethernet {
		return fmt.Errorf("link type %d: expected a capture of Ethernet frames (link type 1)", link&0xffff)
	}
	trailer := 0 // bytes of FCS behind every frame, when the file says so
	if link>>26&1 != 0 {
		trailer = int(link>>28) * 2
	}
	var record [16]byte
	var frame []byte
	for {
		if _, err := io.ReadFull(in, record[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("the file ends inside frame %d", c.read+1)
		}
		held, wire := order.Uint32(record[8:]), order.Uint32(record[12:])
		if held > maxRecord {
			return fmt.Errorf("frame %d: %d bytes is impossible: the file is damaged", c.read+1, held)
		}
		frame = append(frame[:0], make([]byte, held)...)
		if _, err := io.ReadFull(in, frame); err != nil {
			return fmt.Errorf("the file ends inside frame %d", c.read+1)
		}
		at := uint64(order.Uint32(record[:]))*1e9 + uint64(order.Uint32(record[4:]))*unit
		if err := c.give(Record{Link: Ethernet, Time: at, Frame: frame, Wire: wire}, trailer); err != nil {
			return err
		}
	}
}

// pcapKind returns byte order and unit of the fractions of seconds (ns), or nil for another file.
func pcapKind(magic []byte) (binary.ByteOrder, uint64) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic) {
		case 0xa1b2c3d4:
			return order, 1000
		case 0xa1b23c4d:
			return order, 1
		}
	}
	return nil, 0
}
