// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"minne/internal/model/flowrecord"
)

// The filter of a block: a Bloom filter of lines. The hash of a key chooses a line of 64 bytes and six bits in it, so that a
// question reads one line of each block. With 14 bits for each key, about 3 of 1,000 blocks are
// read for nothing; with ten it was 15, which made most of what a question took.

const (
	lineBytes  = 64
	bitsPerKey = 14
	bitsOfKey  = 6
)

// keyOf is the hash of an address and a port; 0 is no port, for the address alone. It is stored in files.
func keyOf(a netip.Addr, port uint16) uint64 {
	b := a.As16()
	const k0, k1 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h := mix(binary.LittleEndian.Uint64(b[:])^k0, k1)
	h = mix(h^binary.LittleEndian.Uint64(b[8:]), k0)
	return mix(h^uint64(port)<<1^k1, k1)
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^b>>1, b)
	return high ^ low ^ a>>32
}

// lineOf is where in a filter of so many bytes the line of a key begins.
func lineOf(key uint64, size int) int {
	line, _ := bits.Mul64(key, uint64(size/lineBytes))
	return int(line) * lineBytes
}

// inLine calls visit for each bit of a key until it returns false.
func inLine(key uint64, visit func(bit int) bool) bool {
	h := mix(key, 0xa0761d6478bd642f)
	for range bitsOfKey {
		if !visit(int(h & (8*lineBytes - 1))) {
			return false
		}
		h >>= 9
	}
	return true
}

func mayHave(line []byte, key uint64) bool {
	return inLine(key, func(bit int) bool { return line[bit/8]&(1<<(bit%8)) != 0 })
}

// filterOf has all addresses of records, and what stands in the places of translated ends.
func filterOf(records []flowrecord.Record, lists ...list) []byte {
	keys := map[uint64]struct{}{}
	for _, l := range lists {
		for _, a := range l {
			keys[keyOf(a, 0)] = struct{}{}
		}
	}
	for i := range records {
		r := &records[i]
		if r.Seen != r.Source {
			keys[keyOf(r.Seen.Addr(), r.Seen.Port())] = struct{}{}
		}
		if r.Destination != r.Called {
			keys[keyOf(r.Called.Addr(), r.Called.Port())] = struct{}{}
		}
	}
	filter := make([]byte, (len(keys)*bitsPerKey/(8*lineBytes)+1)*lineBytes)
	for key := range keys {
		line := filter[lineOf(key, len(filter)):]
		inLine(key, func(bit int) bool { line[bit/8] |= 1 << (bit % 8); return true })
	}
	return filter
}
