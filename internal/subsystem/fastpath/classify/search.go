// SPDX-License-Identifier: Apache-2.0

package classify

// The search tree finds the class of an address, one 64-bit word of it after the
// other; IPv4 has one. Networks of a site share long beginnings, which direct stages would
// follow bit by bit, each address to another depth. Here a node compares with three
// starts, without a branch, and walks have one of two lengths: the processor foresees
// it, and no set of prefixes makes it long.
//
// In front of the trees of the first word stands one table of its first bits, in front
// of those of the second words its first bit; so the difference of two keys has its
// sign in bit 63. A node's children are numbered as in a heap: those of i are 4i + 1 to
// 4i + 4.

import (
	"errors"
	"iter"
	"math/bits"
)

const (
	rootWords  = 4 // of a tree: nodes (in units of 8 words), values (16-bit entries), levels, unused
	nodeWords  = 8 // three starts of 64 bits, unused
	startBits  = 1<<63 - 1
	behindAll  = 1 << 63 // a start that every key is before
	isTree     = 1 << 31 // in the table: the place of a tree's root, else a value
	fewLevels  = 2       // of trees of up to 16 ranges
	rootNodes  = 0
	rootValues = 1
	rootLevels = 2
)

// deepValue marks a value: addresses with this first word differ in their second, by the tree whose
// number is in the other bits.
const (
	deepValue  = 0x8000
	maxClasses = deepValue - 1
)

// span is a run of words of one value, up to where the next one starts.
type span struct {
	start uint64
	value uint32
}

// words splits a sweep's runs into the ranges of first words and, where addresses differ in their
// second words only, the ranges of those. Such a first word's value is the number of its ranges.
func words(runs []classRun) (spans []span, deep [][]span, err error) {
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
		if len(deep) >= deepValue {
			return nil, nil, errors.New("more than 32,768 IPv6 networks of 64 bits hold longer prefixes")
		}
		add(hi, deepValue|uint32(len(deep)))
		deep = append(deep, inside)
		if hi != ^uint64(0) && (i == len(runs) || runs[i].start != point{hi: hi + 1}) {
			add(hi+1, runs[i-1].class)
		}
	}
	return spans, deep, nil
}

// searchTrees writes the trees of both words and returns the places of the table in front of the
// first words' and of the second words' roots, and how many bits the table takes.
func (m *image) searchTrees(spans []span, deep [][]span) (table, roots int, width uint, err error) {
	width = uint(min(14, max(1, bits.Len(uint(4*len(spans)-4)))))
	if table, err = m.take(1<<width, unitWords); err != nil {
		return 0, 0, 0, err
	}
	most := 0
	for _, slot := range slots(spans, 0, 0, width) {
		most = max(most, levelsFor(len(slot)))
	}
	for i, slot := range slots(spans, 0, 0, width) {
		if len(slot) == 1 {
			m.words[table+i] = slot[0].value
			continue
		}
		levels := most
		if levelsFor(len(slot)) <= fewLevels {
			levels = min(most, fewLevels)
		}
		root, err := m.take(rootWords, rootWords)
		if err == nil {
			err = m.searchTree(root, slot, ^uint64(0)>>width, levels)
		}
		if err != nil {
			return 0, 0, 0, err
		}
		m.words[table+i] = isTree | uint32(root)
	}
	if roots, err = m.take(2*rootWords*len(deep), rootWords); err != nil {
		return 0, 0, 0, err
	}
	for i, one := range deep {
		for bit, slot := range slots(one, 0, 0, 1) {
			if err := m.searchTree(roots+rootWords*(2*i+bit), slot, startBits, levelsFor(len(slot))); err != nil {
				return 0, 0, 0, err
			}
		}
	}
	return table, roots, width, nil
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

// levelsFor is how many levels tell so many ranges apart.
func levelsFor(ranges int) (levels int) {
	for size := 1; size < ranges; size *= 4 {
		levels++
	}
	return levels
}

// searchTree writes a tree of so many levels over the masked bits, and its root. The first span
// may begin earlier.
func (m *image) searchTree(root int, spans []span, mask uint64, levels int) error {
	size := 1 << (2 * levels)
	inner := (size - 1) / 3 // nodes of a whole tree
	nodes := 0
	if levels > 0 {
		nodes = inner - size/4 + (len(spans)+3)/4
	}
	at, err := m.take(nodes*nodeWords, nodeWords)
	if err != nil {
		return err
	}
	for first, step := 0, size/4; step > 0; first, step = 4*first+1, step/4 {
		for i := 0; 4*step*i < len(spans); i++ {
			for child := 1; child < 4; child++ {
				start := uint64(behindAll)
				if rank := (4*i + child) * step; rank < len(spans) {
					start = spans[rank].start & mask
				}
				m.set64(at+(first+i)*nodeWords+2*(child-1), start)
			}
		}
	}
	values, err := m.take((len(spans)+1)/2, 1)
	if err != nil {
		return err
	}
	for i := 0; i < len(spans); i += 2 {
		m.words[values+i/2] = pair16(spans[i].value, spans[min(i+1, len(spans)-1)].value)
	}
	m.words[root+rootNodes] = uint32(at / nodeWords)
	m.words[root+rootValues] = uint32(2*values - inner) // a walk ends at a number behind those of the nodes
	m.words[root+rootLevels] = uint32(levels)
	return nil
}
