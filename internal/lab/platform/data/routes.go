// SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"minne/internal/lab/algo/lpm"
)

// NextHops is how many next hops generated routes lead to.
const NextHops = 64

// FullIPv4 and FullIPv6 are how many routes the Internet's tables had when the shapes were taken.
const (
	FullIPv4 = 901_899
	FullIPv6 = 160_147
)

// shape is what a real table of one family looks like.
type shape struct {
	lengths map[int]int // prefixes of each length
	full    int         // prefixes of the real table
	// block is the length of the networks within which prefixes crowd, and blocks how many of them the real table uses.
	block, blocks int
	adjacent      float64 // share of prefixes that begin where the one before, as long as they are, ends
	near          float64 // share of the other ones that begin near a prefix of the same length
	apart         float64 // share of networks as large as blocks, or larger, that lie elsewhere
	crowding      float64 // how unevenly blocks are used: 1 is evenly
	// nested are the shares of the prefixes of a length that lie within another one; of other lengths they are not looked at.
	nested map[int]float64
}

// shapes are those of the table that internal/lab/fulltable reads.
var shapes = map[lpm.Family]shape{
	lpm.IPv4: {
		lengths: map[int]int{8: 16, 9: 13, 10: 38, 11: 103, 12: 299, 13: 581, 14: 1203, 15: 2100, 16: 13490, 17: 8235, 18: 13798,
			19: 24870, 20: 42611, 21: 50750, 22: 108623, 23: 96510, 24: 537698, 25: 20, 26: 3, 27: 11, 28: 18, 29: 17, 30: 3, 31: 3, 32: 886},
		nested: map[int]float64{17: .456, 18: .498, 19: .395, 20: .545, 21: .546, 22: .453, 23: .570, 24: .514},
		full:   FullIPv4, block: 16, blocks: 35192, adjacent: 0.42, apart: 1.0, near: 0.955, crowding: 1.5,
	},
	lpm.IPv6: {
		lengths: map[int]int{20: 16, 24: 30, 28: 193, 29: 4371, 30: 650, 31: 284, 32: 22548, 33: 2926, 34: 2603, 35: 1043, 36: 5996,
			37: 880, 38: 1617, 39: 1377, 40: 13418, 41: 903, 42: 2301, 43: 1001, 44: 14365, 45: 1553, 46: 3039, 47: 3153, 48: 75488,
			56: 24, 58: 20, 64: 184, 112: 2, 126: 19, 127: 42, 128: 6},
		full: FullIPv6, block: 32, blocks: 34317, adjacent: 0.5, near: 0.85, crowding: 1.2,
	},
}

// network is a prefix as the generator has it.
type network struct {
	lpm.Key
	bits int
}

// Routes makes n routes of a family in the shape of the Internet's table: as many of each length, as crowded, as often
// beside each other and within each other. The same seed gives the same routes.
func Routes(f lpm.Family, n int, seed uint64) ([]lpm.Route, error) {
	s, ok := shapes[f]
	switch {
	case !ok:
		return nil, fmt.Errorf("family %d: expected 4 or 6", f)
	case n < 1 || n > 4*s.full:
		return nil, fmt.Errorf("%d routes of IPv%d: expected 1 to %d", n, f, 4*s.full)
	}
	rng := rand.New(rand.NewPCG(seed, uint64(f)))
	g := &generator{shape: s, family: f, rng: rng, seen: make(map[network]bool, n)}
	for range max(1, s.blocks*n/s.full) {
		g.crowded = append(g.crowded, g.newBlock())
	}
	g.lengthsInOrder = s.order()
	for _, bits := range g.lengthsInOrder {
		g.length(bits, int(float64(s.lengths[bits])*float64(n)/float64(s.full)))
	}
	g.length(s.commonest(), n-len(g.all))
	routes := make([]lpm.Route, len(g.all))
	for i, p := range g.all {
		prefix, err := p.Address(f).Prefix(p.bits)
		if err != nil {
			return nil, err
		}
		routes[i] = lpm.Route{Prefix: prefix, NextHop: uint32(1 + rng.IntN(NextHops))}
	}
	slices.SortFunc(routes, func(a, b lpm.Route) int {
		if c := a.Prefix.Addr().Compare(b.Prefix.Addr()); c != 0 {
			return c
		}
		return a.Prefix.Bits() - b.Prefix.Bits()
	})
	return routes, nil
}

