// SPDX-License-Identifier: Apache-2.0

package automaton

import "slices"

// instKind says what an instruction of an nfa does.
type instKind uint8

const (
	instBytes  instKind = iota // takes a byte of set, then out
	instBehind                 // goes on to out if the byte before is in set, or at the start if edge
	instAhead                  // goes on to out if the next byte is in set, or at the end if edge
	instSplit                  // goes on to out and to alt
	instMatch                  // pattern id is found
	instBorder                 // the head's construction stops here: tail id goes on at out
)

// inst is a state of Thompson's construction (CACM 1968), with assertions.
type inst struct {
	kind     instKind
	edge     bool
	set      byteSet
	out, alt int32
	id       int32 // of the pattern it belongs to
}

// nfa holds all patterns of an automaton. What is behind its splits is found once and
// kept in follow, so that subset construction handles the other instructions only.
type nfa struct {
	insts   []inst
	entries []int32   // of the patterns
	follow  [][]int32 // of an instruction: those that out leads to without a byte, splits resolved
}

// thresholds say which repeats become borders.
type thresholds struct {
	width int // * and + over at least so many bytes
	count int // counted repeats of at least so many times …
	span  int // … over at least so many bytes
}

// noBorders compiles a plain NFA.
var noBorders = thresholds{width: 257, span: 257}

type compiler struct {
	nfa
	id     int32
	limits thresholds
}

// compileNFA makes one NFA of patterns; ids are their numbers.
func compileNFA(roots []node, ids []int32, limits thresholds) *nfa {
	c := compiler{limits: limits}
	for i, root := range roots {
		c.id = ids[i]
		match := c.add(inst{kind: instMatch})
		c.entries = append(c.entries, c.part(trimmed(root), match, true))
	}
	c.dropWrongBorders()
	c.findFollow()
	return &c.nfa
}

func (n *nfa) findFollow() {
	n.follow = make([][]int32, len(n.insts))
	seen := make([]int32, len(n.insts))
	for i := range n.insts {
		switch n.insts[i].kind {
		case instBytes, instBehind, instAhead, instBorder:
			n.follow[i] = n.reach(nil, n.insts[i].out, seen, int32(i)+1)
		}
	}
}

func (c *compiler) add(i inst) int32 {
	i.id = c.id
	c.insts = append(c.insts, i)
	return int32(len(c.insts) - 1)
}

// part writes n in front of out and returns where it begins. lead: nothing of the pattern is before it.
func (c *compiler) part(n node, out int32, lead bool) int32 {
	switch n := n.(type) {
	case bytesNode:
		return c.add(inst{kind: instBytes, set: n.set, out: out})
	case behindNode:
		return c.add(inst{kind: instBehind, set: n.set, edge: n.start, out: out})
	case aheadNode:
		return c.add(inst{kind: instAhead, set: n.set, edge: n.end, out: out})
	case concatNode:
		for i := len(n.parts) - 1; i >= 0; i-- {
			out = c.part(n.parts[i], out, lead && i == 0)
		}
		return out
	case choiceNode:
		first := c.part(n.parts[len(n.parts)-1], out, lead)
		for i := len(n.parts) - 2; i >= 0; i-- {
			first = c.add(inst{kind: instSplit, out: c.part(n.parts[i], out, lead), alt: first})
		}
		return first
	case repeatNode:
		first := c.repeat(n, out)
		if c.limits.explode(n, lead) {
			first = c.add(inst{kind: instBorder, out: first})
		}
		return first
	}
	return out
}

// repeat writes a repeat out: x{2,4} as xx(x(x)?)?, x{2,} as xx+.
func (c *compiler) repeat(n repeatNode, out int32) int32 {
	first, copies := out, n.min
	switch {
	case n.max < 0:
		split := c.add(inst{kind: instSplit, alt: out})
		entry := c.part(n.part, split, false)
		c.insts[split].out = entry
		first = split
		if copies > 0 {
			first, copies = entry, copies-1
		}
	default:
		for range n.max - n.min {
			first = c.add(inst{kind: instSplit, out: c.part(n.part, first, false), alt: out})
		}
	}
	for range copies {
		first = c.part(n.part, first, false)
	}
	return first
}

// explode tells whether a repeat is to be a border: while it waits for its end, many others may begin and end.
func (t thresholds) explode(n repeatNode, lead bool) bool {
	if n.max < 0 && n.min < t.count {
		return !lead && widest(n.part) >= t.width
	}
	return max(n.min, n.max) >= t.count && widest(n.part) >= t.span
}

// wild tells whether a pattern has a repeat that would become a border.
func (t thresholds) wild(n node, lead bool) bool {
	switch n := n.(type) {
	case repeatNode:
		return t.explode(n, lead) || t.wild(n.part, false)
	case choiceNode:
		return slices.ContainsFunc(n.parts, func(p node) bool { return t.wild(p, lead) })
	case concatNode:
		for i, p := range n.parts {
			if t.wild(p, lead && i == 0) {
				return true
			}
		}
	}
	return false
}

