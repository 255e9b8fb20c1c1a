// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"minne/internal/model/packet"
)

// Ordinary packets of established flows: all sizes up to the MTU, TTLs, odd
// lengths, and payloads that lead the checksum around its corners. The fast path
// carries every one of them that may pass and is not the kernel's.
func TestBytes(t *testing.T) {
	tw := newTwins(t)
	flows := tw.newFlows(1)
	tw.establish(flows)
	before := [ports]uint64{}
	for port, name := range portNames {
		before[port] = tw.fast.carried(name)
	}
	sent := [ports]uint64{}
	for _, f := range flows {
		for side := range 2 {
			in := ordinary(f, side)
			if f.who[0].port != f.who[1].port || f.four() {
				sent[f.who[side].port] += uint64(len(in))
			} // else the kernel may send a redirect, which can't be turned off for IPv6
			for _, one := range in {
				tw.mark(one)
			}
			out, agree := tw.both(fmt.Sprintf("%s, side %d", f.kind, side), in)
			if agree && len(out) != len(in) {
				t.Errorf("%s, side %d: of %d packets %d came out", f.kind, side, len(in), len(out))
			}
		}
	}
	for port, name := range portNames {
		tw.fast.wantCarried(name, before[port], sent[port])
	}
}

// ordinary are packets of a flow that pass.
func ordinary(f *flow, side int) (in []frame) {
	random := rand.New(rand.NewPCG(uint64(f.src[0].Port()), uint64(side)))
	room := 1500 - packet.IPv4Len - f.headerLen()
	if !f.four() {
		room = 1500 - packet.IPv6Len - f.headerLen()
	}
	if f.who[0].port == narrow || f.who[1].port == narrow {
		room -= 1500 - narrowMTU
	}
	for _, size := range []int{0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 512, 513, room / 2, room - 1, room} {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(random.Uint32())
		}
		in = append(in, f.say(side, payload))
	}
	for _, ttl := range []uint8{2, 3, 63, 64, 65, 128, 254, 255} {
		in = append(in, f.onWire(side, f.network(side, ttl, f.transport(side, packet.ACK, []byte("hops")))))
	}
	for _, want := range []uint16{0, 1, 0x00ff, 0x0100, 0xfeff, 0xff00, 0xfffe, 0xffff} {
		for _, afterwards := range []bool{false, true} {
			if !f.noSum {
				in = append(in, f.onWire(side, f.network(side, 64, f.withChecksum(side, want, afterwards))))
			}
		}
	}
	for range 40 {
		payload := make([]byte, random.IntN(100))
		for i := range payload {
			payload[i] = byte(random.Uint32())
		}
		in = append(in, f.say(side, payload))
	}
	return in
}

// TCP connections that end, by FIN or RST, begin again with the same ports.
func TestSamePortsAgain(t *testing.T) {
	tw := newTwins(t)
	tcp := func(f *flow) bool { return f.protocol != packet.ProtoTCP }
	byFIN, byRST := slices.DeleteFunc(tw.newFlows(1), tcp), slices.DeleteFunc(tw.newFlows(1), tcp)
	all := slices.Concat(byFIN, byRST)
	tw.establish(all)
	for side := range 2 {
		tw.step("FIN", byFIN, func(f *flow) frame { return f.tcp(side, packet.FIN|packet.ACK) }, nil)
		tw.step("last ACK", byFIN, func(f *flow) frame { return f.tcp(1-side, packet.ACK) }, nil)
	}
	tw.step("RST", byRST, func(f *flow) frame { return f.tcp(0, packet.RST) }, nil)
	for _, f := range all {
		f.seq[0], f.seq[1] = f.seq[0]+0x1000_0000, f.seq[1]+0x1000_0000
	}
	tw.establish(all)
}
