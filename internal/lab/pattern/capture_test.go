// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/traffic"
)

// taken is a frame of a test's capture.
type taken struct {
	at    time.Duration
	bytes int // in the file
	wire  int // on the wire; 0 is the same
}

func (f taken) frame() []byte { return bytes.Repeat([]byte{byte(f.bytes)}, f.bytes) }

func (f taken) onWire() uint32 { return uint32(max(f.wire, f.bytes)) }

var frames = []taken{{0, 60, 0}, {1500 * time.Microsecond, 1514, 0}, {2 * time.Millisecond, 42, 0}}

// classic writes the classic format.
func classic(order binary.AppendByteOrder, ns bool, link uint32, all ...taken) []byte {
	magic, unit := uint32(0xa1b2c3d4), time.Microsecond
	if ns {
		magic, unit = 0xa1b23c4d, time.Nanosecond
	}
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	for _, n := range []uint32{0, 0, 65535, link} {
		b = order.AppendUint32(b, n)
	}
	for _, f := range all {
		at := f.at + 1_700_000_000*time.Second
		for _, n := range []uint32{uint32(at / time.Second), uint32(at % time.Second / unit), uint32(f.bytes), f.onWire()} {
			b = order.AppendUint32(b, n)
		}
		b = append(b, f.frame()...)
	}
	return b
}

// Blocks of pcapng (draft-ietf-opsawg-pcapng).
const (
	sectionHeader  = 0x0a0d0d0a
	interfaceBlock = 1
	simplePacket   = 3
	enhancedPacket = 6
	byteOrderMagic = 0x1a2b3c4d
)

// block writes a block of pcapng.
func block(order binary.AppendByteOrder, kind uint32, body []byte) []byte {
	body = append(slices.Clone(body), make([]byte, (4-len(body)%4)%4)...)
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, uint32(len(body)+12))
	b = append(b, body...)
	return order.AppendUint32(b, uint32(len(body)+12))
}

func header(order binary.AppendByteOrder) []byte {
	b := order.AppendUint32(nil, byteOrderMagic)
	b = order.AppendUint16(b, 1)
	b = order.AppendUint16(b, 0)
	return block(order, sectionHeader, order.AppendUint64(b, 1<<64-1))
}

// described writes an interface description with options of one byte each: code, value.
func described(order binary.AppendByteOrder, link uint16, options ...byte) []byte {
	b := order.AppendUint16(nil, link)
	b = order.AppendUint16(b, 0)
	b = order.AppendUint32(b, 0)
	for i := 0; i < len(options); i += 2 {
		b = order.AppendUint16(b, uint16(options[i]))
		b = order.AppendUint16(b, 1)
		b = append(b, options[i+1], 0, 0, 0)
	}
	return block(order, interfaceBlock, b)
}

