// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"fmt"
	"math/bits"

	"minne/internal/subsystem/fastpath/tableimage"
)

// The shape of a tree bitmap: ALGO_TBM_ of bpf/algo/treebitmap.h.
const (
	tbmStride     = 6
	tbmFan        = 1 << tbmStride
	tbmInnerWords = 9
	tbmEndWords   = 3
)

// tbm is a tree bitmap in the making. Places in inner and ends count from their own beginning until link.
type tbm struct {
	inner, ends []uint32
	results     []uint32
}

// TreeBitmap compiles the routes of a family into a tree bitmap.
func TreeBitmap(f Family, routes []Route) (*tableimage.Image, error) {
	all, err := entries(f, routes)
	if err != nil {
		return nil, fmt.Errorf("tree bitmap: %w", err)
	}
	b := &tbm{}
	node := func(rest []entry, inherited uint32) uint32 {
		at := b.moreInner(1)
		b.fillInner(at, rest, rootBits, inherited)
		return uint32(at)
	}
	empty := map[uint32]uint32{} // nodes that hold nothing but what is above them, by next hop
	root := rootOf(all, node, func(hop uint32) uint32 {
		at, made := empty[hop]
		if !made {
			at = node(nil, hop)
			empty[hop] = at
		}
		return at
	})
	return b.link(f, root, all)
}

// isEnd is whether a node at a depth needs no children for its entries.
func isEnd(rest []entry, depth int) bool {
	for _, e := range rest {
		if int(e.bits) >= depth+tbmStride {
			return false
		}
	}
	return true
}

func (b *tbm) moreEnds(n int) int {
	at := len(b.ends)
	b.ends = append(b.ends, make([]uint32, n*tbmEndWords)...)
	return at
}

func (b *tbm) moreInner(n int) int {
	at := len(b.inner)
	b.inner = append(b.inner, make([]uint32, n*tbmInnerWords)...)
	return at
}

// internal collects the prefixes that end in a node: their bitmap and next hops, and which one is the best for
// each of its children.
type internal struct {
	set  uint64
	hop  [tbmFan]uint32
	best [tbmFan]uint32
}

// internalBits[n] is where the bits of prefixes of n bits begin in an internal bitmap: longer ones come before
// shorter ones, so the lowest bit is the longest match.
var internalBits = [tbmStride]int{5: 0, 4: 32, 3: 48, 2: 56, 1: 60, 0: 62}

// add puts in a prefix that ends in a node at a depth. One around another comes before it.
func (n *internal) add(e entry, depth int) {
	length := int(e.bits) - depth
	v := 0
	if length > 0 {
		v = int(e.bitsAt(depth, length))
	}
	at := internalBits[length] + v
	n.set |= 1 << at
	n.hop[at] = e.hop
	free := tbmStride - length
	for i := range 1 << free {
		n.best[v<<free+i] = e.hop
	}
}

// write writes the words of a node that every node has, and its results.
func (n *internal) write(b *tbm, node []uint32) {
	node[0], node[1], node[2] = uint32(n.set), uint32(n.set>>32), uint32(len(b.results))
	for set := n.set; set != 0; set &= set - 1 {
		b.results = append(b.results, n.hop[bits.TrailingZeros64(set)])
	}
}

// start makes a prefix of no bits, for what the nodes above know: so every node answers for itself.
func (n *internal) start(inherited uint32) {
	at := internalBits[0]
	n.set = 1 << at
	n.hop[at] = inherited
	for i := range n.best {
		n.best[i] = inherited
	}
}

func (b *tbm) fillEnd(at int, rest []entry, depth int, inherited uint32) {
	var n internal
	n.start(inherited)
	for _, e := range rest {
		n.add(e, depth)
	}
	n.write(b, b.ends[at:at+tbmEndWords])
}

func (b *tbm) fillInner(at int, rest []entry, depth int, inherited uint32) {
	var n internal
	n.start(inherited)
	var inner, ends []below
	var innerSet, endSet uint64
	for len(rest) > 0 {
		if e := rest[0]; int(e.bits) < depth+tbmStride {
			n.add(e, depth)
			rest = rest[1:]
			continue
		}
		v := rest[0].bitsAt(depth, tbmStride)
		size := group(rest, depth, tbmStride)
		f := below{rest[:size], n.best[v]}
		if isEnd(f.entries, depth+tbmStride) {
			ends, endSet = append(ends, f), endSet|1<<v
		} else {
			inner, innerSet = append(inner, f), innerSet|1<<v
		}
		rest = rest[size:]
	}
	firstInner, firstEnd := b.moreInner(len(inner)), b.moreEnds(len(ends))
	node := b.inner[at : at+tbmInnerWords]
	node[0], node[1], node[2] = uint32(innerSet), uint32(innerSet>>32), uint32(firstInner)
	node[3], node[4], node[5] = uint32(endSet), uint32(endSet>>32), uint32(firstEnd)
	n.write(b, node[6:])
	for i, f := range ends {
		b.fillEnd(firstEnd+i*tbmEndWords, f.entries, depth+tbmStride, f.inherited)
	}
	for i, f := range inner {
		b.fillInner(firstInner+i*tbmInnerWords, f.entries, depth+tbmStride, f.inherited)
	}
}

// below is what lies below a child, and the best next hop above it.
type below struct {
	entries   []entry
	inherited uint32
}

// link puts the parts behind each other and makes places count from the beginning of the image.
func (b *tbm) link(f Family, root []uint32, all []entry) (*tableimage.Image, error) {
	m := tableimage.New(tableimage.TreeBitmap)
	m.Place(len(root), 1)
	inner := uint32(m.Place(len(b.inner), 1))
	ends := uint32(m.Place(len(b.ends), 1))
	results := placeResults(m, b.results, wide(all))
	for i, at := range root {
		m.Words[rootAt+i] = at + inner
	}
	for i := 0; i < len(b.inner); i += tbmInnerWords {
		b.inner[i+2] += inner
		b.inner[i+5] += ends
		b.inner[i+8] += results
	}
	for i := 0; i < len(b.ends); i += tbmEndWords {
		b.ends[i+2] += results
	}
	copy(m.Words[inner:], b.inner)
	copy(m.Words[ends:], b.ends)
	describe(m, f, all)
	m.Words[headNodes], m.Words[headEnds] = uint32(len(b.inner)/tbmInnerWords), uint32(len(b.ends)/tbmEndWords)
	m.Words[headResults] = uint32(len(b.results))
	if err := m.Seal(); err != nil {
		return nil, fmt.Errorf("tree bitmap: %w", err)
	}
	return m, nil
}
