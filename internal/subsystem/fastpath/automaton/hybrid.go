// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"fmt"
	"slices"

	"minne/internal/subsystem/fastpath/tableimage"
)

// Hybrid FA: a head whose subset construction stops at borders, and behind each border a tail.
//
// Borders stand before the repeats that would make the head explode. Which these are is found by trying: first only
// those that take many different bytes or count far, then more and more. What still explodes is
// spread over several heads, each with its own tails.
//
// A tail is a DFA with one more symbol than bytes: "the head has come to the border". So a
// second activation while the first is under way leads to the state for both. Where that has too
// many states (a count behind a border: which of the last 500 bytes began one?) the tail is an NFA
// whose states are bits of a few words.

// levels are tried one after the other.
var levels = []thresholds{
	{width: 129, count: 256, span: 129},
	{width: 129, count: 64, span: 64},
	{width: 64, count: 16, span: 32},
	{width: 10, count: 8, span: 10},
	{width: 2, count: 3, span: 2},
}

// tailStates bounds a tail's DFA, unless Options say otherwise.
const tailStates = 512

// Words of a hybrid FA's header behind those of a D²FA.
const (
	headTails     = tableimage.HeadOwn + 5 // number of tails
	headTailTable = tableimage.HeadOwn + 6 // where their table is
	headMemory    = tableimage.HeadOwn + 7 // words that the states of all tails take
	headBits      = tableimage.HeadOwn + 8 // most words of the state of a tail that is an NFA, 0 if none is
)

// A head's entry in the table of groups goes on with its tails.
const (
	groupFirstTail = 2
	groupTails     = 3
)

// Words of a tail's entry in the table.
const (
	tailPattern = 0 // number of the pattern that it belongs to
	tailBits    = 1 // words of an NFA's state, 0 for a DFA
	tailClasses = 2 // where the class of each byte is
	tailRecord  = 3 // of an NFA: where its masks are; of a DFA: its state after the first activation
	tailAgain   = 4 // of a DFA: the class that is the activation
	tailMemory  = 5 // where in the run's memory its state is
	tailWords   = 8
)

// wordTail marks a tail's number among what a head's state finds.
const wordTail = 1 << 31

// The lookup's own bounds: HYBRID_ of bpf/algo/hybrid.h.
const (
	maxTails  = 2048
	maxMemory = 1 << 14
)

// head is a deterministic head with its tails, by the borders' instructions.
type head struct {
	*compressed
	tails map[int32]*tail
}

// tail goes on behind a border: either is nil.
type tail struct {
	pattern int32
	dfa     *compressed
	first   int32 // state after the first activation
	bits    *bitNFA
}

