// SPDX-License-Identifier: Apache-2.0

// Package tableimage writes table images: the flat arrays of 32-bit words that the
// algorithms in bpf/algo search, natively or in eBPF. bpf/algo/algo.h has the
// layout. It does no I/O.
package tableimage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// Kind says which algorithm reads an image: enum algo_kind of bpf/algo/algo.h.
type Kind uint32

// The kinds.
const (
	Bloom         Kind = 1
	CountingBloom Kind = 2
	D2FA          Kind = 3
	Hybrid        Kind = 4
	TreeBitmap    Kind = 5
	ShapeShifting Kind = 6
)

// Words of the header, ALGO_HEAD_ of bpf/algo/algo.h.
const (
	headMagic    = 0
	headKind     = 1
	headVersion  = 2
	headWords    = 3
	headUsed     = 4
	headChecksum = 5
	// HeadOwn is the first word of the header that is the kind's own; HeadEnd is behind the header.
	HeadOwn = 6
	HeadEnd = 32
)

const (
	magic   = 0x6d6e616c
	version = 1
)

// MaxWords bounds an image: 1 GiB.
const MaxWords = 1 << 28

// Image is a table in the making. Words begin with the header, whose words from HeadOwn to HeadEnd
// the builder fills.
type Image struct {
	Kind  Kind
	Words []uint32
}

// New returns an image with an empty header.
func New(kind Kind) *Image { return &Image{Kind: kind, Words: make([]uint32, HeadEnd)} }

// Place adds n words of zeros, the first at a multiple of align, a power of two, and returns where.
func (m *Image) Place(n, align int) int {
	at := (len(m.Words) + align - 1) &^ (align - 1)
	m.Words = append(m.Words, make([]uint32, at+n-len(m.Words))...)
	return at
}

// Seal fills in the header and pads the image to a power of two. It refuses an image that is too large.
func (m *Image) Seal() error {
	used := len(m.Words)
	size := 1 << bits.Len(uint(used-1))
	if size > MaxWords {
		return fmt.Errorf("table of %d bytes: at most %d", 4*used, 4*MaxWords)
	}
	m.Words = append(m.Words, make([]uint32, size-used)...)
	m.Words[headMagic], m.Words[headKind], m.Words[headVersion] = magic, uint32(m.Kind), version
	m.Words[headWords], m.Words[headUsed] = uint32(size), uint32(used)
	m.Words[headChecksum] = checksum(m.Words[HeadOwn:used])
	return nil
}

// Used is how many words of a sealed image mean something; the others fill it up.
func (m *Image) Used() int { return int(m.Words[headUsed]) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is CRC-32C (RFC 3720 B.4) of words as little-endian bytes.
func checksum(words []uint32) uint32 {
	var sum uint32
	var b [4096]byte
	for len(words) > 0 {
		n := min(len(words), len(b)/4)
		for i, w := range words[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], w)
		}
		sum = crc32.Update(sum, castagnoli, b[:4*n])
		words = words[n:]
	}
	return sum
}

// Bytes is a sealed image for a CPU of a byte order.
func (m *Image) Bytes(order binary.ByteOrder) []byte {
	b := make([]byte, 4*len(m.Words))
	for i, w := range m.Words {
		order.PutUint32(b[4*i:], w)
	}
	return b
}
