// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"minne/internal/lab/traffic"
)

const (
	maxCaptureBytes = 256 << 20
	maxRecord       = 256 << 10 // the greatest snapshot length of tcpdump and Wireshark
	ethernetLink    = 1         // LINKTYPE_ETHERNET
	unpadded        = leastFrame - fcs
	greatest        = greatestFrame - fcs
)

// Capture is what a capture file has for a replay.
type Capture struct {
	Frames []traffic.Recorded // without FCS, padded to 60 bytes as on the wire; times rise from 0
	Period time.Duration      // from the first frame to the first of the next round: one mean gap after the last
	// Skipped counts frames that can't be sent, by the reason.
	Skipped map[string]int
	// More is set when the file goes on behind the last frame that fits (traffic.MaxReplay).
	More bool
}

// Replay loads the pattern's capture. Its frames go forward, as the IPv4 stream.
func (p Pattern) Replay(ends Ends) (Capture, error) {
	if p.Shape != Replay {
		return Capture{}, errors.New("traffic: this pattern has no capture to replay")
	}
	c, err := LoadCapture(p.Capture)
	if err != nil {
		return Capture{}, err
	}
	for i := range c.Frames {
		c.Frames[i].Stream = ends.Forward.IPv4.Stream
	}
	return c, nil
}

// LoadCapture reads a capture of Ethernet frames: pcap of either byte order, with
// times in µs or ns, or pcapng.
func LoadCapture(path string) (Capture, error) {
	f, err := os.Open(path)
	if err != nil {
		return Capture{}, fmt.Errorf("capture: %w", err)
	}
	defer f.Close()
	c, err := readCapture(f)
	if err != nil {
		return Capture{}, fmt.Errorf("capture %s: %w", path, err)
	}
	return c, nil
}

// MeanSize returns the mean frame size with FCS, in bytes.
func (c Capture) MeanSize() float64 {
	sum := 0
	for _, f := range c.Frames {
		sum += len(f.Frame) + fcs
	}
	return float64(sum) / float64(len(c.Frames))
}

// Notes says what of the file is not replayed, for the reader of a report.
func (c Capture) Notes() (out []string) {
	for _, reason := range slices.Sorted(maps.Keys(c.Skipped)) {
		out = append(out, fmt.Sprintf("frames of the capture that are left out: %d %s", c.Skipped[reason], reason))
	}
	if c.More {
		out = append(out, fmt.Sprintf("only the first %d frames of the capture are replayed", len(c.Frames)))
	}
	return out
}

// errFull ends the reading of a capture that has more frames than can be replayed.
var errFull = errors.New("full")

// recorder collects a capture's frames.
type recorder struct {
	Capture
	read  int    // frames so far, skipped ones too
	first uint64 // ns: time of the first frame
}

// readCapture reads a capture of a kind that its first bytes tell.
func readCapture(r io.Reader) (Capture, error) {
	limited := &io.LimitedReader{R: r, N: maxCaptureBytes}
	in := bufio.NewReader(limited)
	magic, err := in.Peek(4)
	if err != nil {
		return Capture{}, errors.New("the file is too short: expected a pcap or pcapng file")
	}
	rec := &recorder{Capture: Capture{Skipped: map[string]int{}}}
	if binary.BigEndian.Uint32(magic) == sectionHeader {
		err = rec.readBlocks(in)
	} else {
		err = rec.readPcap(in)
	}
	switch {
	case err != nil && limited.N <= 0:
		return Capture{}, fmt.Errorf("more than %d MB: cut it into smaller files", maxCaptureBytes>>20)
	case err != nil && !errors.Is(err, errFull):
		return Capture{}, err
	case len(rec.Frames) == 0:
		return Capture{}, fmt.Errorf("no frame in it can be sent%s", reasons(rec.Skipped))
	}
	rec.setPeriod()
	return rec.Capture, nil
}

// setPeriod ends the round one mean gap after its last frame; a lone frame comes once a second.
func (r *recorder) setPeriod() {
	last := r.Frames[len(r.Frames)-1].At
	r.Period = last + time.Second
	if n := time.Duration(len(r.Frames) - 1); n > 0 {
		r.Period = last + max(1, last/n)
	}
}

