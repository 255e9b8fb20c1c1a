// SPDX-License-Identifier: Apache-2.0

package fib

import "encoding/binary"

// The DIR-24-8 image: 2^24 entries of 16 bits and then blocks of 256 entries.
// bpf/fib_direct24.h has the meaning of an entry. The routes are kept as for
// the other structures, in a root of 18 bits; building block i of it paints
// the 64 entries of its /24s.
const (
	direct24Ask        = 0x7fff
	direct24Block      = 0x8000                      // an entry with this bit names a block
	direct24Default    = 1 << 23                     // word of the first entry of block 0
	direct24BlockUnits = 256 * 2 / (unitWords * 4)   // 32
	direct24Base       = direct24Default / unitWords // unit of block 0
	direct24FirstBlock = direct24Base + direct24BlockUnits
	direct24Words      = 1<<23 + 1<<22 // 32768 blocks
)

// pairOf is two neighbouring entries as one word of the image.
func pairOf(even, odd uint16) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint16(b[:2], even)
	binary.NativeEndian.PutUint16(b[2:], odd)
	return binary.NativeEndian.Uint32(b[:])
}

// entry24 reads entry i of the image.
func (m image) entry24(i uint32) uint16 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], m.load(i/2))
	return binary.NativeEndian.Uint16(b[i%2*2:])
}

// lookup24 is fib4_direct24_lookup of bpf/fib_direct24.h.
func (m image) lookup24(dst uint32) uint16 {
	e := m.entry24(dst >> 8)
	if e&direct24Block != 0 {
		e = m.entry24(direct24Default*2 + uint32(e&^direct24Block)<<8 + dst&0xff)
	}
	switch e {
	case direct24Ask:
		return 0
	case 0:
		return m.entry24(direct24Default * 2)
	}
	return e
}

// buildDirect24 paints the entries below block i of the root.
func (t *table) buildDirect24(i uint32) {
	n := t.root
	s := &t.sweeps[0]
	at := n.site(i)
	_ = s.run(at.base, at.last(), n.worth(i), n.blocks[i].list, nil) // only IPv6 routes fail
	per := uint32(1) << (24 - n.stride)
	v := s.intervals
	failed := false
	var entries [64]uint16
	for e := range per {
		var ok bool
		v, entries[e], ok = t.entryOf(i*per+e, v)
		failed = failed || !ok
	}
	for e := uint32(0); e < per; e += 2 {
		t.img.set((i*per+e)/2, pairOf(entries[e], entries[e+1]))
	}
	if failed {
		t.failed = append(t.failed, spot{n, i})
	}
}

// entryOf makes the entry of a /24, given the intervals from the one that its first address is
// in. It returns those from the one that its last address is in.
func (t *table) entryOf(slash24 uint32, v []interval) ([]interval, uint16, bool) {
	old := t.img.entry24(slash24)
	first := uint64(slash24) << 40
	last := first | lowBits(24)
	for len(v) > 1 && v[1].start <= first {
		v = v[1:]
	}
	if len(v) == 1 || v[1].start > last {
		t.unlinkBlock(old)
		return v, uint16(v[0].desc), true
	}
	entry := old
	if old&direct24Block == 0 {
		at, ok := t.mem.alloc(direct24BlockUnits)
		if !ok {
			return v, direct24Ask, false
		}
		entry = direct24Block | uint16((at-direct24Base)/direct24BlockUnits)
	}
	word := direct24Default + uint32(entry&^direct24Block)*128
	for a := uint64(0); a < 256; a += 2 {
		var pair [2]uint16
		for k := range pair {
			for len(v) > 1 && v[1].start <= first|(a+uint64(k))<<32 {
				v = v[1:]
			}
			pair[k] = uint16(v[0].desc)
		}
		t.img.set(word+uint32(a/2), pairOf(pair[0], pair[1]))
	}
	return v, entry, true
}

// unlinkBlock retires the block that an entry names, once the entry is replaced.
func (t *table) unlinkBlock(entry uint16) {
	if entry&direct24Block != 0 {
		t.unlinked = append(t.unlinked, span{direct24Base + uint32(entry&^direct24Block)*direct24BlockUnits, direct24BlockUnits})
	}
}
