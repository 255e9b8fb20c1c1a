// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Subset construction. A state stands for the instructions that wait for the next byte.
//
// A search that may begin anywhere has the entries of all patterns in every state. They are
// left out of a state's list (its extras): only their variant, after which byte they were entered, is
// kept, and their step for each class is computed once.
//
// A state that reports a pattern drops its other instructions: a set has a pattern once.

// ErrExplodes says that an automaton has more states, or its table more bytes, than allowed.
type ErrExplodes struct{ States, MaxStates, Bytes, MaxBytes int }

func (e *ErrExplodes) Error() string {
	return fmt.Sprintf("the deterministic automaton grows beyond %d states or %d bytes (reached: %d, %d)", e.MaxStates, e.MaxBytes, e.States, e.Bytes)
}

// bounds of a construction.
type bounds struct{ states, bytes int }

// atStart stands for "no byte before" where a class is asked for.
const atStart = -1

type subset struct {
	*nfa
	classOf  [256]uint8
	bytes    []byte // a byte of each class
	entered  bool   // a search begins at every byte; not so in tails
	limit    bounds
	seen     []int32 // stamp of the list that an instruction was entered in
	passed   []int32 // the same of assertions about the next byte that were gone through
	stamp    int32
	variants [][]int32 // entries by what they were resolved to
	steps    [][][]int32
	after    []int // variant after a class; the last is that at the start
	states   map[string]int32
	extras   [][]int32
	variant  []int
	stepID   []int32 // of the entries by variant and class: equal where step and variant behind are
	raw      map[string]int32
	rawKey   []byte
	quiet    []int32 // entriesOnly, plus 1
	list     []int32 // in use by expand
	key      []byte
	memory   int // bytes of extras and rows so far
	out      *dfa
}

// determinize builds the DFA that searches everywhere for all patterns of an NFA.
func determinize(n *nfa, limit bounds) (*dfa, error) {
	s := newSubset(n, limit)
	s.entered = true
	s.enterEverywhere()
	s.out.start = s.state(len(s.bytes), nil)
	return s.out, s.expandAll()
}

func newSubset(n *nfa, limit bounds) *subset {
	s := &subset{nfa: n, limit: limit, seen: make([]int32, len(n.insts)), passed: make([]int32, len(n.insts)), states: map[string]int32{}}
	s.classOf, s.bytes = n.classes()
	s.out = &dfa{classOf: s.classOf, classes: len(s.bytes)}
	return s
}

// enterEverywhere resolves the entries for what may be before them.
func (s *subset) enterEverywhere() {
	for c := range len(s.bytes) + 1 {
		class := c
		if c == len(s.bytes) {
			class = atStart
		}
		s.stamp++
		var list, reached []int32
		for _, e := range s.entries {
			reached = s.reach(reached, e, s.seen, s.stamp)
		}
		s.stamp++
		for _, i := range reached {
			list = s.enter(list, i, class)
		}
		slices.Sort(list)
		v := slices.IndexFunc(s.variants, func(o []int32) bool { return slices.Equal(o, list) })
		if v < 0 {
			v = len(s.variants)
			s.variants = append(s.variants, list)
		}
		s.after = append(s.after, v)
	}
	for _, list := range s.variants {
		step := make([][]int32, len(s.bytes))
		for c := range step {
			s.stamp++
			step[c] = s.stepOf(nil, list, c)
		}
		s.steps = append(s.steps, step)
	}
	s.raw = map[string]int32{}
	numbers := map[string]int32{}
	for v := range s.steps {
		for c, list := range s.steps[v] {
			key := fmt.Sprint(s.after[c], list)
			if _, ok := numbers[key]; !ok {
				numbers[key] = int32(len(numbers))
			}
			s.stepID = append(s.stepID, numbers[key])
		}
	}
	s.quiet = make([]int32, len(s.variants)*len(s.bytes))
}

// enter adds an instruction to the list that waits for the next byte, class being what was before it.
func (s *subset) enter(list []int32, i int32, class int) []int32 {
	if s.seen[i] == s.stamp {
		return list
	}
	s.seen[i] = s.stamp
	in := &s.insts[i]
	switch {
	case in.kind == instBehind:
		if class == atStart && !in.edge || class != atStart && !in.set.has(s.bytes[class]) {
			return list
		}
	default:
		return append(list, i)
	}
	for _, f := range s.follow[i] {
		list = s.enter(list, f, class)
	}
	return list
}

// stepOf adds what instructions lead to by a byte of a class. Assertions about that byte hold or not
// before it is taken; a pattern found by them is reported by the state behind.
func (s *subset) stepOf(list, from []int32, class int) []int32 {
	for _, i := range from {
		in := &s.insts[i]
		if !in.set.has(s.bytes[class]) {
			continue
		}
		switch in.kind {
		case instBytes:
			for _, f := range s.follow[i] {
				list = s.enter(list, f, class)
			}
		case instAhead:
			if s.passed[i] == s.stamp {
				continue
			}
			s.passed[i] = s.stamp
			list = s.stepOf(list, s.follow[i], class)
			for _, f := range s.follow[i] {
				if s.insts[f].kind == instMatch {
					list = s.enter(list, f, class)
				}
			}
		}
	}
	return list
}

