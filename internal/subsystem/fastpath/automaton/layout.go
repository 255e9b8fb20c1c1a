// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"fmt"
	"math/bits"
	"slices"

	"minne/internal/subsystem/fastpath/tableimage"
)

// How a D²FA lies in an image; bpf/algo/d2fa.h reads it.
//
// A state is told by one word: where its record is, how that looks, and whether it finds something. So
// the record of a state that is only passed through is read once per byte. 0 is the state that
// nothing leads out of and that finds nothing.
const (
	wordFinds  = 1 << 31 // it finds patterns
	wordAtEnd  = 1 << 30 // it finds patterns if the stream ends there
	wordKind   = 28      // shift
	wordPlace  = 1<<wordKind - 1
	recordRow  = 0 // a word of each class
	recordList = 1 // classes of up to four transitions, a byte each; default; the transitions
	recordMap  = 2 // default; of each 32 classes a bitmap and, in its next word, where its transitions begin in the record; the transitions
)

// Words of the header, from tableimage.HeadOwn.
const (
	headPatterns = tableimage.HeadOwn     // number of patterns
	headGroups   = tableimage.HeadOwn + 1 // number of automata
	headTable    = tableimage.HeadOwn + 2 // where their table is
	headDefaults = tableimage.HeadOwn + 3 // the most defaults in a row
	headReports  = tableimage.HeadOwn + 4 // the most entries of a list of what a state finds
)

// Words of a group's entry in the table.
const (
	groupClasses = 0 // where the class of each byte is, a word each
	groupStart   = 1 // word of the state at the start
	groupWords   = 4
)

// listMost are the transitions of a recordList.
const listMost = 4

// compressed is a dfa with its defaults chosen, and what each state stores. Its table is gone: it is many times larger.
type compressed struct {
	*dfa
	parent []int32
	kind   []uint8
	dead   []bool
	first  []int32 // of a state: where its stored transitions begin in own and to; one more state tells the end
	own    []uint8 // classes of the stored transitions
	rarest uint8   // a class of the fewest bytes
	to     []int32
}

// compress chooses defaults. The first rows states breadth first keep all of their transitions, so that the ones
// that traffic is mostly in take one read per byte.
func (d *dfa) compress(longest, rows int) *compressed {
	c := &compressed{dfa: d, parent: d.defaults(longest), kind: make([]uint8, d.states()), dead: make([]bool, d.states()), first: make([]int32, 1, d.states()+1)}
	size := d.classSizes()
	for class := range d.classes {
		if size[class] > 0 && size[class] < size[c.rarest] {
			c.rarest = uint8(class)
		}
	}
	for s := range d.states() {
		c.dead[s] = d.isDead(s)
		c.store(s, s >= rows)
		c.first = append(c.first, int32(len(c.own)))
	}
	c.own, c.to = slices.Clip(c.own), slices.Clip(c.to)
	c.dfa = &dfa{classOf: d.classOf, classes: d.classes, start: d.start, now: d.now, end: d.end}
	return c
}

// store notes the transitions in which the next state differs from its default: all of them where it has none, or may have
// none, or would need as much memory.
func (c *compressed) store(s int, may bool) {
	row, from := c.row(s), len(c.own)
	if p := c.parent[s]; p >= 0 && may {
		up := c.row(int(p))
		for class, t := range row {
			if t != up[class] {
				c.own, c.to = append(c.own, uint8(class)), append(c.to, t)
			}
		}
		if len(c.own) == from { // a list has one at least: one that its default has too
			c.own, c.to = append(c.own, c.rarest), append(c.to, row[c.rarest])
		}
		switch n := len(c.own) - from; {
		case n <= listMost:
			c.kind[s] = recordList
			return
		case mapWords(c.classes)+n < c.classes:
			c.kind[s] = recordMap
			return
		}
	}
	c.parent[s], c.own, c.to = -1, c.own[:from], c.to[:from]
	for class, t := range row {
		c.own, c.to = append(c.own, uint8(class)), append(c.to, t)
	}
}

// stored are the transitions of a state: their classes, ascending, and where they lead.
func (c *compressed) stored(s int) ([]uint8, []int32) {
	return c.own[c.first[s]:c.first[s+1]], c.to[c.first[s]:c.first[s+1]]
}

// isDead tells whether nothing leads out of a state and it finds nothing.
func (d *dfa) isDead(s int) bool {
	return !slices.ContainsFunc(d.row(s), func(t int32) bool { return int(t) != s }) && len(d.now[s]) == 0 && len(d.end[s]) == 0
}

// mapWords are those of a recordMap before its transitions.
func mapWords(classes int) int { return 1 + 2*((classes+31)/32) }

// classSizes are the bytes of each class. A tail's activation is one of none.
func (d *dfa) classSizes() (size [256]int) {
	for _, class := range d.classOf {
		size[class]++
	}
	return size
}

