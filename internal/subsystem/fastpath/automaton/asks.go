// SPDX-License-Identifier: Apache-2.0

package automaton

import "slices"

// AsksForEnd says whether a pattern has a place where only the end of the stream fits: \z, \Z, or $
// without /m. Who searches streams whose end nobody tells can't find it.
func (p Pattern) AsksForEnd() bool { return asksForEnd(p.root) }

func asksForEnd(n node) bool {
	switch n := n.(type) {
	case aheadNode:
		return n == endOfData
	case concatNode:
		return anyAsks(n.parts)
	case choiceNode:
		return anyAsks(n.parts)
	case repeatNode:
		return n.max != 0 && asksForEnd(n.part)
	}
	return false
}

func anyAsks(parts []node) bool {
	return slices.ContainsFunc(parts, asksForEnd)
}