// heads builds one head of patterns, or, where it explodes at all levels, one of each half.
func (b *builder) heads(ids []int32) ([]*head, error) {
	var explodes *ErrExplodes
	for _, limits := range levels {
		h, err := b.head(ids, limits)
		if err == nil {
			return []*head{h}, nil
		}
		if !errors.As(err, &explodes) {
			return nil, err
		}
	}
	if len(ids) == 1 {
		return nil, fmt.Errorf("pattern %d, %s: %w", ids[0], b.patterns[ids[0]].Text, explodes)
	}
	first, err := b.heads(ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	second, err := b.heads(ids[len(ids)/2:])
	if err != nil {
		return nil, err
	}
	return append(first, second...), nil
}

func (b *builder) head(ids []int32, limits thresholds) (*head, error) {
	n, err := b.nfa(ids, limits)
	if err != nil {
		return nil, err
	}
	d, err := determinize(n, bounds{b.States, b.Memory})
	if err != nil {
		return nil, err
	}
	h := &head{tails: map[int32]*tail{}}
	for _, now := range d.now {
		for _, mark := range now {
			if mark >= 0 || h.tails[^mark] != nil {
				continue
			}
			t, err := b.tail(n, ^mark)
			if err != nil {
				return nil, err
			}
			h.tails[^mark] = t
		}
	}
	h.compressed = d.minimised().compress(b.Defaults, b.Rows)
	return h, nil
}

// tail builds what goes on behind a border of n.
func (b *builder) tail(n *nfa, border int32) (*tail, error) {
	behind := n.behind(border)
	t := &tail{pattern: n.insts[border].id}
	if set, count := behind.counts(); count > 0 {
		d := counterDFA(set, count, t.pattern)
		t.dfa, t.first = d.compress(b.Defaults, 0), 1
		return t, nil
	}
	d, first, err := determinizeTail(behind, bounds{b.tailStates, b.Memory})
	var explodes *ErrExplodes
	switch {
	case err == nil:
		t.dfa, t.first = d.compress(b.Defaults, 0), first
		return t, nil
	case !errors.As(err, &explodes):
		return nil, err
	}
	t.bits, err = newBitNFA(behind)
	if err != nil {
		return nil, fmt.Errorf("pattern %d, %s: %w", t.pattern, b.patterns[t.pattern].Text, err)
	}
	return t, nil
}

// behind is the part of an NFA behind a border, its only entry. Further borders are ways through.
func (n *nfa) behind(border int32) *nfa {
	number := map[int32]int32{}
	var order []int32
	visit := func(i int32) int32 {
		at, ok := number[i]
		if !ok {
			at = int32(len(order))
			number[i] = at
			order = append(order, i)
		}
		return at
	}
	t := &nfa{entries: []int32{visit(n.insts[border].out)}}
	for i := 0; i < len(order); i++ {
		in := n.insts[order[i]]
		switch in.kind {
		case instBorder:
			in.kind, in.out = instSplit, visit(in.out)
			in.alt = in.out
		case instSplit:
			in.out, in.alt = visit(in.out), visit(in.alt)
		case instMatch:
		default:
			in.out = visit(in.out)
		}
		t.insts = append(t.insts, in)
	}
	t.findFollow()
	return t
}

// counts tells whether nothing but so many bytes of one set is behind a border: 0 if not.
func (n *nfa) counts() (set byteSet, count int) {
	seen := make([]int32, len(n.insts))
	next := n.reach(nil, n.entries[0], seen, 1)
	for ; ; count++ {
		if len(next) != 1 {
			return set, 0
		}
		in := &n.insts[next[0]]
		switch {
		case in.kind == instMatch:
			return set, count
		case in.kind != instBytes || count > 0 && in.set != set || count > len(n.insts):
			return set, 0
		}
		set, next = in.set, n.follow[next[0]]
	}
}

// counterDFA is the tail that finds a pattern after so many bytes of a set. It need not know of other activations while the first is under
// way: that one finds the pattern first, or dies of the same byte. So it counts, where otherwise it would have to know which of the
// last bytes began one.
func counterDFA(set byteSet, count int, pattern int32) *dfa {
	const other, in, again = 0, 1, 2
	d := &dfa{classes: again + 1}
	for v := range 256 {
		if set.has(byte(v)) {
			d.classOf[v] = in
		}
	}
	for s := range int32(count) + 2 {
		row := [again + 1]int32{other: 0, in: s + 1, again: s}
		if s == 0 || int(s) > count {
			row[in] = 0
		}
		d.next = append(d.next, row[:]...)
	}
	d.now, d.end = make([][]int32, count+2), make([][]int32, count+2)
	d.now[count+1] = []int32{pattern}
	return d
}

// determinizeTail builds a tail's DFA. Its start is the state of a tail that is not active; first is that after an
// activation of such a one. The class behind those of bytes is another activation.
func determinizeTail(n *nfa, limit bounds) (*dfa, int32, error) {
	s := newSubset(n, limit)
	if len(s.bytes) > 255 {
		return nil, 0, &ErrExplodes{}
	}
	s.out.classes++
	entry := n.reach(nil, n.entries[0], s.seen, s.nextStamp())
	s.out.start = s.state(0, nil)
	first := s.state(0, slices.Clone(entry))
	for at := 0; at < len(s.extras); at++ {
		s.expand(at)
		again := int32(at)
		if at != int(s.out.start) {
			again = s.state(0, s.joined(s.extras[at], entry))
		}
		s.out.next = append(s.out.next, again)
		if err := s.exceeded(); err != nil {
			return nil, 0, err
		}
	}
	return s.out, first, nil
}

// joined is a list of instructions with those of an entry, without what it has reported already.
func (s *subset) joined(list, entry []int32) []int32 {
	stamp := s.nextStamp()
	var all []int32
	for _, part := range [][]int32{list, entry} {
		for _, i := range part {
			if s.seen[i] != stamp && (s.insts[i].kind != instMatch || slices.Contains(entry, i)) {
				s.seen[i] = stamp
				all = append(all, i)
			}
		}
	}
	return all
}

func (b *builder) writeHybrid(heads []*head) (*Automaton, error) {
	m := tableimage.New(tableimage.Hybrid)
	table, err := b.header(m, len(heads))
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		b.stats.Tails += len(h.tails)
	}
	tails := m.Place(tailWords*max(1, b.stats.Tails), 1)
	m.Words[headTails], m.Words[headTailTable] = uint32(b.stats.Tails), uint32(tails)
	tail := 0
	for i, h := range heads {
		b.count(h.compressed)
		numbers := map[int32]uint32{}
		first := tail
		for _, border := range sortedKeys(h.tails) {
			numbers[border] = uint32(tail)
			if err := b.writeTail(m, tails+tailWords*tail, h.tails[border]); err != nil {
				return nil, err
			}
			tail++
		}
		group := table + groupWords*i
		m.Words[group+groupFirstTail], m.Words[group+groupTails] = uint32(first), uint32(tail-first)
		err := h.write(m, group, func(found int32) uint32 {
			if found < 0 {
				return wordTail | numbers[^found]
			}
			return uint32(found)
		})
		if err != nil {
			return nil, err
		}
	}
	if tail > maxTails || m.Words[headMemory] > maxMemory {
		return nil, fmt.Errorf("%d tails with %d words of state: at most %d and %d: expected fewer patterns with .* or long counts", tail, m.Words[headMemory], maxTails, maxMemory)
	}
	return b.seal(m)
}

func sortedKeys(tails map[int32]*tail) []int32 {
	var keys []int32
	for k := range tails {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// writeTail places a tail and fills its entry.
func (b *builder) writeTail(m *tableimage.Image, at int, t *tail) error {
	words := uint32(1)
	if t.dfa != nil {
		b.stats.TailStates += t.dfa.states()
		b.stats.LongestDefault = max(b.stats.LongestDefault, t.dfa.longest())
		entry := m.Place(groupWords, 1)
		states, err := t.dfa.writeStates(m, entry, func(id int32) uint32 { return uint32(id) })
		if err != nil {
			return err
		}
		m.Words[at+tailClasses], m.Words[at+tailRecord] = m.Words[entry+groupClasses], states[t.first]
		m.Words[at+tailAgain] = uint32(t.dfa.classes - 1)
	} else {
		b.stats.TailStates += t.bits.positions
		words = uint32(t.bits.words)
		m.Words[at+tailBits] = words
		m.Words[headBits] = max(m.Words[headBits], words)
		record, classes := t.bits.write(m)
		m.Words[at+tailRecord], m.Words[at+tailClasses] = uint32(record), uint32(classes)
	}
	m.Words[at+tailPattern], m.Words[at+tailMemory] = uint32(t.pattern), m.Words[headMemory]
	m.Words[headMemory] += words
	return nil
}
