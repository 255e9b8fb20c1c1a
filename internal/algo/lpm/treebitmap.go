// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"fmt"
	"math/bits"

	"minne/internal/algo/image"
)

// The shape of a tree bitmap: ALGO_TBM_ of bpf/algo/treebitmap.h.
const (
	tbmRootBits   = 13
	tbmStride     = 6
	tbmFan        = 1 << tbmStride
	tbmRoot       = image.HeadEnd
	tbmInnerWords = 9
	tbmEndWords   = 3

	tbmKindShift = 29
	tbmResult    = 0
	tbmEnd       = 1
	tbmInner     = 2
	tbmWide      = 1 << 31
)

// Words of the header, from image.HeadOwn on, of both structures; for whoever tells about a table.
const (
	headFamily  = image.HeadOwn
	headRoutes  = image.HeadOwn + 1 // that decide something
	headNodes   = image.HeadOwn + 2
	headEnds    = image.HeadOwn + 3 // nodes without children, when they are kept apart
	headResults = image.HeadOwn + 4
	headWide    = image.HeadOwn + 5 // 1: next hops of 32 bits
)

// tbm is a tree bitmap in the making. Places in inner and ends count from their own beginning until link.
type tbm struct {
	inner, ends []uint32
	results     []uint32
}

// TreeBitmap compiles the routes of a family into a tree bitmap.
func TreeBitmap(f Family, routes []Route) (*image.Image, error) {
	all, err := entries(f, routes)
	if err != nil {
		return nil, fmt.Errorf("tree bitmap: %w", err)
	}
	b := &tbm{}
	root := make([]uint32, 1<<tbmRootBits)
	rest := all
	best := make([]uint32, len(root)) // next hop of the short prefixes
	for len(rest) > 0 {
		e := rest[0]
		at := e.bitsAt(0, tbmRootBits)
		if e.bits < tbmRootBits {
			for i := range uint32(1) << (tbmRootBits - e.bits) {
				best[at+i] = e.hop
			}
			rest = rest[1:]
			continue
		}
		n := group(rest, 0, tbmRootBits)
		root[at] = b.child(rest[:n], tbmRootBits, best[at])
		rest = rest[n:]
	}
	for i, desc := range root {
		if desc == 0 { // no child has the place 0 and kind 0
			root[i] = b.result(best[i])
		}
	}
	return b.link(f, root, all)
}

// group returns how many of the first entries share the n bits at a depth.
func group(rest []entry, depth, n int) int {
	first := rest[0].bitsAt(depth, n)
	i := 1
	for i < len(rest) && int(rest[i].bits) >= depth+n && rest[i].bitsAt(depth, n) == first {
		i++
	}
	return i
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

// child makes one node and says where it is.
func (b *tbm) child(rest []entry, depth int, inherited uint32) uint32 {
	if isEnd(rest, depth) {
		at := b.moreEnds(1)
		b.fillEnd(at, rest, depth, inherited)
		return tbmEnd<<tbmKindShift | uint32(at)
	}
	at := b.moreInner(1)
	b.fillInner(at, rest, depth, inherited)
	return tbmInner<<tbmKindShift | uint32(at)
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

// result adds a next hop and says where it is, as the number of the next hop.
func (b *tbm) result(hop uint32) uint32 {
	if n := len(b.results); n == 0 || b.results[n-1] != hop {
		b.results = append(b.results, hop)
	}
	return uint32(len(b.results) - 1)
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
func (b *tbm) link(f Family, root []uint32, all []entry) (*image.Image, error) {
	m := image.New(image.TreeBitmap)
	wide := wide(all)
	m.Place(len(root), 1)
	inner := uint32(m.Place(len(b.inner), 1))
	ends := uint32(m.Place(len(b.ends), 1))
	results := placeResults(m, b.results, wide)
	var flag uint32
	if wide {
		flag = tbmWide
	}
	for i, desc := range root {
		at := desc & (1<<tbmKindShift - 1)
		switch desc >> tbmKindShift {
		case tbmResult:
			at = at + results | flag
		case tbmEnd:
			at += ends
		case tbmInner:
			at += inner
		}
		m.Words[tbmRoot+i] = desc&^(1<<tbmKindShift-1) | at
	}
	for i := 0; i < len(b.inner); i += tbmInnerWords {
		node := b.inner[i : i+tbmInnerWords]
		node[2] += inner
		node[5] += ends
		node[8] = node[8] + results | flag
	}
	for i := 0; i < len(b.ends); i += tbmEndWords {
		b.ends[i+2] = b.ends[i+2] + results | flag
	}
	copy(m.Words[inner:], b.inner)
	copy(m.Words[ends:], b.ends)
	own := m.Words
	own[headFamily], own[headRoutes] = uint32(f), uint32(len(all))
	own[headNodes], own[headEnds] = uint32(len(b.inner)/tbmInnerWords), uint32(len(b.ends)/tbmEndWords)
	own[headResults] = uint32(len(b.results))
	if wide {
		own[headWide] = 1
	}
	if err := m.Seal(); err != nil {
		return nil, fmt.Errorf("tree bitmap: %w", err)
	}
	return m, nil
}

// placeResults writes next hops, two to a word, the first in the lower half, or one when they are wide. It returns the number
// of the first one, counted in next hops from the beginning of the image.
func placeResults(m *image.Image, hops []uint32, wide bool) uint32 {
	if wide {
		at := m.Place(len(hops), 1)
		copy(m.Words[at:], hops)
		return uint32(at)
	}
	at := m.Place((len(hops)+1)/2, 1)
	for i, hop := range hops {
		m.Words[at+i/2] |= hop << (16 * (i & 1))
	}
	return uint32(2 * at)
}
