// SPDX-License-Identifier: Apache-2.0

// Package dataset writes what minne-procbench reads beside table images: keys, payload, and tables of
// the router's own structures. procbench/load.c has the formats. It also sums answers up as
// programs in C and eBPF do (bpf/algo/checksum.h), so that they can be compared across machines.
package dataset

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
)

// Origin says where keys come from.
type Origin uint32

// The origins.
const (
	Unknown Origin = iota
	Random         // all of the family's or the length's
	InTable        // within the table's own prefixes, or keys of the filter
)

// maxKey is the longest key, in bytes.
const maxKey = 64

// Keys is a file of keys, which are all of one length: IPv4 addresses of 4 bytes and IPv6
// addresses of 16 in network byte order, or bytes of any kind for Bloom filters.
func Keys(origin Origin, keys [][]byte) ([]byte, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("no keys: expected one or more")
	}
	length := len(keys[0])
	if length < 1 || length > maxKey {
		return nil, fmt.Errorf("key 1 has %d bytes: expected 1 to %d", length, maxKey)
	}
	out := make([]byte, 0, 16+len(keys)*padded(length))
	out = append(out, "mnk1"...)
	for _, n := range []int{length, len(keys), int(origin)} {
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for i, k := range keys {
		if len(k) != length {
			return nil, fmt.Errorf("key %d has %d bytes: expected %d as the first one has", i+1, len(k), length)
		}
		out = appendPadded(out, k)
	}
	return out, nil
}

// Payload is a file of records, each of which is a stream that patterns are looked for in.
func Payload(records [][]byte) ([]byte, error) {
	size, length := 0, 0
	for _, r := range records {
		size += 4 + padded(len(r))
		length += len(r)
	}
	if length == 0 || uint64(size) > math.MaxUint32 {
		return nil, fmt.Errorf("payload of %d bytes in %d records: expected 1 byte to 4 GiB", length, len(records))
	}
	out := make([]byte, 0, 16+size)
	out = append(out, "mnp1"...)
	for _, n := range []int{len(records), size, 0} {
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, r := range records {
		out = binary.BigEndian.AppendUint32(out, uint32(len(r)))
		out = appendPadded(out, r)
	}
	return out, nil
}

func padded(n int) int { return (n + 3) &^ 3 }

func appendPadded(out, b []byte) []byte {
	out = append(out, b...)
	return append(out, make([]byte, padded(len(b))-len(b))...)
}

// Structure is one of the router's own structures.
type Structure uint32

// The structures, as procbench/procbench.h numbers them.
const (
	Range    Structure = 0
	Direct24 Structure = 1
	Staged16 Structure = 2
)

// Router is a file of a table that internal/subsystem/fastpath/fib has compiled: an image in a byte
// order, without what may be behind its words; rootBits is what its layout tells the program (fib4_root_bits).
func Router(s Structure, rootBits uint32, words []byte, order binary.ByteOrder) ([]byte, error) {
	if len(words)%4 != 0 || uint64(len(words)) > 4*math.MaxUint32 {
		return nil, fmt.Errorf("table of %d bytes: expected words of 4", len(words))
	}
	out := make([]byte, 32, 32+len(words))
	sum := crc32.Checksum(words, crc32.MakeTable(crc32.Castagnoli))
	for i, w := range []uint32{0x6d6e6631, uint32(s), rootBits, uint32(len(words) / 4), sum} {
		order.PutUint32(out[4*i:], w)
	}
	return append(out, words...), nil
}

// Checksum is one of answers in their order. The zero value is that of none.
type Checksum struct{ a, b uint32 }

// Add goes on with an answer: 0 or 1 of Bloom filters, a next hop of longest prefix match.
func (c *Checksum) Add(answer uint32) {
	c.a = (bits.RotateLeft32(c.a, 5)^answer)*0x9e3779b1 + 1
	c.b = (bits.RotateLeft32(c.b, 11)+answer)*0x85ebca77 + 1
}

// AddBool is Add of 0 or 1.
func (c *Checksum) AddBool(answer bool) {
	if answer {
		c.Add(1)
	} else {
		c.Add(0)
	}
}

// AddRecord goes on with the numbers of the patterns that were found in a record of payload, ascending.
func (c *Checksum) AddRecord(patterns []int) {
	for _, p := range patterns {
		c.Add(uint32(p))
	}
	c.Add(math.MaxUint32)
}

func (c Checksum) String() string { return fmt.Sprintf("%08x%08x", c.a, c.b) }
