// SPDX-License-Identifier: Apache-2.0

package classify

// Addresses become classes. Each list of prefixes in the rules is one address
// set; two addresses are of one class when they lie in the same sets. A sweep
// over all the sets' ends finds the classes and numbers them as they come, so that
// the classes inside one prefix are neighbours: most sets are one run of classes.

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// point is an address; an IPv4 address stands in the upper half of hi.
type point struct{ hi, lo uint64 }

func (p point) less(q point) bool { return p.hi < q.hi || p.hi == q.hi && p.lo < q.lo }

func (p point) compare(q point) int {
	if c := cmp.Compare(p.hi, q.hi); c != 0 {
		return c
	}
	return cmp.Compare(p.lo, q.lo)
}

// next is the point behind p; ok is false when p is the last of all.
func (p point) next() (q point, ok bool) {
	q = point{p.hi, p.lo + 1}
	if q.lo == 0 {
		q.hi++
	}
	return q, q != point{}
}

func pointOf(a netip.Addr) point {
	if a.Is4() {
		b := a.As4()
		return point{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return point{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// stretch is a run of addresses, both ends included.
type stretch struct{ first, last point }

// stretchOf is all of a prefix. In both families the 64-bit words behind an IPv4 address count as
// part of it, so that the end of one prefix touches the beginning of the next.
func stretchOf(p netip.Prefix) stretch {
	s := stretch{first: pointOf(p.Masked().Addr())}
	s.last = s.first
	if n := p.Bits(); n < 64 {
		s.last.hi |= ^uint64(0) >> n
		s.last.lo = ^uint64(0)
	} else {
		s.last.lo |= ^uint64(0) >> (n - 64)
	}
	if p.Addr().Is4() {
		s.last.lo = ^uint64(0)
	}
	return s
}

// joined sorts stretches and joins those that overlap or touch.
func joined(list []stretch) []stretch {
	slices.SortFunc(list, func(a, b stretch) int { return a.first.compare(b.first) })
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 {
			after, more := out[n-1].last.next()
			if !more || !after.less(s.first) {
				if out[n-1].last.less(s.last) {
					out[n-1].last = s.last
				}
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// addressSets collects the distinct address sets of one field in one family.
type addressSets struct {
	sets   [][]stretch
	number map[string]int
}

// everywhere is the set of all addresses; no list makes it.
const everywhere = -1

// add returns the number of the set of these prefixes.
func (s *addressSets) add(prefixes []netip.Prefix) int {
	list := make([]stretch, 0, len(prefixes))
	for _, p := range prefixes {
		list = append(list, stretchOf(p))
	}
	list = joined(list)
	if len(list) == 1 && list[0] == (stretch{last: point{^uint64(0), ^uint64(0)}}) {
		return everywhere
	}
	key := make([]byte, 0, 32*len(list))
	for _, one := range list {
		for _, w := range [4]uint64{one.first.hi, one.first.lo, one.last.hi, one.last.lo} {
			key = binary.NativeEndian.AppendUint64(key, w)
		}
	}
	if n, ok := s.number[string(key)]; ok {
		return n
	}
	if s.number == nil {
		s.number = map[string]int{}
	}
	n := len(s.sets)
	s.number[string(key)] = n
	s.sets = append(s.sets, list)
	return n
}

// classRun is a run of addresses of one class, up to where the next one starts.
type classRun struct {
	start point
	class uint32
}

// fingerprint stands for a set of address sets: the sum of the random words of its members.
// 128 random bits: two of N sets collide with a chance of N² in 2^129.
type fingerprint [2]uint64

// addressClasses is the outcome of a sweep.
type addressClasses struct {
	runs  []classRun
	count int
	sets  [][]run // of classes, by set
}

// edge is where a set begins or ends.
type edge struct {
	at    point
	set   int32
	begin bool
}

// classes sweeps over all sets.
func (s *addressSets) classes() addressClasses {
	edges := s.edges()
	marks := make([]fingerprint, len(s.sets))
	rng := rand.New(rand.NewPCG(0x6d696e6e65, 0x636c617373))
	for i := range marks {
		marks[i] = fingerprint{rng.Uint64(), rng.Uint64()}
	}
	var a addressClasses
	known := map[fingerprint]uint32{}
	members := make([][]uint32, len(s.sets))
	var now fingerprint
	var active []int32 // sets that hold here
	where := make([]int32, len(s.sets))
	at := point{}
	for i := 0; ; {
		for ; i < len(edges) && edges[i].at == at; i++ {
			set, mark := edges[i].set, marks[edges[i].set]
			now[0] ^= mark[0]
			now[1] ^= mark[1]
			if edges[i].begin {
				where[set] = int32(len(active))
				active = append(active, set)
				continue
			}
			last := active[len(active)-1]
			active[where[set]], where[last] = last, where[set]
			active = active[:len(active)-1]
		}
		class, ok := known[now]
		if !ok {
			class = uint32(len(known))
			known[now] = class
			for _, set := range active {
				members[set] = append(members[set], class)
			}
		}
		if n := len(a.runs); n == 0 || a.runs[n-1].class != class {
			a.runs = append(a.runs, classRun{at, class})
		}
		if i == len(edges) {
			break
		}
		at = edges[i].at
	}
	a.count = len(known)
	for _, m := range members {
		a.sets = append(a.sets, runsOf(m))
	}
	return a
}

func (s *addressSets) edges() []edge {
	var edges []edge
	for i, set := range s.sets {
		for _, one := range set {
			edges = append(edges, edge{one.first, int32(i), true})
			if after, more := one.last.next(); more {
				edges = append(edges, edge{after, int32(i), false})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return a.at.compare(b.at) })
	return edges
}

// run is a run of classes: first to last, both included.
type run struct{ first, last uint32 }

// runsOf joins ascending classes into runs.
func runsOf(classes []uint32) []run {
	var out []run
	for _, c := range classes {
		if n := len(out); n > 0 && out[n-1].last+1 == c {
			out[n-1].last = c
			continue
		}
		out = append(out, run{c, c})
	}
	return out
}
