// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"fmt"
	"math/bits"

	"minne/internal/subsystem/fastpath/tableimage"
)

// The shape of a shape-shifting trie: ALGO_SST_ of bpf/algo/shapeshifting.h.
const (
	sstSize      = 31
	sstNodeWords = 5
	sstNode      = 1 << 30 // a root's word is the place of a node
)

// point is a node of the binary trie.
type point struct {
	child [2]int32 // 0: none
	hop   uint32
	ends  bool  // a prefix ends here; its next hop may be 0, for what there is above
	cut   bool  // a node of the shape-shifting trie begins here
	pass  uint8 // in which it was pruned
	// size is how many points its node has, itself included and from here on down; once cut, of the whole node.
	size   uint8
	routes int32 // here and below
}

// sst is a shape-shifting trie in the making.
type sst struct {
	points []point
	m      *tableimage.Image
	wide   bool
	nodes  uint32
	hops   uint32
}

// ShapeShifting compiles the routes of a family into a shape-shifting trie. It takes the binary trie
// apart by the paper's breadth-first pruning, which makes the fewest levels that are possible, and then lets nodes
// take in the ones below that they have room for, those with most routes first.
func ShapeShifting(f Family, routes []Route) (*tableimage.Image, error) {
	all, err := entries(f, routes)
	if err != nil {
		return nil, fmt.Errorf("shape-shifting trie: %w", err)
	}
	b := &sst{points: make([]point, 1, 1+5*len(all)/2), m: tableimage.New(tableimage.ShapeShifting), wide: wide(all)}
	at := b.m.Place(1<<rootBits, 1)
	var results []uint32
	root := rootOf(all, func(rest []entry, inherited uint32) uint32 {
		return sstNode | uint32(b.grow(rest, inherited))
	}, func(hop uint32) uint32 {
		if n := len(results); n == 0 || results[n-1] != hop {
			results = append(results, hop)
		}
		return uint32(len(results) - 1)
	})
	b.prune(root)
	first := placeResults(b.m, results, b.wide)
	for i, desc := range root {
		if desc&sstNode == 0 {
			b.m.Words[at+i] = desc + first
			continue
		}
		node := b.m.Place(sstNodeWords, 1)
		b.m.Words[at+i] = sstNode | uint32(node)
		b.write(node, int32(desc&^sstNode))
	}
	describe(b.m, f, all)
	b.m.Words[headNodes], b.m.Words[headResults] = b.nodes, b.hops+uint32(len(results))
	if err := b.m.Seal(); err != nil {
		return nil, fmt.Errorf("shape-shifting trie: %w", err)
	}
	return b.m, nil
}

// grow adds the binary trie of the routes below a word of the root and returns its top.
func (b *sst) grow(rest []entry, inherited uint32) int32 {
	top := b.point()
	b.points[top].hop, b.points[top].ends = inherited, inherited != 0
	var path [129]int32 // the points on the way to the last prefix, by depth
	path[rootBits] = top
	for i, e := range rest {
		depth := rootBits
		if i > 0 {
			depth = max(rootBits, min(int(rest[i-1].bits), common(e.Key, rest[i-1].Key)))
		}
		for ; depth < int(e.bits); depth++ {
			bit := e.bitsAt(depth, 1)
			p := path[depth]
			if b.points[p].child[bit] == 0 {
				b.points[p].child[bit] = b.point()
			}
			path[depth+1] = b.points[p].child[bit]
		}
		p := &b.points[path[e.bits]]
		p.hop, p.ends = e.hop, true
	}
	return top
}

func (b *sst) point() int32 {
	b.points = append(b.points, point{})
	return int32(len(b.points) - 1)
}

// common is how many first bits of two keys are equal.
func common(a, o Key) int {
	if a.Hi != o.Hi {
		return bits.LeadingZeros64(a.Hi ^ o.Hi)
	}
	return 64 + bits.LeadingZeros64(a.Lo^o.Lo)
}

// prune decides where nodes begin. The paper walks the trie breadth first, again and again, each time taking off every
// subtree of no more points than a node holds. Which pass takes off a point
// follows from its children alone, so one walk from the bottom up finds the same nodes. Children have higher numbers
// than their parents.
func (b *sst) prune(root []uint32) {
	for i := len(b.points) - 1; i > 0; i-- {
		p := &b.points[i]
		if p.ends {
			p.routes = 1
		}
		for _, c := range p.child {
			if c != 0 {
				p.pass = max(p.pass, b.points[c].pass)
				p.routes += b.points[c].routes
			}
		}
		size := 1
		for _, c := range p.child {
			if c != 0 && b.points[c].pass == p.pass {
				size += int(b.points[c].size)
			}
		}
		if size > sstSize {
			p.pass++
			size = 1
		}
		p.size = uint8(size)
		for _, c := range p.child {
			b.points[c].cut = b.points[c].pass != p.pass
		}
	}
	for _, desc := range root {
		if desc&sstNode != 0 {
			b.points[desc&^sstNode].cut = true
		}
	}
}

// write writes the node whose top is a point, in its place, and all below.
func (b *sst) write(at int, top int32) {
	b.nodes++
	b.merge(top)
	var shape uint64
	var external, internal uint32
	var below []int32
	members := append(make([]int32, 0, sstSize), top)
	missing := 0
	for n := 0; n < len(members); n++ {
		p := &b.points[members[n]]
		if p.ends {
			internal |= 1 << (sstSize - 1 - n)
		}
		for bit, c := range p.child {
			switch {
			case c != 0 && !b.points[c].cut:
				shape |= 1 << (2*n + bit)
				members = append(members, c)
				continue
			case c != 0:
				external |= 1 << missing
				below = append(below, c)
			}
			missing++
		}
	}
	first := b.m.Place(len(below)*sstNodeWords, 1)
	hops := make([]uint32, 0, sstSize)
	for set := internal; set != 0; set &= set - 1 {
		hops = append(hops, b.points[members[sstSize-1-bits.TrailingZeros32(set)]].hop)
	}
	placeResults(b.m, hops, b.wide)
	b.hops += uint32(len(hops))
	node := b.m.Words[at : at+sstNodeWords]
	node[0], node[1], node[2], node[3] = uint32(shape>>32), uint32(shape), external, internal
	node[4] = uint32(first)
	if b.wide {
		node[4] |= isWide
	}
	for i, c := range below {
		b.write(first+i*sstNodeWords, c)
	}
}

// merge lets the node of a point take in the nodes below, as long as one fits, the one with most routes first.
func (b *sst) merge(top int32) {
	below := b.below(top, nil)
	for {
		best := -1
		for i, c := range below {
			if b.points[top].size+b.points[c].size <= sstSize && (best < 0 || b.points[c].routes > b.points[below[best]].routes) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		c := below[best]
		b.points[c].cut = false
		b.points[top].size += b.points[c].size
		below[best] = below[len(below)-1]
		below = b.below(c, below[:len(below)-1])
	}
}

// below adds the tops of the nodes right below the node of a point.
func (b *sst) below(top int32, found []int32) []int32 {
	for _, c := range b.points[top].child {
		switch {
		case c == 0:
		case b.points[c].cut:
			found = append(found, c)
		default:
			found = b.below(c, found)
		}
	}
	return found
}
