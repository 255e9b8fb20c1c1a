// SPDX-License-Identifier: Apache-2.0

package bloom

import (
	"fmt"
	"math"
)

// Parameters say what a filter is made for.
type Parameters struct {
	Keys       int     // that will be added
	BitsPerKey float64 // counting: counters of 4 bits
	Hashes     int     // places of a key; 0: as many as make the fewest false positives
	Blocked    bool    // the places of a key lie in one cache line
	Seed       uint64  // of the hash
}

// Limits of what is stored.
const (
	MaxHashes = 32
	// MaxPlaces leaves several hashes for every place, so that places are hit evenly.
	MaxPlaces = 1 << 30

	blockWords  = 16
	bitsOfWord  = 32
	countOfWord = 8 // counters
)

// shape is what of a filter's header decides where a key's places are.
type shape struct {
	seeds  [2]uint32
	hashes uint32
	blocks uint32 // 0: classic
	places uint32
}

// shape checks parameters; a word has so many places.
func (p Parameters) shape(perWord int) (shape, error) {
	if p.Keys < 1 {
		return shape{}, fmt.Errorf("a Bloom filter for %d keys: expected 1 or more", p.Keys)
	}
	if !(p.BitsPerKey > 0) || math.Ceil(float64(p.Keys)*p.BitsPerKey) > MaxPlaces {
		return shape{}, fmt.Errorf("a Bloom filter with %g bits per key for %d keys: expected more than 0, and at most %d bits in all", p.BitsPerKey, p.Keys, MaxPlaces)
	}
	if p.Hashes < 0 || p.Hashes > MaxHashes {
		return shape{}, fmt.Errorf("a Bloom filter with %d hashes: expected 1 to %d, or 0 for the best number", p.Hashes, MaxHashes)
	}
	s := shape{seeds: [2]uint32{uint32(p.Seed >> 32), uint32(p.Seed)}, hashes: uint32(p.Hashes)}
	// Under equal seeds both hashes would be the same.
	s.seeds[1] ^= 0x5bd1e995
	if s.seeds[0] == s.seeds[1] {
		s.seeds[0] = ^s.seeds[0]
	}
	s.places = uint32(math.Ceil(float64(p.Keys) * p.BitsPerKey))
	if p.Blocked {
		perBlock := uint32(blockWords * perWord)
		s.blocks = (s.places + perBlock - 1) / perBlock
		s.places = s.blocks * perBlock
	}
	if s.hashes == 0 {
		s.hashes = s.best(p.Keys)
	}
	return s, nil
}

// best is the number of hashes with the fewest false positives when so many keys are in.
func (s shape) best(keys int) uint32 {
	best, rate := uint32(1), 2.0
	for k := uint32(1); k <= MaxHashes; k++ {
		s.hashes = k
		r := s.falsePositives(keys)
		if r >= rate {
			break
		}
		best, rate = k, r
	}
	return best
}