// state finds or makes the state after a class (len(bytes): at the start) with the instructions of a list besides the entries.
func (s *subset) state(after int, list []int32) int32 {
	v := 0
	if s.entered {
		v = s.after[after]
		list = s.besidesEntries(list, v)
	}
	list = s.withoutFound(list)
	slices.Sort(list)
	key := binary.AppendUvarint(s.key[:0], uint64(v))
	last := int32(0)
	for _, i := range list {
		key = binary.AppendUvarint(key, uint64(i-last))
		last = i
	}
	s.key = key
	if at, ok := s.states[string(key)]; ok {
		return at
	}
	at := int32(len(s.extras))
	s.states[string(key)] = at
	s.extras = append(s.extras, slices.Clone(list))
	s.variant = append(s.variant, v)
	s.memory += 4*len(list) + len(key) + 4*len(s.bytes)
	s.report(v, list)
	return at
}

func (s *subset) besidesEntries(list []int32, v int) []int32 {
	kept := list[:0]
	for _, i := range list {
		if _, ok := slices.BinarySearch(s.variants[v], i); !ok {
			kept = append(kept, i)
		}
	}
	return kept
}

// withoutFound drops the instructions of patterns that the list itself reports.
func (s *subset) withoutFound(list []int32) []int32 {
	var found []int32
	for _, i := range list {
		if s.insts[i].kind == instMatch {
			found = append(found, s.insts[i].id)
		}
	}
	if found == nil {
		return list
	}
	kept := list[:0]
	for _, i := range list {
		if s.insts[i].kind == instMatch || !slices.Contains(found, s.insts[i].id) {
			kept = append(kept, i)
		}
	}
	return kept
}

// report writes down what a new state finds, and what it finds if the stream ends there.
func (s *subset) report(v int, list []int32) {
	var now, end []int32
	all := list
	s.stamp++
	if s.entered {
		all = append(slices.Clone(list), s.variants[v]...)
	}
	for _, i := range all {
		switch in := &s.insts[i]; in.kind {
		case instMatch:
			now = append(now, in.id)
		case instBorder:
			now = append(now, borderMark(i))
		case instAhead:
			end = s.endOf(end, i)
		}
	}
	slices.Sort(now)
	slices.Sort(end)
	now, end = slices.Compact(now), slices.Compact(end)
	end = slices.DeleteFunc(end, func(id int32) bool { return slices.Contains(now, id) })
	s.out.now = append(s.out.now, now)
	s.out.end = append(s.out.end, end)
}

// endOf adds the patterns that an assertion finds at the end of the stream.
func (s *subset) endOf(list []int32, i int32) []int32 {
	if !s.insts[i].edge || s.passed[i] == s.stamp {
		return list
	}
	s.passed[i] = s.stamp
	for _, f := range s.follow[i] {
		switch s.insts[f].kind {
		case instMatch:
			list = append(list, s.insts[f].id)
		case instAhead:
			list = s.endOf(list, f)
		}
	}
	return list
}

// borderMark is how a border stands in a list of what a state finds: negative.
func borderMark(i int32) int32 { return ^i }

// expandAll gives every state its row.
func (s *subset) expandAll() error {
	for at := 0; at < len(s.extras); at++ {
		s.expand(at)
		if err := s.exceeded(); err != nil {
			return err
		}
	}
	return nil
}

func (s *subset) exceeded() error {
	if len(s.extras) > s.limit.states || s.memory > s.limit.bytes {
		return &ErrExplodes{len(s.extras), s.limit.states, s.memory, s.limit.bytes}
	}
	return nil
}

func (s *subset) nextStamp() int32 {
	s.stamp++
	return s.stamp
}

func (s *subset) expand(at int) {
	extras, v := s.extras[at], s.variant[at]
	for c := range s.bytes {
		s.stamp++
		s.list = s.stepOf(s.list[:0], extras, c)
		if s.entered {
			if len(s.list) == 0 {
				s.out.next = append(s.out.next, s.entriesOnly(v, c))
				continue
			}
		}
		s.out.next = append(s.out.next, s.stepped(v, c))
	}
}

// stepped is the state after a class in a variant, s.list being what extras lead to. The same lists come again and again: those as
// they are, unsorted, are remembered with the step of the entries.
func (s *subset) stepped(v, c int) int32 {
	if !s.entered {
		return s.state(c, s.list)
	}
	key := binary.AppendUvarint(s.rawKey[:0], uint64(s.stepID[v*len(s.bytes)+c]))
	for _, i := range s.list {
		key = binary.LittleEndian.AppendUint32(key, uint32(i))
	}
	s.rawKey = key
	if at, ok := s.raw[string(key)]; ok {
		return at
	}
	for _, i := range s.steps[v][c] {
		if s.seen[i] != s.stamp {
			s.seen[i] = s.stamp
			s.list = append(s.list, i)
		}
	}
	at := s.state(c, s.list)
	s.raw[string(key)] = at
	s.memory += len(key)
	return at
}

// entriesOnly is the state after a class in a variant if no search was under way: most transitions lead to such.
func (s *subset) entriesOnly(v, c int) int32 {
	at := &s.quiet[v*len(s.bytes)+c]
	if *at == 0 {
		*at = 1 + s.state(c, slices.Clone(s.steps[v][c]))
	}
	return *at - 1
}
