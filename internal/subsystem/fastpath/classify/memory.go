// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"encoding/binary"
	"errors"
)

// Units in which places are aligned, in words of 32 bits.
const (
	unitWords = 4
	lineWords = 16 // a cache line
)

// errImage says that the tables do not fit.
var errImage = errors.New("the tables need more memory than the fast path has for them; " +
	"write fewer rules, or join rules that differ in one address by naming a set of addresses")

// image is memory that is being filled, in words of 32 bits.
type image struct {
	words []uint32
	limit int // words
}

// take returns the place of n words at the beginning of a unit of so many words.
func (m *image) take(n, unit int) (int, error) {
	at := (len(m.words) + unit - 1) / unit * unit
	if at+n > m.limit {
		return 0, errImage
	}
	if cap(m.words) < at+n {
		grown := make([]uint32, len(m.words), min(m.limit, max(2*(at+n), 1<<16)))
		copy(grown, m.words)
		m.words = grown
	}
	m.words = m.words[:at+n]
	return at, nil
}

func (m *image) set64(word int, v uint64) {
	pair := split64(v)
	m.words[word], m.words[word+1] = pair[0], pair[1]
}

// split64 and pair16 lay values into words as the CPU reads them.
func split64(v uint64) (words [2]uint32) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	words[0], words[1] = binary.NativeEndian.Uint32(b[:]), binary.NativeEndian.Uint32(b[4:])
	return words
}

func pair16(first, second uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint16(b[:], uint16(first))
	binary.NativeEndian.PutUint16(b[2:], uint16(second))
	return binary.NativeEndian.Uint32(b[:])
}