// widest is the size of the largest set of bytes in a part.
func widest(n node) int {
	most := 0
	switch n := n.(type) {
	case bytesNode:
		return n.set.size()
	case repeatNode:
		return widest(n.part)
	case concatNode:
		for _, p := range n.parts {
			most = max(most, widest(p))
		}
	case choiceNode:
		for _, p := range n.parts {
			most = max(most, widest(p))
		}
	}
	return most
}

// trimmed takes away what may be empty at the end of a pattern: it matches without that already.
func trimmed(n node) node {
	switch n := n.(type) {
	case concatNode:
		parts := n.parts
		for len(parts) > 0 && nullable(parts[len(parts)-1]) {
			parts = parts[:len(parts)-1]
		}
		if len(parts) == 0 {
			return concatNode{}
		}
		last := trimmed(parts[len(parts)-1])
		return concatNode{append(slices.Clone(parts[:len(parts)-1]), last)}
	case repeatNode:
		if n.min == 0 {
			return concatNode{}
		}
		return repeatNode{n.part, n.min, n.min}
	}
	return n
}

// nullable tells whether a part always matches the empty string too.
func nullable(n node) bool {
	switch n := n.(type) {
	case repeatNode:
		return n.min == 0 || nullable(n.part)
	case concatNode:
		return !slices.ContainsFunc(n.parts, func(p node) bool { return !nullable(p) })
	case choiceNode:
		return slices.ContainsFunc(n.parts, nullable)
	}
	return false
}

// dropWrongBorders takes away the borders that the moment after a byte can't decide: behind an assertion
// about the next byte, or with one about the byte before behind them.
func (n *nfa) dropWrongBorders() {
	seen := make([]int32, len(n.insts))
	stamp := int32(0)
	for i := range n.insts {
		if n.insts[i].kind == instBorder {
			stamp++
			for _, j := range n.reach(nil, n.insts[i].out, seen, stamp) {
				if n.insts[j].kind == instBehind {
					n.passBorder(int32(i))
					break
				}
			}
		}
	}
	for i := range n.insts {
		if n.insts[i].kind == instAhead {
			stamp++
			for _, j := range n.reach(nil, n.insts[i].out, seen, stamp) {
				if n.insts[j].kind == instBorder {
					n.passBorder(j)
				}
			}
		}
	}
}

// passBorder makes a border a way through.
func (n *nfa) passBorder(i int32) {
	n.insts[i].kind, n.insts[i].alt = instSplit, n.insts[i].out
}

// reach appends the instructions other than splits that from leads to.
func (n *nfa) reach(list []int32, from int32, seen []int32, stamp int32) []int32 {
	stack := []int32{from}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[i] == stamp {
			continue
		}
		seen[i] = stamp
		if n.insts[i].kind == instSplit {
			stack = append(stack, n.insts[i].alt, n.insts[i].out)
			continue
		}
		list = append(list, i)
	}
	return list
}

// behindAfterAhead finds a pattern that asserts something about the byte before right behind an assertion about the next: its number, or −1.
func (n *nfa) behindAfterAhead() int32 {
	for i := range n.insts {
		if n.insts[i].kind != instAhead {
			continue
		}
		for _, j := range n.follow[i] {
			if n.insts[j].kind == instBehind {
				return n.insts[i].id
			}
		}
	}
	return -1
}

// classes maps bytes to classes that no instruction tells apart. representative has a byte of each.
func (n *nfa) classes() (of [256]uint8, representative []byte) {
	sets := map[byteSet]bool{}
	for i := range n.insts {
		if n.insts[i].kind <= instAhead {
			sets[n.insts[i].set] = true
		}
	}
	count := 1
	for s := range sets {
		type half struct {
			class uint8
			in    bool
		}
		split := map[half]uint8{}
		firstOf := make([]int, count) // 1: outside came first, 2: inside
		for b := range 256 {
			h := half{of[b], s.has(byte(b))}
			if _, ok := split[h]; ok {
				continue
			}
			if firstOf[h.class] == 0 {
				firstOf[h.class] = 1
				split[h] = h.class
			} else {
				split[h] = uint8(count)
				count++
			}
		}
		for b := range 256 {
			of[b] = split[half{of[b], s.has(byte(b))}]
		}
	}
	return renumbered(of, count)
}

// renumbered gives the classes numbers in the order of their first bytes, which makes builds repeatable.
func renumbered(of [256]uint8, count int) ([256]uint8, []byte) {
	number := make([]int, count)
	var representative []byte
	for b := range 256 {
		if number[of[b]] == 0 {
			representative = append(representative, byte(b))
			number[of[b]] = len(representative)
		}
		of[b] = uint8(number[of[b]] - 1)
	}
	return of, representative
}
