// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"crypto/rand"
	"encoding/binary"
)

// secret mirrors struct flow_secret of bpf/flow_hash.h.
type secret struct {
	half       [10]uint32
	mask       uint64
	multiplier [2]uint64
}

func newSecret() secret {
	var b [64]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	var s secret
	for i := range s.half {
		s.half[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	s.mask = binary.NativeEndian.Uint64(b[40:])
	s.multiplier[0] = binary.NativeEndian.Uint64(b[48:]) | 1
	s.multiplier[1] = binary.NativeEndian.Uint64(b[56:]) | 1
	return s
}

// nh is flow_nh.
func nh(a, b uint64, k []uint32) uint64 {
	return uint64(uint32(a)+k[0])*uint64(uint32(b)+k[1]) + uint64(uint32(a>>32)+k[2])*uint64(uint32(b>>32)+k[3])
}

// spread is flow_spread.
func (s *secret) spread(sum uint64) uint64 {
	sum = (sum ^ s.mask) * s.multiplier[0]
	sum = (sum ^ sum>>32) * s.multiplier[1]
	return sum ^ sum>>32
}

// hash is flow_hash.
func (s *secret) hash(k *rawKey) uint64 {
	sum := nh(k[0], k[2], s.half[:4]) + nh(k[1], k[3], s.half[4:8])
	sum += uint64(uint32(k[4])+s.half[8]) * uint64(uint32(k[4]>>32)+s.half[9])
	return s.spread(sum)
}

// source is flow_source_hash.
func (s *secret) source(k *rawKey) uint64 {
	from := k[0]
	if k[4]>>56 == 4 {
		from = k[1]
	}
	return s.spread(nh(from, k[4]>>56, s.half[2:6]))
}