// transitions counts what is stored: over classes of bytes, and over bytes, each with the defaults.
func (c *compressed) transitions() (classes, bytes int) {
	size := c.classSizes()
	for s := range c.states() {
		if c.parent[s] < 0 {
			classes, bytes = classes+c.classes, bytes+256
			continue
		}
		classes, bytes = classes+1, bytes+1
		own, _ := c.stored(s)
		for _, class := range own {
			classes, bytes = classes+1, bytes+size[class]
		}
	}
	return classes, bytes
}

// longest counts the defaults in a row.
func (c *compressed) longest() int {
	most := 0
	for s := range c.states() {
		n := 0
		for p := c.parent[s]; p >= 0; p = c.parent[p] {
			n++
		}
		most = max(most, n)
	}
	return most
}

// write places the automaton and fills its group's entry at table. number turns what a state finds into a word.
func (c *compressed) write(m *tableimage.Image, table int, number func(int32) uint32) error {
	_, err := c.writeStates(m, table, number)
	return err
}

// writeStates is write that returns the words of the states too.
func (c *compressed) writeStates(m *tableimage.Image, table int, number func(int32) uint32) ([]uint32, error) {
	states := make([]uint32, c.states())   // words of the states
	defaults := make([]uint32, c.states()) // the same as a default: the dead state has a record there
	lists := map[string]int{}
	for s := range states {
		if c.dead[s] {
			defaults[s] = uint32(m.Place(c.classes, 1))
			continue
		}
		if len(c.now[s]) > 0 || len(c.end[s]) > 0 { // the word before a record tells where its lists are
			list := c.writeFound(m, s, lists, number)
			before := m.Place(1, 1)
			m.Words[before] = uint32(list)
		}
		at := m.Place(c.recordWords(s), 1)
		if at > wordPlace {
			return nil, fmt.Errorf("automaton of more than %d words", wordPlace)
		}
		states[s] = uint32(at) | uint32(c.kind[s])<<wordKind
		if len(c.now[s]) > 0 {
			states[s] |= wordFinds
		}
		if len(c.end[s]) > 0 {
			states[s] |= wordAtEnd
		}
		defaults[s] = states[s]
	}
	for s := range states {
		if !c.dead[s] {
			c.writeRecord(m.Words[states[s]&wordPlace:], s, states, defaults)
		}
	}
	classes := placeClasses(m, c.classOf)
	m.Words[table+groupClasses], m.Words[table+groupStart] = uint32(classes), states[c.start]
	return states, nil
}

// placeClasses places the class of each byte, a word each.
func placeClasses(m *tableimage.Image, of [256]uint8) int {
	at := m.Place(256, 1)
	for b, class := range of {
		m.Words[at+b] = uint32(class)
	}
	return at
}

func ones(mask uint32) uint32 { return uint32(bits.OnesCount32(mask)) }

func (c *compressed) recordWords(s int) int {
	own, _ := c.stored(s)
	switch c.kind[s] {
	case recordList:
		return 2 + len(own)
	case recordMap:
		return mapWords(c.classes) + len(own)
	}
	return c.classes
}

// writeFound places what a state finds: the numbers of both lists as halves of a word, then the lists. Equal ones are shared.
func (c *compressed) writeFound(m *tableimage.Image, s int, lists map[string]int, number func(int32) uint32) int {
	key := fmt.Sprint(c.now[s], c.end[s])
	at, ok := lists[key]
	if ok {
		return at
	}
	now, end := c.now[s], c.end[s]
	at = m.Place(1+len(now)+len(end), 1)
	m.Words[at] = uint32(len(now)) | uint32(len(end))<<16
	for i, id := range now {
		m.Words[at+1+i] = number(id)
	}
	for i, id := range end {
		m.Words[at+1+len(now)+i] = number(id)
	}
	m.Words[headReports] = max(m.Words[headReports], uint32(len(now)), uint32(len(end)))
	lists[key] = at
	return at
}

func (c *compressed) writeRecord(w []uint32, s int, states, defaults []uint32) {
	own, to := c.stored(s)
	switch c.kind[s] {
	case recordList:
		for i := range listMost { // the first transition again where there are fewer: the first that fits is taken
			class := own[0]
			if i < len(own) {
				class = own[i]
			}
			w[0] |= uint32(class) << (8 * i)
		}
		w[1] = defaults[c.parent[s]]
	case recordMap:
		w[0] = defaults[c.parent[s]]
		for _, class := range own {
			w[1+2*(class/32)] |= 1 << (class % 32)
		}
		before := uint32(mapWords(c.classes))
		for g := 0; g < (c.classes+31)/32; g++ {
			w[2+2*g] = before
			before += ones(w[1+2*g])
		}
	}
	first := c.recordWords(s) - len(own)
	for i, t := range to {
		w[first+i] = states[t]
	}
}
