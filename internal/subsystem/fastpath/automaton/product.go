// SPDX-License-Identifier: Apache-2.0

package automaton

import "slices"

// Products of deterministic automata. One that finds the patterns of two others is in a state for each pair of theirs
// that can come together. Where both are minimal, so is it: two of its states differ in a state of one of
// the two, and what tells those apart is a word after which they report one of their own patterns, which the other
// automaton never does. So patterns are determinized and minimised one by one, which is quick, and then put together
// without a word about NFAs; an attempt that explodes costs little.

// pairs numbers keys, such as pairs of states: a hash table, open, without deletion.
type pairs struct {
	keys  []uint64 // 0 is free
	value []int32
	used  int
}

func newPairs() *pairs { return &pairs{keys: make([]uint64, 1024), value: make([]int32, 1024)} }

// pairKey is never 0.
func pairKey(a, b int32) uint64 { return (uint64(a)<<32 | uint64(b)) + 1 }

// slot is where a key is or would be.
func (p *pairs) slot(key uint64) int {
	mask := len(p.keys) - 1
	i := int(key*0x9e3779b97f4a7c15>>32) & mask
	for p.keys[i] != 0 && p.keys[i] != key {
		i = (i + 1) & mask
	}
	return i
}

// number is that of a key, or next if it is new.
func (p *pairs) number(key uint64, next int32) int32 {
	i := p.slot(key)
	if p.keys[i] == key {
		return p.value[i]
	}
	if p.used++; 2*p.used > len(p.keys) {
		old := *p
		*p = pairs{make([]uint64, 4*len(old.keys)), make([]int32, 4*len(old.keys)), old.used}
		for j, k := range old.keys {
			if k != 0 {
				at := p.slot(k)
				p.keys[at], p.value[at] = k, old.value[j]
			}
		}
		i = p.slot(key)
	}
	p.keys[i], p.value[i] = key, next
	return next
}

// multiplier makes products one after the other in the same memory.
type multiplier struct {
	limit bounds
	known *pairs
	order [][2]int32 // states of the factors, by state of the product
	next  []int32
}

// product is the automaton that finds what two find, which have no pattern in common. States get numbers in breadth-first
// order.
func (m *multiplier) product(a, b *dfa) (*dfa, error) {
	p := &dfa{}
	classes := p.combine(a, b)
	m.known, m.order, m.next = newPairs(), append(m.order[:0], [2]int32{a.start, b.start}), m.next[:0]
	m.known.number(pairKey(a.start, b.start), 0)
	for at := 0; at < len(m.order); at++ {
		s := m.order[at]
		rowA, rowB := a.row(int(s[0])), b.row(int(s[1]))
		for _, c := range classes {
			to := [2]int32{rowA[c[0]], rowB[c[1]]}
			n := m.known.number(pairKey(to[0], to[1]), int32(len(m.order)))
			if int(n) == len(m.order) {
				m.order = append(m.order, to)
			}
			m.next = append(m.next, n)
		}
		if bytes := 4 * len(m.order) * p.classes; len(m.order) > m.limit.states || bytes > m.limit.bytes {
			return nil, &ErrExplodes{len(m.order), m.limit.states, bytes, m.limit.bytes}
		}
	}
	p.next = slices.Clone(m.next)
	p.now, p.end = make([][]int32, len(m.order)), make([][]int32, len(m.order))
	for at, s := range m.order {
		p.now[at] = union(a.now[s[0]], b.now[s[1]])
		p.end[at] = union(a.end[s[0]], b.end[s[1]])
	}
	return p, nil
}

// combine makes the classes of bytes that a or b tells apart, in the order of their first bytes, and returns those of a and b that
// each lies in.
func (d *dfa) combine(a, b *dfa) [][2]uint8 {
	var classes [][2]uint8
	for v := range 256 {
		both := [2]uint8{a.classOf[v], b.classOf[v]}
		at := slices.Index(classes, both)
		if at < 0 {
			at = len(classes)
			classes = append(classes, both)
		}
		d.classOf[v] = uint8(at)
	}
	d.classes = len(classes)
	return classes
}

// union is an ascending list of two that have nothing in common.
func union(a, b []int32) []int32 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return all
}
