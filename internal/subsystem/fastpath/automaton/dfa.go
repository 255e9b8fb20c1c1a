// SPDX-License-Identifier: Apache-2.0

package automaton

// dfa is a deterministic automaton over classes of bytes.
type dfa struct {
	classOf [256]uint8
	classes int
	start   int32
	next    []int32   // of state s by class c: next[s·classes + c]
	now     [][]int32 // what a state finds, ascending: patterns, and borders as borderMark
	end     [][]int32 // what it finds besides if the stream ends there
}

func (d *dfa) states() int { return len(d.now) }

func (d *dfa) row(s int) []int32 { return d.next[s*d.classes : (s+1)*d.classes] }