func reasons(skipped map[string]int) string {
	text := ""
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		text += fmt.Sprintf("; %d of them %s", skipped[reason], reason)
	}
	return strings.Replace(text, ";", ":", 1)
}

// skip counts a frame that can't be sent.
func (r *recorder) skip(reason string) { r.Skipped[reason]++ }

// add takes a frame with its time (ns, of any epoch) and the length that it had on the wire.
func (r *recorder) add(at uint64, frame []byte, wire uint32) error {
	r.read++
	switch {
	case int(wire) > len(frame):
		r.skip("cut short by the capture (capture whole frames: tcpdump -s 0)")
		return nil
	case len(frame) < 14:
		r.skip("shorter than an Ethernet header")
		return nil
	case len(frame) > greatest:
		r.skip(fmt.Sprintf("longer than %d bytes", greatest))
		return nil
	case ofOneLink(frame):
		r.skip("from station to station of one link, which is not forwarded (ARP, neighbour discovery, link-local multicast)")
		return nil
	case len(r.Frames) == traffic.MaxReplay:
		r.More = true
		return errFull
	}
	if len(r.Frames) == 0 {
		r.first = at
	}
	f := traffic.Recorded{Frame: make([]byte, max(len(frame), unpadded))}
	copy(f.Frame, frame)
	if at > r.first { // of merged captures the times may go back a little
		if at-r.first > math.MaxInt64/2 {
			return fmt.Errorf("frame %d: its time is more than a century after the first frame's", r.read)
		}
		f.At = time.Duration(at - r.first)
	}
	if n := len(r.Frames); n > 0 {
		f.At = max(f.At, r.Frames[n-1].At)
	}
	r.Frames = append(r.Frames, f)
	return nil
}

// Ethernet types of what stations of a link say to each other.
const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeIPv6 = 0x86dd
	icmpv6   = 58
)

// ofOneLink tells frames that stay on one link. The sink does not count them, for devices send
// such frames of their own.
func ofOneLink(frame []byte) bool {
	switch ip := frame[14:]; binary.BigEndian.Uint16(frame[12:]) {
	case typeARP:
		return true
	case typeIPv4:
		return len(ip) >= 20 && ip[16] == 224 && ip[17] == 0 && ip[18] == 0 // 224.0.0.0/24 (RFC 5771 section 4)
	case typeIPv6:
		if len(ip) < 40 {
			return false
		}
		discovery := ip[6] == icmpv6 && len(ip) > 40 && ip[40] >= 133 && ip[40] <= 137 // RFC 4861 section 4
		return discovery || ip[24] == 0xff && ip[25]&15 == 2                           // RFC 4291 section 2.7
	}
	return false
}

// readPcap reads the classic format (draft-ietf-opsawg-pcap).
func (r *recorder) readPcap(in io.Reader) error {
	var head [24]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return errors.New("the file ends inside its header: expected a pcap or pcapng file")
	}
	order, unit := pcapKind(head[:4])
	if order == nil {
		return fmt.Errorf("it begins with % x: expected a pcap or pcapng file", head[:4])
	}
	link := order.Uint32(head[20:])
	if link&0xffff != ethernetLink {
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
			return fmt.Errorf("the file ends inside frame %d", r.read+1)
		}
		held, wire := order.Uint32(record[8:]), order.Uint32(record[12:])
		if held > maxRecord {
			return fmt.Errorf("frame %d: %d bytes can't be right: the file is damaged", r.read+1, held)
		}
		frame = append(frame[:0], make([]byte, held)...)
		if _, err := io.ReadFull(in, frame); err != nil {
			return fmt.Errorf("the file ends inside frame %d", r.read+1)
		}
		at := uint64(order.Uint32(record[:]))*1e9 + uint64(order.Uint32(record[4:]))*unit
		if err := r.addWithTrailer(at, frame, wire, trailer); err != nil {
			return err
		}
	}
}

// addWithTrailer adds a frame of which the last bytes are its FCS.
func (r *recorder) addWithTrailer(at uint64, frame []byte, wire uint32, trailer int) error {
	if trailer > 0 && int(wire) == len(frame) && len(frame) >= trailer {
		frame, wire = frame[:len(frame)-trailer], wire-uint32(trailer)
	}
	return r.add(at, frame, wire)
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
