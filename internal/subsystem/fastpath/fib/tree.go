// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"math/bits"
	"slices"
)

// node is a direct stage: 1<<stride blocks of addresses, each with a descriptor in the image at
// `word` plus its number. Prefixes that end within the stage are in short, longer ones in their
// block. The tree of nodes is the table's copy of its routes, laid out as the image is.
type node struct {
	base   uint64 // first key
	depth  uint8  // bits used by the stages above
	stride uint8
	level  uint8 // number of the stage below the root of its word; the image's root is 0
	word   uint32
	cover  hops   // what the prefixes above are worth here
	short  []hops // by 1<<n | bits for the prefix of n more bits than depth; 1 stands for depth itself
	blocks []block
	marked []uint64 // bit per block: it waits in table.dirty
	half   *half    // the second half of an IPv6 address this stage belongs to; nil in the first
	routes int      // in this stage and below
	built  int      // routes when it was built
	resize bool     // its size no longer fits its routes: build it anew
	gone   bool     // no longer in the tree
}

// block is what one descriptor stands for: either a list of routes, sorted, or a further stage.
type block struct {
	list []route
	next *node
}

// half is what lies inside one IPv6 /64: the prefixes longer than that, by their second 64 bits.
type half struct {
	key    uint64 // the /64
	top    block
	cover  hops   // what the descriptor was built for
	desc   uint32 // of top
	stale  bool   // desc must be built anew
	routes int
}

// spot is a block that waits to be built: blocks[i] of a node.
type spot struct {
	n *node
	i uint32
}

func newNode(base uint64, depth, stride, level uint8, h *half) *node {
	return &node{
		base: base, depth: depth, stride: stride, level: level, half: h,
		short:  make([]hops, 2<<stride),
		blocks: make([]block, 1<<stride),
		marked: make([]uint64, (1<<stride+63)/64),
	}
}

// end is how many bits are used after this stage.
func (n *node) end() uint8 { return n.depth + n.stride }

// index is the block that key falls into.
func (n *node) index(key uint64) uint32 {
	return uint32(key << n.depth >> (64 - n.stride))
}

// first is the lowest key of block i.
func (n *node) first(i uint32) uint64 {
	return n.base | uint64(i)<<(64-n.end())
}

// shortAt is the place in short of a prefix that ends within the stage.
func (n *node) shortAt(key uint64, length uint8) uint32 {
	more := length - n.depth
	return 1<<more | uint32(key<<n.depth>>1>>(63-more))
}

// worth is what the prefixes that end within the stage and above make of block i.
func (n *node) worth(i uint32) hops {
	var h hops
	for at := 1<<n.stride | i; at > 0; at >>= 1 {
		h = h.under(n.short[at])
		if h.main != 0 && h.local != 0 {
			return h
		}
	}
	return h.under(n.cover)
}

// edit changes one route of one class, next hop 0 taking it away. It returns what was there.
type edit struct {
	key   uint64
	bits  uint8
	local bool
	hop   uint16
}

// apply returns the new worth of a prefix and the next hop that the edit replaces.
func (e edit) apply(h hops) (hops, uint16) {
	old := h.main
	if e.local {
		old, h.local = h.local, e.hop
	} else {
		h.main = e.hop
	}
	return h, old
}

// count tells how the number of routes changes with an edit.
func (e edit) count(old uint16) int {
	switch {
	case old == 0 && e.hop != 0:
		return 1
	case old != 0 && e.hop == 0:
		return -1
	}
	return 0
}

// place finds the stage or list a prefix belongs to, starting at n: either the node in whose
// range of lengths it is, or node and block.
func place(n *node, key uint64, length uint8) (in *node, i uint32, inList bool) {
	for {
		if length <= n.end() {
			return n, 0, false
		}
		i = n.index(key)
		next := n.blocks[i].next
		if next == nil {
			return n, i, true
		}
		n = next
	}
}

// find returns where a route is in a sorted list, or belongs.
func find(list []route, key uint64, length uint8) (int, bool) {
	return slices.BinarySearchFunc(list, route{key: key, bits: length}, compareRoutes)
}

// change applies an edit to the tree below root and marks the blocks that it touches. It returns
// the next hop that was there.
func (t *table) change(root *node, e edit) uint16 {
	n, i, inList := place(root, e.key, e.bits)
	var old uint16
	if inList {
		b := &n.blocks[i]
		if b.list, old = editList(b.list, e); old != e.hop {
			t.mark(n, i)
		}
	} else {
		at := n.shortAt(e.key, e.bits)
		n.short[at], old = e.apply(n.short[at])
		if old != e.hop {
			first := n.index(e.key)
			for i := range uint32(1) << (n.end() - e.bits) {
				t.mark(n, first+i)
			}
		}
	}
	if d := e.count(old); d != 0 {
		t.countRoutes(root, n, e.key, d)
	}
	return old
}

// editList applies an edit to a sorted list.
func editList(list []route, e edit) ([]route, uint16) {
	at, found := find(list, e.key, e.bits)
	if !found {
		if e.hop == 0 {
			return list, 0
		}
		r := route{key: e.key, bits: e.bits}
		r.hops, _ = e.apply(r.hops)
		return slices.Insert(list, at, r), 0
	}
	r := &list[at]
	var old uint16
	if r.hops, old = e.apply(r.hops); r.hops == (hops{}) && !r.deep {
		list = slices.Delete(list, at, at+1)
		if len(list) == 0 {
			list = nil
		}
	}
	return list, old
}

// countRoutes adds d to every stage from root to n, and asks for a new build of the topmost that
// has outgrown its size or become too large for it. The root keeps its size.
func (t *table) countRoutes(root, n *node, key uint64, d int) {
	root.routes += d
	for above, asked := root, false; above != n; {
		i := above.index(key)
		s := above.blocks[i].next
		s.routes += d
		if !asked && s.misfit() {
			s.resize, asked = true, true
			t.mark(above, i)
		}
		above = s
	}
}

// misfit tells whether a stage has far more or fewer routes than it was built for.
func (n *node) misfit() bool {
	return n.routes > 4*n.built+64 || 4*n.routes < n.built || n.routes == 0
}

// mark notes that block i of n must be built.
func (t *table) mark(n *node, i uint32) {
	if n.marked[i>>6]&(1<<(i&63)) == 0 {
		n.marked[i>>6] |= 1 << (i & 63)
		t.dirty = append(t.dirty, spot{n, i})
	}
}

// gather appends every route of n and below, and leaves n empty.
func (n *node) gather(list []route) []route {
	for at, h := range n.short {
		if h == (hops{}) {
			continue
		}
		more := uint8(bits.Len(uint(at)) - 1)
		key := n.base
		if more > 0 {
			key |= uint64(at) << (64 - more) >> n.depth
		}
		list = append(list, route{key: key, bits: n.depth + more, hops: h})
	}
	for i := range n.blocks {
		b := &n.blocks[i]
		if b.next != nil {
			list = b.next.gather(list)
		}
		list = append(list, b.list...)
	}
	return list
}

// routesOf is every route of a block, sorted.
func (b *block) routes() []route {
	if b.next == nil {
		return b.list
	}
	list := b.next.gather(nil)
	slices.SortFunc(list, compareRoutes)
	return list
}
