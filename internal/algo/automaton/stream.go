// SPDX-License-Identifier: Apache-2.0

package automaton

// Stream is a search under way.
type Stream struct {
	a     *Automaton
	r     reader
	state []uint32 // of each group
	found []bool
}

// Stream begins a search.
func (a *Automaton) Stream() *Stream {
	s := &Stream{a: a, r: reader{a.image.Words}, found: make([]bool, a.stats.Patterns)}
	for g := range s.r.words[headGroups] {
		start := s.r.words[s.group(g)+groupStart]
		s.state = append(s.state, start)
		s.r.found(start, false, s.find)
	}
	return s
}

func (s *Stream) group(g uint32) uint32 { return s.r.words[headTable] + groupWords*g }

func (s *Stream) find(id uint32) { s.found[id] = true }

// Feed takes the next bytes.
func (s *Stream) Feed(data []byte) {
	for g := range s.state {
		classes := s.r.words[s.r.words[s.group(uint32(g))+groupClasses]:][:256]
		state := s.state[g]
		for _, b := range data {
			state = s.r.step(state, classes[b])
			if state&wordFinds != 0 {
				s.r.found(state, false, s.find)
			}
		}
		s.state[g] = state
	}
}

// End tells that the stream has ended.
func (s *Stream) End() {
	for _, state := range s.state {
		s.r.found(state, true, s.find)
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
