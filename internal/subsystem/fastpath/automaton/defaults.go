// SPDX-License-Identifier: Apache-2.0

package automaton

// Default transitions: a spanning forest of maximum weight over the space-reduction graph, whose
// edges are pairs of states weighted by the transitions that they share (Kumar et al. 2006, section 4).
// A state's default is the next one on the way to its tree's root, the middle of the tree.
// No tree is longer than twice the longest way of defaults, so that many are followed for a byte at most.
//
// The complete graph of thousands of states is too large. Only pairs that are likely to be
// heavy are weighed: a state with the start; with its hub, the state that most of its bytes lead to; with
// those of the longest suffixes of what led to it from a hub, as in Aho and Corasick's automaton, where the
// start is the only hub; and with some of the states that agree with it in an eighth of the row.
// Leaving out an edge can only cost memory.

const (
	suffixes   = 3 // of what led to a state that are weighed
	rowParts   = 8
	companions = 6 // weighed of those that agree in a part of the row: the first half of them, and the latest
)

// edge is a pair of states; weight are the transitions that they share.
type edge struct{ a, b, weight int32 }

// forest is what has been joined so far. Trees hang from an arbitrary state; up is the next one on the way there.
type forest struct {
	up   []int32 // −1 at the root
	set  []int32 // of a union-find
	ends [][2]int32
	long []int32 // of a tree's representative: edges between its ends, its two states farthest from each other
}

// defaults gives every state its default, −1 to roots. longest bounds the number of defaults in a row.
func (d *dfa) defaults(longest int) []int32 {
	f := &forest{up: make([]int32, d.states()), set: make([]int32, d.states()), ends: make([][2]int32, d.states()), long: make([]int32, d.states())}
	for s := range f.up {
		f.up[s], f.set[s], f.ends[s] = -1, int32(s), [2]int32{int32(s), int32(s)}
	}
	if longest == 0 {
		return f.up
	}
	for _, e := range heaviestFirst(d.edges(), d.classes) {
		f.join(e.a, e.b, int32(2*longest))
	}
	for s := range f.up {
		if f.find(int32(s)) == int32(s) {
			f.rootInMiddle(int32(s))
		}
	}
	return f.up
}

// edges are the pairs to be considered.
func (d *dfa) edges() []edge {
	list := make([]edge, 0, 8*d.states())
	weigh := func(a, b int32) {
		if a == b {
			return
		}
		shared := int32(0)
		other := d.row(int(b))
		for c, t := range d.row(int(a)) {
			if t == other[c] {
				shared++
			}
		}
		if shared > 1 { // a default costs as much as a transition
			list = append(list, edge{a, b, shared})
		}
	}
	hubs := d.hubs()
	suffix := d.suffixStates(hubs)
	for s := range d.states() {
		weigh(int32(s), d.start)
		weigh(int32(s), hubs[s])
		for i, f := 0, suffix[s]; i < suffixes && f != hubs[s]; i, f = i+1, suffix[f] {
			weigh(int32(s), f)
		}
	}
	d.companions(weigh)
	return list
}

// hubs are the states that most classes lead to from each state. That of a search under way is the state in
// which none is, but which knows the same of what has been.
func (d *dfa) hubs() []int32 {
	hubs := make([]int32, d.states())
	count := make([]int32, d.states())
	for s := range hubs {
		best := d.row(s)[0]
		for _, t := range d.row(s) {
			if count[t]++; count[t] > count[best] {
				best = t
			}
		}
		for _, t := range d.row(s) {
			count[t] = 0
		}
		hubs[s] = best
	}
	return hubs
}

// suffixStates are the states after what led to a state from a hub first, without the first byte of it.
func (d *dfa) suffixStates(hubs []int32) []int32 {
	suffix := make([]int32, d.states())
	seen := make([]bool, d.states())
	seen[d.start], suffix[d.start] = true, d.start
	queue := []int32{d.start}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for c, t := range d.row(int(s)) {
			if seen[t] {
				continue
			}
			seen[t] = true
			suffix[t] = s
			if s != d.start && hubs[s] != s {
				suffix[t] = d.row(int(suffix[s]))[c]
			}
			queue = append(queue, t)
		}
	}
	return suffix
}

