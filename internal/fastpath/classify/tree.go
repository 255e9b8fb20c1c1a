// SPDX-License-Identifier: Apache-2.0

package classify

// The range tree finds the class of a 64-bit word: direct stages, whose next bits
// of the word pick a descriptor, and leaves, cache lines of up to seven ranges that
// are searched by six comparisons without a branch.

import (
	"errors"
	"iter"
	"math/bits"
)

// Descriptors: bits 30 and 31 are the kind, 24 to 28 a stage's width, 0 to 23 the place in
// units of 16 bytes. A value stands in the low 16 bits.
const (
	kindLeaf  = 1 << 30
	kindStage = 2 << 30

	unitWords  = 4  // 32-bit words in a unit
	lineWords  = 16 // in a cache line
	leafStarts = 6  // and one range more, which starts at 0
	noStart    = 1<<63 - 1

	// maxStages is how many stages can lie behind each other. CLASSIFY_STAGES.
	maxStages = 17

	// deepValue marks a value: addresses of this word differ in their second word, by the tree
	// whose number is in the other bits.
	deepValue  = 0x8000
	maxClasses = deepValue - 1
)

// errImage says that the tables do not fit.
var errImage = errors.New("the tables need more memory than the fast path has for them; " +
	"write fewer rules, or join rules that differ in one address by naming a set of addresses")

// span is a run of words of one value, up to where the next one starts.
type span struct {
	start uint64
	value uint32
}

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

// tree writes a tree and returns its descriptor.
func (m *image) tree(spans []span) (desc uint32, err error) { return m.subtree(spans, 0, 0) }

// subtree writes the tree of the spans from base on, which all keys share in their first `used`
// bits. The first span may begin before base.
func (m *image) subtree(spans []span, base uint64, used uint) (desc uint32, err error) {
	if len(spans) == 1 {
		return spans[0].value, nil
	}
	if len(spans) <= leafStarts+1 && used > 0 {
		return m.leaf(spans, base, used)
	}
	width := stageBits(spans, base, used)
	at, err := m.take(1<<width, unitWords)
	if err != nil {
		return 0, err
	}
	for i, slot := range slots(spans, base, used, width) {
		desc, err := m.subtree(slot, base+uint64(i)<<(64-used-width), used+width)
		if err != nil {
			return 0, err
		}
		m.words[at+i] = desc
	}
	return kindStage | uint32(width)<<24 | uint32(at/unitWords), nil
}

// slots yields the spans of each entry of a stage.
func slots(spans []span, base uint64, used, width uint) iter.Seq2[int, []span] {
	return func(yield func(int, []span) bool) {
		last := uint64(1)<<(64-used-width) - 1
		for i, from := 0, 0; i < 1<<width; i++ {
			start := base + uint64(i)<<(64-used-width)
			for from+1 < len(spans) && spans[from+1].start <= start {
				from++
			}
			to := from + 1
			for to < len(spans) && spans[to].start-start <= last {
				to++
			}
			if !yield(i, spans[from:to]) {
				return
			}
		}
	}
}

// stageBits is the width of a stage: the one at which its bytes and a fine for each range that
// needs another stage are least. The narrowest width falls as bits are used up, so that no tree has
// more than maxStages.
func stageBits(spans []span, base uint64, used uint) uint {
	left := 64 - used
	if used == 0 && len(spans) <= leafStarts+1 {
		return 1
	}
	best, price := uint(0), 0
	for width := uint(4); width <= min(16, left, uint(bits.Len(uint(16*len(spans))))); width++ {
		p := 4 << width
		for _, slot := range slots(spans, base, used, width) {
			if n := len(slot); n > leafStarts+1 {
				p += fine * n
			} else if n > 1 {
				p += 64
			}
		}
		if best == 0 || p < price {
			best, price = width, p
		}
	}
	if best == 0 {
		return left
	}
	return best
}

// fine is what a range that needs another stage costs, in bytes.
const fine = 192

// leaf writes up to seven ranges. Starts are what is left of the word behind the used bits, as
// the upper bits of 63: so a difference of two has its sign in bit 63.
func (m *image) leaf(spans []span, base uint64, used uint) (uint32, error) {
	at, err := m.take(lineWords, lineWords)
	if err != nil {
		return 0, err
	}
	values := [8]uint32{}
	for i := range values {
		one := spans[min(i, len(spans)-1)]
		if i <= leafStarts {
			values[leafStarts-i] = one.value
		}
		if i == 0 || i > leafStarts {
			continue
		}
		start := uint64(noStart)
		if i < len(spans) {
			start = (one.start - base) << used >> 1
		}
		m.set64(at+2*(i-1), start)
	}
	for i := range 4 {
		m.words[at+2*leafStarts+i] = pair16(values[2*i], values[2*i+1])
	}
	return kindLeaf | uint32(at/unitWords), nil
}
