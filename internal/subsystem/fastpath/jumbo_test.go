// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

// jumboBench is a bench whose ports have an MTU of 9,000, as a commit gives it to them.
func jumboBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	if b.fast.prog.shape.jumbo {
		t.Error("a program for large frames without any")
	}
	d := b.desired()
	for name, i := range d.Interfaces {
		i.MTU = 9000
		d.Interfaces[name] = i
	}
	must(t, Frames{b.fast}.Apply(context.Background(), d))
	for _, l := range []netlink.Link{b.in, b.out, b.a, b.b} {
		must(t, netlink.LinkSetMTU(l, 9000))
	}
	must(t, b.fast.Apply(context.Background(), d))
	eventually(t, "the new MTU", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 2000), b.in).Reason == Forwarded
	})
	return b
}

// TestJumboFrames has frames in several buffers, which go as small ones do, byte for byte.
func TestJumboFrames(t *testing.T) {
	b := jumboBench(t)
	filled := func(frame []byte) []byte {
		for n := 62; n < len(frame); n++ {
			frame[n] = byte(n * 7)
		}
		return frame
	}
	for _, size := range []int{18, 3000, 3500, 3700, 4096, 8000, 8952} {
		for _, c := range []struct{ in, out []byte }{
			{filled(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, size)), filled(udp4(macB, macOut, "192.0.2.2", "198.51.100.2", 63, size))},
			{filled(udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, size)), filled(udp6(macB, macOut, "2001:db8:a::2", "2001:db8:b::2", 63, size))},
		} {
			v := b.expect(c.in, b.in, Forwarded)
			if !bytes.Equal(v.Packet, c.out) {
				t.Errorf("%d bytes: another packet", size)
			}
			padded := b.expect(append(bytes.Clone(c.in), 1, 2, 3, 4, 5), b.in, Forwarded)
			if !bytes.Equal(padded.Packet, c.out) {
				t.Errorf("%d bytes and 5 behind: %d bytes, expected %d", size, len(padded.Packet), len(c.out))
			}
			trailed := b.expect(append(bytes.Clone(c.in), make([]byte, 9000-size)...), b.in, Forwarded) // over several buffers
			if !bytes.Equal(trailed.Packet, c.out) {
				t.Errorf("%d bytes and %d behind: %d bytes, expected %d", size, 9000-size, len(trailed.Packet), len(c.out))
			}
		}
		longer := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, size)
		binary.BigEndian.PutUint16(longer[16:], uint16(len(longer)-14+1))
		setChecksum4(longer[14:])
		b.expect(longer, b.in, Reason(routerReasonREASON_BAD_LENGTH))
	}
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 9000-27), b.in, Reason(routerReasonREASON_TOO_BIG))
}

// TestJumboByAPortWithout: a driver that sends no frames in several buffers would drop them.
func TestJumboByAPortWithout(t *testing.T) {
	b := jumboBench(t)
	for size, want := range map[int]Reason{18: Forwarded, 1472: Forwarded, 8000: Reason(routerReasonREASON_EGRESS)} {
		// What the watcher tells of a link has the true driver asked again.
		eventually(t, fmt.Sprintf("%d bytes: %v", size, want), func() bool {
			b.fast.locked(func() {
				delete(b.fast.tables.scatters, b.out.Attrs().Index)
				b.fast.tables.renderLinks()
			})
			return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, size), b.in).Reason == want
		})
	}
}

// TestJumboEnds: with the large MTU goes the program for it.
func TestJumboEnds(t *testing.T) {
	b := jumboBench(t)
	must(t, Frames{b.fast}.Apply(context.Background(), b.desired()))
	if !b.fast.prog.shape.jumbo {
		t.Error("the program went before the MTU")
	}
	for _, l := range []netlink.Link{b.in, b.out, b.a, b.b} {
		must(t, netlink.LinkSetMTU(l, 1500))
	}
	eventually(t, "the small MTU", func() bool {
		must(t, b.fast.Apply(context.Background(), b.desired()))
		return !b.fast.prog.shape.jumbo
	})
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 1472), b.in, Forwarded)
	eventually(t, "what the watcher tells is the small MTU, too", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 1473), b.in).Reason == Reason(routerReasonREASON_TOO_BIG)
	})
}
