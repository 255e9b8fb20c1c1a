// SPDX-License-Identifier: Apache-2.0

package automaton

import "slices"

// literalDFA builds the DFA of those of the patterns that ids tell, byte strings, as Aho and Corasick do (CACM 1975): a trie
// whose states fall back to that of their longest proper suffix. It is the DFA that subset
// construction makes, in time proportional to its table.
func literalDFA(patterns []Pattern, ids []int32, limit bounds) (*dfa, error) {
	d := &dfa{}
	used := byteSet{}
	for _, id := range ids {
		for _, b := range patterns[id].Literal {
			used.add(b)
		}
	}
	d.classOf, d.classes = literalClasses(used)
	add := func() (int32, error) {
		for range d.classes {
			d.next = append(d.next, -1)
		}
		d.now, d.end = append(d.now, nil), append(d.end, nil)
		if d.states() > limit.states || 4*len(d.next) > limit.bytes {
			return 0, &ErrExplodes{d.states(), limit.states, 4 * len(d.next), limit.bytes}
		}
		return int32(d.states() - 1), nil
	}
	if _, err := add(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		at := int32(0)
		for _, b := range patterns[id].Literal {
			c := int(d.classOf[b])
			if d.row(int(at))[c] < 0 {
				s, err := add()
				if err != nil {
					return nil, err
				}
				d.row(int(at))[c] = s
			}
			at = d.row(int(at))[c]
		}
		d.now[at] = append(d.now[at], id)
	}
	d.fallBack()
	return d, nil
}

// literalClasses gives every byte in use a class of its own and the others one together.
func literalClasses(used byteSet) (of [256]uint8, classes int) {
	for b := range 256 {
		if used.has(byte(b)) {
			of[b] = uint8(classes)
			classes++
		}
	}
	if classes == 256 {
		return of, classes
	}
	for b := range 256 {
		if !used.has(byte(b)) {
			of[b] = uint8(classes)
		}
	}
	return of, classes + 1
}

// fallBack fills the transitions that the trie lacks, breadth first.
func (d *dfa) fallBack() {
	fail := make([]int32, d.states())
	var queue []int32
	for c, t := range d.row(0) {
		if t < 0 {
			d.row(0)[c] = 0
		} else {
			queue = append(queue, t)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		back := d.row(int(fail[s]))
		d.now[s] = append(d.now[s], d.now[fail[s]]...)
		slices.Sort(d.now[s])
		for c, t := range d.row(int(s)) {
			if t < 0 {
				d.row(int(s))[c] = back[c]
			} else {
				fail[t] = back[c]
				queue = append(queue, t)
			}
		}
	}
}
