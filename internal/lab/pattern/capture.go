// SPDX-License-Identifier: Apache-2.0

package pattern

import (
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

	"minne/internal/base/pcap"
	"minne/internal/lab/traffic"
)

const (
	unpadded = leastFrame - fcs
	greatest = greatestFrame - fcs
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
	rec := &recorder{Capture: Capture{Skipped: map[string]int{}}}
	err := pcap.Read(r, rec.record)
	switch {
	case err != nil && !errors.Is(err, errFull):
		return Capture{}, err
	case len(rec.Frames) == 0:
		return Capture{}, fmt.Errorf("no frame in it can be sent%s", reasons(rec.Skipped))
	}
	rec.setPeriod()
	return rec.Capture, nil
}

// record takes a packet of the file.
func (r *recorder) record(p pcap.Record) error {
	if p.Link != pcap.Ethernet {
		r.read++
		r.skip(fmt.Sprintf("of link type %d, not Ethernet", p.Link))
		return nil
	}
	return r.add(p.Time, p.Frame, p.Wire)
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