// companions weighs states that agree in a part of their rows, each pair once.
func (d *dfa) companions(weigh func(a, b int32)) {
	type bucket struct {
		states [companions]int32
		used   int32
	}
	var parts [rowParts]struct {
		number  *pairs
		buckets []bucket
	}
	for i := range parts {
		parts[i].number = newPairs()
	}
	weighed := make([]int32, d.states()) // the last state that one was weighed with, plus 1
	for s := range int32(d.states()) {
		for i := range parts {
			part := &parts[i]
			from, to := d.classes*i/rowParts, d.classes*(i+1)/rowParts
			if from == to {
				continue
			}
			n := part.number.number(rowHash(d.row(int(s))[from:to]), int32(len(part.buckets)))
			if int(n) == len(part.buckets) {
				part.buckets = append(part.buckets, bucket{})
			}
			b := &part.buckets[n]
			for _, o := range b.states[:b.used] {
				if weighed[o] != s+1 {
					weighed[o] = s + 1
					weigh(s, o)
				}
			}
			if b.used < companions {
				b.states[b.used] = s
				b.used++
			} else {
				copy(b.states[companions/2:], b.states[companions/2+1:])
				b.states[companions-1] = s
			}
		}
	}
}

// heaviestFirst sorts by weight, equal ones as they came.
func heaviestFirst(list []edge, most int) []edge {
	at := make([]int, most+2)
	for _, e := range list {
		at[most-int(e.weight)+1]++
	}
	for w := 1; w < len(at); w++ {
		at[w] += at[w-1]
	}
	sorted := make([]edge, len(list))
	for _, e := range list {
		w := most - int(e.weight)
		sorted[at[w]] = e
		at[w]++
	}
	return sorted
}

func (f *forest) find(s int32) int32 {
	for f.set[s] != s {
		f.set[s] = f.set[f.set[s]]
		s = f.set[s]
	}
	return s
}

// join makes one tree of those of a and b by an edge, unless it would be longer than allowed.
func (f *forest) join(a, b, longest int32) {
	ta, tb := f.find(a), f.find(b)
	if ta == tb {
		return
	}
	fromA, lenA := f.farthest(a, ta)
	fromB, lenB := f.farthest(b, tb)
	ends, long := [2]int32{fromA, fromB}, lenA+1+lenB
	if long > longest {
		return
	}
	if f.long[ta] > long {
		ends, long = f.ends[ta], f.long[ta]
	}
	if f.long[tb] > long {
		ends, long = f.ends[tb], f.long[tb]
	}
	f.hangFrom(a)
	f.up[a] = b
	f.set[ta] = tb
	f.ends[tb], f.long[tb] = ends, long
}

// farthest is the state of a tree with the longest way from s: always one of the tree's ends.
func (f *forest) farthest(s, tree int32) (int32, int32) {
	e := f.ends[tree]
	d0, d1 := f.distance(s, e[0]), f.distance(s, e[1])
	if d0 >= d1 {
		return e[0], d0
	}
	return e[1], d1
}

// distance counts the edges between two states of one tree. Ways to the root are short: no longer than the tree.
func (f *forest) distance(a, b int32) int32 {
	up := int32(0)
	for s := a; s >= 0; s = f.up[s] {
		down := int32(0)
		for t := b; t >= 0; t = f.up[t] {
			if s == t {
				return up + down
			}
			down++
		}
		up++
	}
	return up
}

// hangFrom makes s the root of its tree.
func (f *forest) hangFrom(s int32) {
	before := int32(-1)
	for s >= 0 {
		next := f.up[s]
		f.up[s] = before
		before, s = s, next
	}
}

// rootInMiddle hangs a tree from the middle of its longest way.
func (f *forest) rootInMiddle(tree int32) {
	e := f.ends[tree]
	f.hangFrom(e[1])
	s := e[0]
	for range f.long[tree] / 2 {
		s = f.up[s]
	}
	f.hangFrom(s)
}

// rowHash is FNV-1a over whole transitions, never 0; equal hashes only propose a pair.
func rowHash(part []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range part {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h | 1
}
