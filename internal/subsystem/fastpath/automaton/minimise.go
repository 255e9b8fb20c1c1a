// SPDX-License-Identifier: Apache-2.0

package automaton

import "encoding/binary"

// minimised merges the states that nothing can tell apart, by Moore's refinement: blocks are split until
// all states of one agree about the blocks that their bytes lead to. States get numbers in breadth-first order, the start 0.
func (d *dfa) minimised() *dfa {
	block := d.byReport()
	count := -1
	key := make([]byte, 4*(d.classes+1))
	for {
		numbers := map[string]int32{}
		refined := make([]int32, d.states())
		for s := range refined {
			binary.LittleEndian.PutUint32(key, uint32(block[s]))
			for c, t := range d.row(s) {
				binary.LittleEndian.PutUint32(key[4*c+4:], uint32(block[t]))
			}
			n, ok := numbers[string(key)]
			if !ok {
				n = int32(len(numbers))
				numbers[string(key)] = n
			}
			refined[s] = n
		}
		block = refined
		if len(numbers) == count {
			return d.merged(block, count)
		}
		count = len(numbers)
	}
}

// byReport puts states that find the same into one block.
func (d *dfa) byReport() []int32 {
	numbers := map[string]int32{}
	block := make([]int32, d.states())
	var key []byte
	for s := range block {
		key = key[:0]
		for _, id := range d.now[s] {
			key = binary.AppendVarint(key, int64(id))
		}
		key = append(key, 0xff, 0xff)
		for _, id := range d.end[s] {
			key = binary.AppendVarint(key, int64(id))
		}
		n, ok := numbers[string(key)]
		if !ok {
			n = int32(len(numbers))
			numbers[string(key)] = n
		}
		block[s] = n
	}
	return block
}

// merged makes each block one state.
func (d *dfa) merged(block []int32, count int) *dfa {
	number := make([]int32, count) // of a block, plus 1
	var order []int32              // a state of each block
	visit := func(s int32) int32 {
		b := block[s]
		if number[b] == 0 {
			order = append(order, s)
			number[b] = int32(len(order))
		}
		return number[b] - 1
	}
	visit(d.start)
	m := &dfa{classOf: d.classOf, classes: d.classes}
	for i := 0; i < len(order); i++ {
		s := order[i]
		for _, t := range d.row(int(s)) {
			m.next = append(m.next, visit(t))
		}
		m.now = append(m.now, d.now[s])
		m.end = append(m.end, d.end[s])
	}
	return m
}
