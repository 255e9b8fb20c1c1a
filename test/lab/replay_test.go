// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"minne/internal/lab/trial"
)

// Frames of a capture arrive as they were, but for their MACs, the TTL and what comes of that; at a
// given rate and at their own.
func TestReplayIsByteIdentical(t *testing.T) {
	b := newBench(t, "kernel", internet)
	if err := b.rig.Load(parse(t, "flows=9 size=64:1,300:1")); err != nil {
		t.Fatal(err)
	}
	own := b.trial(t, trial.Load{Rate: rate, Frames: 100})
	for _, c := range []struct {
		name, words string
		frames      []frame
	}{
		{"foreign frames", "", foreign()},
		{"foreign frames at their own pace", " timing=own", foreign()},
		{"frames of the lab's own", "", alone(t, own.captured[0])},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "frames.pcap")
			writeCapture(t, file, c.frames)
			if err := b.rig.Load(parse(t, "pcap="+file+c.words)); err != nil {
				t.Fatal(err)
			}
			rounds := 2
			s := b.replayed(t, trial.Load{Rate: 1000, Frames: uint64(rounds * len(c.frames))})
			for round := range rounds {
				for i, f := range c.frames {
					n := round*len(c.frames) + i
					got, on := s.captured[0][n].bytes, s.captured[1][n].bytes
					if !bytes.Equal(got[12:], f.bytes[12:]) {
						t.Fatalf("frame %d was sent as\n% .80x, expected\n% .80x", n, got, f.bytes)
					}
					if want := hop(f.bytes, on[:12], 1); !bytes.Equal(want, on) {
						t.Fatalf("frame %d was forwarded as\n% .80x, expected\n% .80x", n, on, want)
					}
				}
			}
			for i := range s.captured {
				if k := s.toDevice[0]; len(s.captured[i]) != rounds*len(c.frames) || k.Packets != s.result.Received || s.toTester[1].Packets != k.Packets {
					t.Errorf("tcpdump at %s saw %d frames, the kernel %+v and %+v, the sink %d", devicePorts[i], len(s.captured[i]), k, s.toTester[1], s.result.Received)
				}
			}
		})
	}
}

// replayed makes a trial of a capture; one that saw frames of others is made once more.
func (b *bench) replayed(t *testing.T, load trial.Load) (s seen) {
	t.Helper()
	for range tries {
		s = b.observed(t, load)
		if n := int(s.result.Sent); s.result.Lost() == 0 && len(s.captured[0]) == n && len(s.captured[1]) == n {
			return s
		}
		t.Logf("of %d frames %d came back, tcpdump saw %d and %d: once more", load.Frames, s.result.Received, len(s.captured[0]), len(s.captured[1]))
	}
	t.Fatalf("no trial of %d without loss", tries)
	return s
}

// alone returns captured frames of the lab without their witnesses.
func alone(t *testing.T, frames []frame) (out []frame) {
	t.Helper()
	for _, p := range ofTheLab(frames) {
		out = append(out, p.frame)
	}
	if len(out) == 0 {
		t.Fatal("nothing was captured")
	}
	return out
}

// foreign are frames that the lab would never make: other protocols, fragments, options, odd lengths.
func foreign() (out []frame) {
	from4, to4 := netip.MustParseAddr("198.18.128.7"), netip.MustParseAddr("198.19.130.9")
	from6, to6 := netip.MustParseAddr("2001:2:0:4000::7"), netip.MustParseAddr("2001:2:0:c000::9")
	at := time.Unix(1_700_000_000, 0)
	add := func(b []byte) {
		at = at.Add(3 * time.Millisecond)
		out = append(out, frame{at, b})
	}
	for i, protocol := range []byte{1, 17, 6, 47, 50, 132, 89} {
		payload := bytes.Repeat([]byte{byte(i), 0xff, 0x5a}, 20+70*i)
		add(ipv4(from4, to4, protocol, nil, 0, payload))
		add(ipv6(from6, to6, protocol, payload))
	}
	add(ipv4(from4, to4, 17, []byte{1, 1, 1, 0}, 0, make([]byte, 77))) // options: no operation, end
	add(ipv4(from4, to4, 17, nil, 0x2000, make([]byte, 64)))           // the first of several fragments
	add(ipv4(from4, to4, 17, nil, 8, make([]byte, 41)))                // … and the last
	add(ipv4(from4, to4, 17, nil, 0, make([]byte, 1480)))
	return out
}

// ethernet is the header in front of foreign frames; its MACs are nobody's.
func ethernet(kind uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{2, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 2}, kind)
}

func ipv4(from, to netip.Addr, protocol byte, options []byte, fragment uint16, payload []byte) []byte {
	h := make([]byte, 20, 20+len(options)+len(payload))
	h[0], h[8], h[9] = byte(0x40|(20+len(options))/4), 33, protocol
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(options)+len(payload)))
	binary.BigEndian.PutUint16(h[6:], fragment)
	copy(h[12:], from.AsSlice())
	copy(h[16:], to.AsSlice())
	h = append(h, options...)
	binary.BigEndian.PutUint16(h[10:], ^ones(h))
	return append(append(ethernet(0x0800), h...), payload...)
}

func ipv6(from, to netip.Addr, protocol byte, payload []byte) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, protocol, 33
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	copy(h[8:], from.AsSlice())
	copy(h[24:], to.AsSlice())
	return append(append(ethernet(0x86dd), h...), payload...)
}

// writeCapture writes frames as tcpdump does.
func writeCapture(t *testing.T, file string, frames []frame) {
	t.Helper()
	b := binary.NativeEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = binary.NativeEndian.AppendUint16(b, 2)
	b = binary.NativeEndian.AppendUint16(b, 4)
	for _, word := range []uint32{0, 0, 65535, 1} {
		b = binary.NativeEndian.AppendUint32(b, word)
	}
	for _, f := range frames {
		for _, word := range []uint32{uint32(f.at.Unix()), uint32(f.at.Nanosecond() / 1000), uint32(len(f.bytes)), uint32(len(f.bytes))} {
			b = binary.NativeEndian.AppendUint32(b, word)
		}
		b = append(b, f.bytes...)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
