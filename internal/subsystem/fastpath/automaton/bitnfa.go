// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"

	"minne/internal/subsystem/fastpath/tableimage"
)

// bitNFA is a tail's NFA as bits: a bit for each instruction that waits for the next byte, in the order of the
// pattern, so that most lead to the bit behind them and a step of all is a shift (Navarro, Raffinot: "Flexible
// Pattern Matching in Strings", 2002, chapter 4). A bit that leads to itself stays by another mask; the
// few that lead elsewhere (exceptions) have a mask of where to each.
type bitNFA struct {
	positions int
	words     int
	classOf   [256]uint8
	classes   int

	entry, match, end, shift, loop, exception []uint32
	reach, ahead                              [][]uint32 // of each class: bits that take it; assertions about the next byte that it meets
	targets                                   [][]uint32 // of each exception, in the order of bits
}

// maxBitWords bounds a tail's state: HYBRID_TAIL_WORDS of bpf/algo/hybrid.h.
const maxBitWords = 128

var errBits = errors.New("an assertion in front of something else, behind a long count: not in the subset that is compiled")

func newBitNFA(n *nfa) (*bitNFA, error) {
	b := &bitNFA{}
	var representative []byte
	b.classOf, representative = n.classes()
	b.classes = len(representative)
	bit := make([]int, len(n.insts))
	var order []int
	for i := range n.insts { // breadth first from the border: a count's copies come one after the other
		if k := n.insts[i].kind; k == instBytes || k == instAhead {
			bit[i] = len(order)
			order = append(order, i)
		}
	}
	b.positions, b.words = len(order), (len(order)+31)/32
	if b.words > maxBitWords {
		return nil, &ErrExplodes{States: len(order), MaxStates: 32 * maxBitWords}
	}
	for _, mask := range []*[]uint32{&b.entry, &b.match, &b.end, &b.shift, &b.loop, &b.exception} {
		*mask = make([]uint32, b.words)
	}
	seen := make([]int32, len(n.insts))
	for _, i := range n.reach(nil, n.entries[0], seen, 1) {
		set(b.entry, bit[i])
	}
	for p, i := range order {
		if err := b.lead(n, p, i, bit); err != nil {
			return nil, err
		}
	}
	for _, v := range representative {
		reach, ahead := make([]uint32, b.words), make([]uint32, b.words)
		for p, i := range order {
			switch {
			case !n.insts[i].set.has(v):
			case n.insts[i].kind == instBytes:
				set(reach, p)
			default:
				set(ahead, p)
			}
		}
		b.reach, b.ahead = append(b.reach, reach), append(b.ahead, ahead)
	}
	return b, nil
}

func set(mask []uint32, bit int) { mask[bit/32] |= 1 << (bit % 32) }

// lead notes where position p, instruction i, leads to.
func (b *bitNFA) lead(n *nfa, p, i int, bit []int) error {
	if n.insts[i].kind == instAhead {
		for _, f := range n.follow[i] {
			if n.insts[f].kind != instMatch {
				return errBits
			}
		}
		if n.insts[i].edge {
			set(b.end, p)
		}
		return nil
	}
	var other []uint32
	for _, f := range n.follow[i] {
		switch {
		case n.insts[f].kind == instMatch:
			set(b.match, p)
		case n.insts[f].kind == instBehind:
			return errBits
		case bit[f] == p+1:
			set(b.shift, p)
		case bit[f] == p:
			set(b.loop, p)
		default:
			if other == nil {
				other = make([]uint32, b.words)
			}
			set(other, bit[f])
		}
	}
	if other != nil {
		set(b.exception, p)
		b.targets = append(b.targets, other)
	}
	return nil
}

// Masks of the record, each of words words, and behind them those of each class and of each exception.
const (
	bitEntry     = 0 // set by an activation
	bitMatch     = 1 // found when one of these takes a byte
	bitEnd       = 2 // found if the stream ends
	bitShift     = 3
	bitLoop      = 4
	bitException = 5
	bitBefore    = 6 // of each word: exceptions in the words before
	bitAt        = 7 // where the classes' masks are, and where the exceptions', in the record
)

// write places the record and the classes of bytes.
func (b *bitNFA) write(m *tableimage.Image) (record, classes int) {
	w := b.words
	byClass := bitAt*w + 2
	exceptions := byClass + 2*w*b.classes
	record = m.Place(exceptions+w*len(b.targets), 1)
	words := m.Words[record:]
	for i, mask := range [][]uint32{b.entry, b.match, b.end, b.shift, b.loop, b.exception} {
		copy(words[i*w:], mask)
	}
	before := uint32(0)
	for i, mask := range b.exception {
		words[bitBefore*w+i] = before
		before += ones(mask)
	}
	words[bitAt*w], words[bitAt*w+1] = uint32(byClass), uint32(exceptions)
	for c := range b.classes {
		copy(words[byClass+2*w*c:], b.reach[c])
		copy(words[byClass+2*w*c+w:], b.ahead[c])
	}
	for i, mask := range b.targets {
		copy(words[exceptions+w*i:], mask)
	}
	return record, placeClasses(m, b.classOf)
}
