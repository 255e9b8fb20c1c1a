// SPDX-License-Identifier: Apache-2.0

package automaton

import "slices"

// Stream is a search under way.
type Stream struct {
	reader
	heads  []uint32 // state of each group
	found  []bool
	tails  []tailRun // of a hybrid FA
	active [][]uint32
}

// tailRun is a tail's state: a DFA's word, or an NFA's bits; all 0 while it is not active.
type tailRun struct{ state []uint32 }

// Stream begins a search.
func (a *Automaton) Stream() *Stream {
	s := &Stream{reader: reader{a.image.Words}, found: make([]bool, a.stats.Patterns), tails: make([]tailRun, a.stats.Tails)}
	for i := range s.tails {
		s.tails[i].state = make([]uint32, max(1, s.words[s.tail(uint32(i))+tailBits]))
	}
	for g := range s.words[headGroups] {
		start := s.words[s.group(g)+groupStart]
		s.heads, s.active = append(s.heads, start), append(s.active, nil)
		s.reader.found(start, false, func(word uint32) { s.report(int(g), word) })
	}
	return s
}

func (s *Stream) group(g uint32) uint32 { return s.words[headTable] + groupWords*g }

func (s *Stream) tail(i uint32) uint32 { return s.words[headTailTable] + tailWords*i }

// Feed takes the next bytes.
func (s *Stream) Feed(data []byte) {
	for g := range s.heads {
		report := func(word uint32) { s.report(g, word) }
		classes := s.words[s.words[s.group(uint32(g))+groupClasses]:][:256]
		state := s.heads[g]
		for _, b := range data {
			if len(s.active[g]) > 0 {
				s.stepTails(g, b)
			}
			state = s.step(state, classes[b])
			if state&wordFinds != 0 {
				s.reader.found(state, false, report)
			}
		}
		s.heads[g] = state
	}
}

// report takes a word of what a group's state finds.
func (s *Stream) report(g int, word uint32) {
	if word&wordTail == 0 || len(s.tails) == 0 {
		s.found[word] = true
		return
	}
	i := word &^ wordTail
	at := s.tail(i)
	if s.found[s.words[at+tailPattern]] {
		return
	}
	state := s.tails[i].state
	idle := !anyBit(state)
	if n := s.words[at+tailBits]; n > 0 {
		entry := s.words[s.words[at+tailRecord]+bitEntry*n:]
		for w := range n {
			state[w] |= entry[w]
		}
	} else {
		if idle {
			state[0] = s.words[at+tailRecord]
		} else {
			state[0] = s.step(state[0], s.words[at+tailAgain])
		}
		s.reader.found(state[0], false, s.find)
	}
	if idle && anyBit(state) {
		s.active[g] = append(s.active[g], i)
	}
}

func (s *Stream) find(id uint32) { s.found[id] = true }

func anyBit(words []uint32) bool {
	return slices.ContainsFunc(words, func(w uint32) bool { return w != 0 })
}

// stepTails takes a byte in the active tails of a group and forgets those that it ends.
func (s *Stream) stepTails(g int, b byte) {
	kept := s.active[g][:0]
	for _, i := range s.active[g] {
		at := s.tail(i)
		class := s.words[s.words[at+tailClasses]+uint32(b)]
		state := s.tails[i].state
		if n := s.words[at+tailBits]; n > 0 {
			s.stepBits(at, n, class, state)
		} else {
			state[0] = s.step(state[0], class)
			s.reader.found(state[0], false, s.find)
		}
		if anyBit(state) {
			kept = append(kept, i)
		}
	}
	s.active[g] = kept
}

// stepBits takes a byte of a class in a tail that is an NFA. One that has found its pattern is done.
func (s *Stream) stepBits(at, n, class uint32, state []uint32) {
	record := s.words[s.words[at+tailRecord]:]
	byClass := record[record[bitAt*n]+2*n*class:]
	exceptions := record[record[bitAt*n+1]:]
	next := make([]uint32, n)
	carry := uint32(0)
	done := false
	for w := range n {
		took := state[w] & byClass[w]
		done = done || took&record[bitMatch*n+w] != 0 || state[w]&byClass[n+w] != 0
		shifted := took & record[bitShift*n+w]
		next[w] |= shifted<<1 | carry | took&record[bitLoop*n+w]
		carry = shifted >> 31
		for left := took & record[bitException*n+w]; left != 0; left &= left - 1 {
			bit := left & -left
			e := record[bitBefore*n+w] + ones(record[bitException*n+w]&(bit-1))
			for v := range n {
				next[v] |= exceptions[e*n+v]
			}
		}
	}
	if done {
		s.found[s.words[at+tailPattern]] = true
		clear(next)
	}
	copy(state, next)
}

// End tells that the stream has ended.
func (s *Stream) End() {
	for _, state := range s.heads {
		s.reader.found(state, true, s.find)
	}
	for i := range s.tails {
		at, state := s.tail(uint32(i)), s.tails[i].state
		n := s.words[at+tailBits]
		if n == 0 {
			s.reader.found(state[0], true, s.find)
			continue
		}
		end := s.words[s.words[at+tailRecord]+bitEnd*n:]
		for w := range n {
			if state[w]&end[w] != 0 {
				s.found[s.words[at+tailPattern]] = true
			}
		}
	}
}

// Found are the numbers of the patterns found so far, ascending.
func (s *Stream) Found() []int {
	var ids []int
	for id, found := range s.found {
		if found {
			ids = append(ids, id)
		}
	}
	return ids
}

// Match returns the numbers of the patterns that occur in data, ascending.
func (a *Automaton) Match(data []byte) []int {
	s := a.Stream()
	s.Feed(data)
	s.End()
	return s.Found()
}