// enhanced writes packets of an interface with times in units of a second.
func enhanced(order binary.AppendByteOrder, id uint32, units uint64, all ...taken) (out []byte) {
	for _, f := range all {
		at := uint64(f.at+1_700_000_000*time.Second) / (uint64(time.Second) / units)
		b := order.AppendUint32(nil, id)
		for _, n := range []uint32{uint32(at >> 32), uint32(at), uint32(f.bytes), f.onWire()} {
			b = order.AppendUint32(b, n)
		}
		out = append(out, block(order, enhancedPacket, append(b, f.frame()...))...)
	}
	return out
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func TestReadCapture(t *testing.T) {
	little, big := binary.LittleEndian, binary.BigEndian
	simple := block(little, simplePacket, append(little.AppendUint32(nil, 42), taken{bytes: 42}.frame()...))
	for name, file := range map[string][]byte{
		"pcap":                    classic(little, false, 1, frames...),
		"pcap big endian":         classic(big, false, 1, frames...),
		"pcap ns":                 classic(little, true, 1, frames...),
		"pcap ns big endian":      classic(big, true, 1, frames...),
		"pcapng":                  join(header(little), described(little, 1), enhanced(little, 0, 1e6, frames...)),
		"pcapng big endian, ns":   join(header(big), described(big, 1, 9, 9), enhanced(big, 0, 1e9, frames...)),
		"pcapng, other blocks":    join(header(little), block(little, 5, make([]byte, 40)), described(little, 1), enhanced(little, 0, 1e6, frames...), block(little, 10, make([]byte, 768<<10))),
		"pcapng, two sections":    join(header(little), described(little, 1), enhanced(little, 0, 1e6, frames[0]), header(big), described(big, 1), enhanced(big, 0, 1e6, frames[1:]...)),
		"pcapng, two interfaces":  join(header(little), described(little, 1), described(little, 1, 9, 9), enhanced(little, 0, 1e6, frames[0]), enhanced(little, 1, 1e9, frames[1:]...)),
		"pcapng, a simple packet": join(header(little), described(little, 1), enhanced(little, 0, 1e6, frames[:2]...), simple),
	} {
		c, err := readCapture(bytes.NewReader(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last := 2 * time.Millisecond
		if strings.Contains(name, "simple") {
			last = frames[1].at
		}
		want := []traffic.Recorded{
			{At: 0, Frame: frames[0].frame()}, {At: frames[1].at, Frame: frames[1].frame()},
			{At: last, Frame: append(frames[2].frame(), make([]byte, 18)...)},
		}
		same := slices.EqualFunc(c.Frames, want, func(a, b traffic.Recorded) bool { return a.At == b.At && bytes.Equal(a.Frame, b.Frame) })
		if !same || c.Period != last+last/2 || len(c.Notes()) != 0 || c.MeanSize() != (64+1518+64)/3.0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestCaptureLeavesOut(t *testing.T) {
	little := binary.LittleEndian
	file := classic(little, false, 1, taken{0, 96, 1000}, taken{0, 13, 0}, taken{0, 1515, 0}, taken{5 * time.Second, 100, 0}, taken{4 * time.Second, 100, 0})
	c, err := readCapture(bytes.NewReader(file))
	if err != nil || len(c.Frames) != 2 || c.Frames[0].At != 0 || c.Frames[1].At != 0 || len(c.Notes()) != 3 || c.Period != 1 {
		t.Errorf("%v, %+v, notes %q", err, c, c.Notes())
	}
	// Frames with their FCS, as the file says.
	file = classic(little, false, 1|1<<26|2<<28, taken{0, 104, 0})
	if c, err = readCapture(bytes.NewReader(file)); err != nil || len(c.Frames) != 1 || len(c.Frames[0].Frame) != 100 || c.Period != time.Second {
		t.Errorf("%v, %+v", err, c)
	}
	// Of a long capture the first frames.
	many := make([]taken, traffic.MaxReplay+5)
	for i := range many {
		many[i] = taken{time.Duration(i) * time.Microsecond, 60, 0}
	}
	if c, err = readCapture(bytes.NewReader(classic(little, false, 1, many...))); err != nil || len(c.Frames) != traffic.MaxReplay || !c.More || len(c.Notes()) != 1 {
		t.Errorf("%v, %d frames, notes %q", err, len(c.Frames), c.Notes())
	}
	mixed := join(header(little), described(little, 113), described(little, 1), enhanced(little, 0, 1e6, frames[0]), enhanced(little, 1, 1e6, frames[1]))
	if c, err = readCapture(bytes.NewReader(mixed)); err != nil || len(c.Frames) != 1 || !strings.Contains(c.Notes()[0], "link type 113") {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestReadCaptureRefusesJunk(t *testing.T) {
	little := binary.LittleEndian
	good := classic(little, false, 1, frames...)
	huge := slices.Clone(good)
	little.PutUint32(huge[24+8:], 1<<30)
	ng := join(header(little), described(little, 1), enhanced(little, 0, 1e6, frames...))
	twoLengths := slices.Clone(ng)
	twoLengths[len(twoLengths)-4] ^= 4
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too short"},
		{"three bytes", []byte("abc"), "too short"},
		{"text", []byte("this is no capture at all"), "expected a pcap or pcapng file"},
		{"header cut", good[:20], "ends inside its header"},
		{"no frames", good[:24], "no frame in it"},
		{"other link", classic(little, false, 113, frames...), "link type 113: expected a capture of Ethernet"},
		{"frame cut", good[:len(good)-1], "the file ends inside frame 3"},
		{"record cut", good[:24+16+60+5], "the file ends inside frame 2"},
		{"damaged length", huge, "frame 1: 1073741824 bytes is impossible"},
		{"all cut short", classic(little, false, 1, taken{0, 60, 61}), "can be sent: 1 of them cut short by the capture"},
		{"pcapng cut", ng[:len(ng)-3], "block 5: the file ends inside it"},
		{"pcapng header cut", ng[:10], "block 1: the file ends inside it"},
		{"pcapng byte order", append(slices.Clone(ng[:8]), make([]byte, 20)...), "byte order"},
		{"two lengths", twoLengths, "two lengths differ"},
		{"odd length", join(header(little), []byte{1, 0, 0, 0, 13, 0, 0, 0}), "a length of 13 bytes"},
		{"unknown interface", join(header(little), enhanced(little, 0, 1e6, frames...)), "interface 0 is not described"},
		{"short packet", join(header(little), described(little, 1), block(little, enhancedPacket, make([]byte, 8))), "too short"},
		{"short interface", join(header(little), block(little, interfaceBlock, nil)), "too short"},
		{"time unit", join(header(little), described(little, 1, 9, 0x7f)), "time resolution 0x7f"},
	} {
		if _, err := readCapture(bytes.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q in it", c.name, err, c.want)
		}
	}
}

func TestReplayOfAPattern(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a capture.pcap")
	if err := os.WriteFile(file, classic(binary.BigEndian, true, 1, frames...), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Options{Traffic: "pcap=" + quoted(file) + " timing=own"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	ends := BenchmarkEnds()
	ends.Forward.IPv4.Stream = 9
	c, err := p.Replay(ends)
	if err != nil || len(c.Frames) != 3 || c.Frames[2].Stream != 9 || !p.OwnTiming {
		t.Errorf("%v, %+v", err, c)
	}
	if _, err = parse(t, "rdos").Replay(ends); err == nil {
		t.Error("a pattern without a capture is replayed")
	}
	if _, err = parse(t, "pcap=/nonexistent").Replay(ends); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("error %v, expected it to name the file", err)
	}
}

func FuzzReadCapture(f *testing.F) {
	little, big := binary.LittleEndian, binary.BigEndian
	f.Add(classic(little, false, 1, frames...))
	f.Add(classic(big, true, 1|1<<26|2<<28, frames...))
	f.Add(join(header(little), described(little, 1, 9, 0x83, 13, 4), enhanced(little, 0, 1e6, frames...)))
	f.Add(join(header(big), described(big, 1), block(big, simplePacket, make([]byte, 64))))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := readCapture(bytes.NewReader(file))
		if err != nil {
			return
		}
		if len(c.Frames) == 0 || len(c.Frames) > traffic.MaxReplay || c.Frames[0].At != 0 {
			t.Fatalf("%d frames", len(c.Frames))
		}
		for i, r := range c.Frames {
			if len(r.Frame) < 60 || len(r.Frame) > 1514 || i > 0 && r.At < c.Frames[i-1].At || r.At >= c.Period {
				t.Fatalf("frame %d of %d bytes at %v in a period of %v", i, len(r.Frame), r.At, c.Period)
			}
		}
	})
}

func TestFramesOfOneLinkAreLeftOut(t *testing.T) {
	inside := func(kind uint16, at map[int]byte) []byte {
		b := binary.BigEndian.AppendUint16(make([]byte, 12), kind)
		b = append(b, make([]byte, 60)...)
		for i, value := range at {
			b[14+i] = value
		}
		return b
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"ARP", inside(0x0806, nil), true},
		{"unicast", inside(0x0800, map[int]byte{16: 198, 17: 51}), false},
		{"OSPF hello to 224.0.0.5", inside(0x0800, map[int]byte{9: 89, 16: 224, 19: 5}), true},
		{"multicast 224.1.0.5", inside(0x0800, map[int]byte{16: 224, 17: 1, 19: 5}), false},
		{"neighbour solicitation to a unicast address", inside(0x86dd, map[int]byte{6: 58, 24: 0x20, 40: 135}), true},
		{"ICMPv6 echo", inside(0x86dd, map[int]byte{6: 58, 24: 0x20, 40: 128}), false},
		{"listener report to ff02::16", inside(0x86dd, map[int]byte{24: 0xff, 25: 2, 39: 0x16}), true},
		{"multicast ff0e::1", inside(0x86dd, map[int]byte{24: 0xff, 25: 0xe, 39: 1}), false},
		{"short IPv6", inside(0x86dd, map[int]byte{24: 0xff, 25: 2})[:40], false},
		{"no IP", inside(0x88cc, nil), false},
	} {
		r := &recorder{Capture: Capture{Skipped: map[string]int{}}}
		if err := r.add(0, c.frame, uint32(len(c.frame))); err != nil {
			t.Fatal(err)
		}
		if got := len(r.Skipped) == 1 && len(r.Frames) == 0; got != c.want {
			t.Errorf("%s: left out %v, expected %v", c.name, got, c.want)
		}
	}
}
