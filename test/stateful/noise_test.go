// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"minne/internal/model/packet"
)

// Frames of random bytes, and packets of established flows with random damage: no
// frame may leave with the fast path that would not leave without it, and none
// that would may be lost, while thousands of flows are in the table.
func TestNoise(t *testing.T) {
	rounds := 1
	if long {
		rounds = 34 // ten million frames
	}
	for seed := range rounds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { noise(t, uint64(seed), 300_000) })
	}
}

func noise(t *testing.T, seed uint64, frames int) {
	tw := newTwins(t)
	flows := tw.newFlows(60)
	tw.establish(flows)
	n := &noiseMaker{tw: tw, flows: flows, rng: rand.New(rand.NewPCG(seed, 4))}
	passed := 0
	const batch = 10_000
	before := tw.fast.carried("lan")
	for at := 0; at < frames; at += batch {
		in := make([]frame, batch)
		for i := range in {
			in[i] = n.next()
		}
		out, agree := tw.both(fmt.Sprintf("seed %d, frames %d to %d", seed, at, at+batch-1), in)
		if !agree {
			return
		}
		passed += len(out)
	}
	if passed < frames/4 || passed > frames*3/4 {
		t.Errorf("of %d frames %d came out: too few or too many to prove anything", frames, passed)
	}
	tw.fast.wantCarried("lan", before, uint64(frames/20))
	t.Logf("of %d frames %d came out, %d of lan's by the fast path", frames, passed, tw.fast.carried("lan")-before)
}

// noiseMaker makes frames.
type noiseMaker struct {
	tw    *twins
	flows []*flow
	rng   *rand.Rand
}

func (n *noiseMaker) next() frame {
	if n.rng.IntN(10) == 0 {
		return n.random()
	}
	f, side := n.flows[n.rng.IntN(len(n.flows))], n.rng.IntN(2)
	payload := make([]byte, n.rng.IntN(40))
	n.fill(payload)
	one := f.say(side, payload)
	n.tw.mark(one)
	if n.rng.IntN(4) == 0 {
		return one
	}
	one.label += ", damaged"
	for range 1 + n.rng.IntN(3) {
		n.damage(&one)
	}
	if ip := one.bytes[min(packet.EthernetLen, len(one.bytes)):]; n.rng.IntN(2) == 0 && len(ip) >= packet.IPv4Len && ip[0] == 0x45 {
		reheader(ip)
	}
	return one
}

// damage changes something behind the MAC addresses.
func (n *noiseMaker) damage(f *frame) {
	const first = 12
	if len(f.bytes) <= first {
		return
	}
	at := first + n.rng.IntN(len(f.bytes)-first)
	switch n.rng.IntN(8) {
	case 0:
		f.bytes = f.bytes[:at]
	case 1:
		f.bytes = append(f.bytes, make([]byte, n.rng.IntN(60))...)
	case 2:
		f.bytes[at] = byte(n.rng.Uint32())
	case 3:
		f.port = n.rng.IntN(ports)
		copy(f.bytes, sliceOf(portMAC(f.port)))
	case 4: // the headers are where damage matters
		at = first + n.rng.IntN(min(len(f.bytes)-first, 42))
		f.bytes[at] = byte(n.rng.Uint32())
	default:
		f.bytes[at] ^= 1 << n.rng.IntN(8)
	}
}

// random is a frame of chance, half of the time one that claims to be IP.
func (n *noiseMaker) random() frame {
	port := n.rng.IntN(ports)
	b := make([]byte, packet.EthernetLen+n.rng.IntN(150))
	n.fill(b)
	copy(b, sliceOf(portMAC(port)))
	if n.rng.IntN(2) == 0 {
		kind := [2]uint16{packet.TypeIPv4, packet.TypeIPv6}[n.rng.IntN(2)]
		binary.BigEndian.PutUint16(b[12:], kind)
		if len(b) > packet.EthernetLen {
			b[packet.EthernetLen] = map[uint16]byte{packet.TypeIPv4: 0x45, packet.TypeIPv6: 0x60}[kind]
		}
	}
	return frame{port: port, bytes: b, label: "random bytes"}
}

func (n *noiseMaker) fill(b []byte) {
	for i := range b {
		b[i] = byte(n.rng.Uint32())
	}
}
