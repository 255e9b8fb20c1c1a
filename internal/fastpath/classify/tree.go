// SPDX-License-Identifier: Apache-2.0

package classify

// The range tree finds the class of a 64-bit word: direct stages, whose next bits
// of the word pick a descriptor, and leaves, cache lines of up to seven ranges that
// are searched by six comparisons without a branch.

import (
	"errors"
	"math/bits"
)

// Descriptors: bits 30 and 31 are the kind, 24 to 29 a stage's width, 0 to 23 the place in
// units of 64 bytes. A value stands in the low 16 bits.
const (
	kindValue = 0 << 30
	kindLeaf  = 1 << 30
	kindStage = 2 << 30

	unitWords  = 16 // 32-bit words in a unit of 64 bytes
	leafStarts = 6  // and one range more, which starts at 0
	noStart    = 1<<63 - 1

	// maxStages is how many stages can lie behind each other: a stage of more than 7 ranges
	// has at least 5 bits, 64 bits have 13 of them. CLASSIFY_STAGES.
	maxStages = 13

	// deepValue marks a value: addresses of this word differ in their second word, by the tree
	// whose number is in the other bits.
	deepValue  = 0x8000
	maxClasses = deepValue - 1
)

// errImage says that the tables do not fit.
var errImage = errors.New("the tables need more memory than there is for them")

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

// tree writes the tree of the spans from base on, which all keys share in their first `used`
// bits. first is the span that base lies in; spans behind last are of no interest.
func (m *image) tree(spans []span, base uint64, used uint) (uint32, error) {
	if len(spans) == 1 {
		return spans[0].value, nil
	}
	if len(spans) <= leafStarts+1 && used > 0 {
		return m.leaf(spans, base, used)
	}
	width := stageBits(len(spans), 64-used)
	at, err := m.take(1<<width, unitWords)
	if err != nil {
		return 0, err
	}
	step := uint64(1) << (64 - used - width)
	for i, from := 0, 0; i < 1<<width; i++ {
		start := base + uint64(i)*step
		for from+1 < len(spans) && spans[from+1].start <= start {
			from++
		}
		to := from + 1
		for to < len(spans) && spans[to].start-start < step {
			to++
		}
		desc, err := m.tree(spans[from:to], start, used+width)
		if err != nil {
			return 0, err
		}
		m.words[at+i] = desc
	}
	return kindStage | uint32(width)<<24 | uint32(at/unitWords), nil
}

// stageBits is the width of a stage for so many ranges: four entries for each.
func stageBits(ranges int, left uint) uint {
	return min(uint(max(4, min(16, bits.Len(uint(4*ranges-1))))), left)
}

// leaf writes up to seven ranges. Starts are what is left of the word behind the used bits, as
// the upper bits of 63: so a difference of two has its sign in bit 63.
func (m *image) leaf(spans []span, base uint64, used uint) (uint32, error) {
	at, err := m.take(unitWords, unitWords)
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

// words gives the tree of a sweep's runs, which may differ in their second words: those become
// trees of their own, whose descriptors are collected in deep.
func (m *image) addressTree(runs []classRun, deep *[]uint32) (uint32, error) {
	var spans []span
	add := func(start uint64, value uint32) {
		if n := len(spans); n == 0 || spans[n-1].value != value {
			spans = append(spans, span{start, value})
		}
	}
	for i := 0; i < len(runs); {
		hi := runs[i].start.hi
		if runs[i].start.lo == 0 && (i+1 == len(runs) || runs[i+1].start.hi != hi) {
			add(hi, runs[i].class)
			i++
			continue
		}
		var inside []span
		if runs[i].start.lo != 0 {
			inside = append(inside, span{0, runs[i-1].class})
		}
		for ; i < len(runs) && runs[i].start.hi == hi; i++ {
			inside = append(inside, span{runs[i].start.lo, runs[i].class})
		}
		desc, err := m.tree(inside, 0, 0)
		if err != nil {
			return 0, err
		}
		if len(*deep) >= deepValue {
			return 0, errors.New("more than 32,768 IPv6 networks of 64 bits hold longer prefixes")
		}
		add(hi, deepValue|uint32(len(*deep)))
		*deep = append(*deep, desc)
		if hi != ^uint64(0) && (i == len(runs) || runs[i].start != point{hi: hi + 1}) {
			add(hi+1, runs[i-1].class)
		}
	}
	return m.tree(spans, 0, 0)
}
