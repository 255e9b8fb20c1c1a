// SPDX-License-Identifier: Apache-2.0

package bloom

import (
	"encoding/binary"
	"math/bits"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 64

// hash is MurmurHash3 (x86, 32 bits) of a key under two seeds.
type hash struct{ a, b uint32 }

func scramble(w uint32) uint32 { return bits.RotateLeft32(w*0xcc9e2d51, 15) * 0x1b873593 }

func mix(h, w uint32) uint32 { return bits.RotateLeft32(h^w, 13)*5 + 0xe6546b64 }

func finish(h uint32) uint32 {
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

func (s shape) hash(key []byte) hash {
	h := hash{s.seeds[0], s.seeds[1]}
	length := uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		w := scramble(binary.LittleEndian.Uint32(key))
		h.a, h.b = mix(h.a, w), mix(h.b, w)
	}
	var tail uint32
	for i, c := range key {
		tail |= uint32(c) << (8 * i)
	}
	tail = scramble(tail)
	return hash{finish(h.a ^ tail ^ length), finish(h.b ^ tail ^ length)}
}

// within brings a hash evenly into 0 … n-1.
func within(h, n uint32) uint32 { return uint32(uint64(h) * uint64(n) >> 32) }

// next returns the i-th place of a key, counted from 0, and goes on.
func (s shape) next(h *hash, i uint32) uint32 {
	if s.blocks == 0 {
		place := within(h.a, s.places)
		h.a, h.b = h.a+h.b, h.b+i+1 // enhanced double hashing
		return place
	}
	perBlock := s.places / s.blocks
	place := within(h.a, s.blocks)*perBlock + h.b>>(32-bits.Len32(perBlock-1))
	h.b *= 0x9e3779b9
	return place
}