// order are the lengths, short ones first.
func (s shape) order() []int {
	var all []int
	for bits := range s.lengths {
		all = append(all, bits)
	}
	slices.Sort(all)
	return all
}

// commonest is the length that most prefixes have.
func (s shape) commonest() int {
	best := 0
	for _, bits := range s.order() {
		if best == 0 || s.lengths[bits] > s.lengths[best] {
			best = bits
		}
	}
	return best
}

type generator struct {
	shape
	family  lpm.Family
	rng     *rand.Rand
	crowded []lpm.Key // the blocks

	lengthsInOrder []int
	all            []network
	seen           map[network]bool
}

// newBlock is a network of unicast addresses.
func (g *generator) newBlock() lpm.Key {
	if g.family == lpm.IPv6 {
		// Registries hand out of a few hundred /20 networks of 2000::/3.
		twenty := uint64(g.rng.IntN(600)) * 109 % (1 << 17)
		return lpm.Key{Hi: 1<<61 | twenty<<44 | uint64(g.rng.IntN(1<<12))<<32}
	}
	for {
		first := uint64(1 + g.rng.IntN(223))
		if first != 10 && first != 127 {
			return lpm.Key{Hi: first<<56 | uint64(g.rng.IntN(256))<<48}
		}
	}
}

// length makes n prefixes of a length, in runs of neighbours. A table that has no room for them has fewer.
func (g *generator) length(bits, n int) {
	var last network
	made := 0
	share, chosen := g.nested[bits]
	within, inside := false, 0
	for tries := 0; made < n && tries < 50*n+1000; tries++ {
		p := network{g.somewhere(bits), bits}
		if last.bits != bits { // a run begins
			within = float64(inside) < share*float64(made+1)
		}
		switch first := len(g.all) - made; {
		case bits <= g.block:
		case last.bits == bits && g.rng.Float64() < g.adjacent:
			p = last.shifted(1)
		case made > 0 && g.rng.Float64() < g.near:
			p = g.all[first+g.rng.IntN(made)].shifted(1 + g.rng.IntN(nearby))
		}
		last = p
		covered := chosen && g.covered(p)
		if g.seen[p] || !g.unicast(p) || chosen && covered != within && g.rng.Float64() < insist {
			last = network{}
			continue
		}
		if covered {
			inside++
		}
		g.seen[p] = true
		g.all = append(g.all, p)
		made++
	}
}

// insist is how often a prefix is given up because it lies within another one, or doesn't, and shouldn't.
const insist = 0.97

// covered tells whether a prefix lies within one of those made before, which are the shorter ones.
func (g *generator) covered(p network) bool {
	for _, bits := range g.lengthsInOrder {
		if bits >= p.bits {
			return false
		}
		if g.seen[network{masked(p.Key, bits), bits}] {
			return true
		}
	}
	return false
}

// somewhere is the address of a prefix of a length within a block; some blocks have much more than others.
func (g *generator) somewhere(bits int) lpm.Key {
	share := g.rng.Float64()
	if bits > g.block {
		share = math.Pow(share, g.crowding)
	}
	k := g.crowded[int(share*float64(len(g.crowded)))]
	if bits <= g.block && g.rng.Float64() < g.apart {
		k = g.newBlock()
	}
	k.Hi |= g.rng.Uint64() >> g.block
	if g.family == lpm.IPv4 {
		k.Hi &^= 1<<32 - 1
	} else {
		k.Lo = g.rng.Uint64()
	}
	return masked(k, bits)
}

// masked keeps the first bits of a key.
func masked(k lpm.Key, bits int) lpm.Key {
	if bits <= 64 {
		return lpm.Key{Hi: k.Hi &^ (^uint64(0) >> bits)}
	}
	k.Lo &^= ^uint64(0) >> (bits - 64)
	return k
}

func (g *generator) unicast(p network) bool {
	a := p.Address(g.family)
	return a.IsGlobalUnicast() && (g.family == lpm.IPv6 && a.As16()[0]>>5 == 1 || g.family == lpm.IPv4 && a.As4()[0] < 224)
}

// nearby is how far from another one a prefix is that begins near it, in prefixes of its length.
const nearby = 16

// shifted is the n-th prefix behind p.
func (p network) shifted(n int) network {
	if p.bits <= 64 {
		p.Hi += uint64(n) << (64 - p.bits)
		return p
	}
	p.Lo += uint64(n) << (128 - p.bits)
	return p
}
