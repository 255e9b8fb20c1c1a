// SPDX-License-Identifier: Apache-2.0

package automaton

// node is a part of a parsed pattern.
type node interface{}

type (
	// bytesNode takes one byte of a set.
	bytesNode struct{ set byteSet }
	// concatNode takes its parts one after the other; none at all is the empty string.
	concatNode struct{ parts []node }
	// choiceNode takes one of its parts.
	choiceNode struct{ parts []node }
	// repeatNode takes its part from min to max times.
	repeatNode struct {
		part     node
		min, max int // max −1: no bound
	}
	// behindNode takes nothing and holds where the byte before is in a set, or, if start, at the start of the stream.
	behindNode struct {
		set   byteSet
		start bool
	}
	// aheadNode takes nothing and holds where the next byte is in a set, or, if end, at the end of the stream.
	aheadNode struct {
		set byteSet
		end bool
	}
)

// The anchors of PCRE as conditions about the byte before and the one behind.
var (
	startOfData = behindNode{start: true}
	startOfLine = behindNode{set: newline, start: true}
	endOfData   = aheadNode{end: true}
	endOfLine   = aheadNode{set: newline, end: true}
	// finalEnd is PCRE's $: the end, or the line feed before it. Right only where nothing follows, since it may take that line feed.
	finalEnd = choiceNode{[]node{endOfData, concatNode{[]node{bytesNode{newline}, endOfData}}}}

	wordBoundary = choiceNode{[]node{
		concatNode{[]node{behindNode{set: word}, aheadNode{word.not(), true}}},
		concatNode{[]node{behindNode{word.not(), true}, aheadNode{set: word}}},
	}}
	noWordBoundary = choiceNode{[]node{
		concatNode{[]node{behindNode{set: word}, aheadNode{set: word}}},
		concatNode{[]node{behindNode{word.not(), true}, aheadNode{word.not(), true}}},
	}}
)

// finalNode marks PCRE's $ until the parser has seen that nothing follows it.
type finalNode struct{ column int }

// settled replaces every finalNode. It returns the column of one that something may follow.
func settled(n node, last bool) (node, int) {
	switch n := n.(type) {
	case finalNode:
		if !last {
			return nil, n.column
		}
		return finalEnd, 0
	case concatNode:
		parts := make([]node, len(n.parts))
		for i, p := range n.parts {
			s, column := settled(p, last && i == len(n.parts)-1)
			if column > 0 {
				return nil, column
			}
			parts[i] = s
		}
		return concatNode{parts}, 0
	case choiceNode:
		parts := make([]node, len(n.parts))
		for i, p := range n.parts {
			s, column := settled(p, last)
			if column > 0 {
				return nil, column
			}
			parts[i] = s
		}
		return choiceNode{parts}, 0
	case repeatNode:
		s, column := settled(n.part, last && n.max == 1)
		n.part = s
		return n, column
	}
	return n, 0
}
