// SPDX-License-Identifier: Apache-2.0

package fib

import "math/bits"

// The pool of an image is handed out in units of 16 bytes.
const (
	unitWords  = 4
	exactSizes = 64 // runs of fewer units than this have a free list per size
	sizes      = exactSizes + 20
)

// span is a run of units.
type span struct{ at, units uint32 }

// memory hands out the units of an image's pool and takes them back.
//
// Free runs are kept in lists by size (exact below exactSizes units, by power
// of two above), joined with their free neighbours as they come back, and the
// smallest that fits is split. Its books lie outside the image: the image
// holds nothing but what lookups read.
//
// A run that lookups may still be reading is retired, not freed: it becomes
// free after a grace period, which runs in the background. Two batches exist:
// one waiting for its grace period and one collecting for the next.
type memory struct {
	first, end uint32   // units of the pool: first is the lowest, end one past the highest
	length     []uint32 // at the first and last unit of a free run: its units; else 0
	next, prev []uint32 // free list links, valid at the first unit of a free run; 0 ends a list
	head       [sizes]uint32
	filled     [2]uint64 // bit per list that is not empty
	free       uint32    // units

	grace        func()
	retired      []span // unlinked, waiting for a grace period to begin
	retiredUnits uint32
	waiting      []span // their grace period has begun
	waitingUnits uint32
	done         chan struct{} // closed when the grace period of waiting has passed; nil when there is none
}

func newMemory(first, end uint32, grace func()) *memory {
	m := &memory{first: first, end: end, grace: grace}
	m.length = make([]uint32, end+1)
	m.next = make([]uint32, end+1)
	m.prev = make([]uint32, end+1)
	if end > first {
		m.insert(first, end-first)
	}
	return m
}

// listOf is the free list in which a run of n units is kept.
func listOf(n uint32) int {
	if n < exactSizes {
		return int(n)
	}
	return exactSizes + bits.Len32(n/exactSizes) - 1
}

func (m *memory) insert(at, n uint32) {
	l := listOf(n)
	m.length[at], m.length[at+n-1] = n, n
	head := m.head[l]
	m.next[at], m.prev[at] = head, 0
	if head != 0 {
		m.prev[head] = at
	}
	m.head[l] = at
	m.filled[l>>6] |= 1 << (l & 63)
	m.free += n
}

func (m *memory) remove(at uint32) {
	n := m.length[at]
	l := listOf(n)
	if p := m.prev[at]; p != 0 {
		m.next[p] = m.next[at]
	} else if m.head[l] = m.next[at]; m.head[l] == 0 {
		m.filled[l>>6] &^= 1 << (l & 63)
	}
	if nx := m.next[at]; nx != 0 {
		m.prev[nx] = m.prev[at]
	}
	m.length[at], m.length[at+n-1] = 0, 0
	m.free -= n
}

// alloc returns the first of n units in a row, or false when no run is that long, even after
// waiting for everything that is retired.
func (m *memory) alloc(n uint32) (uint32, bool) {
	at, ok := m.take(n)
	for !ok && (m.done != nil || len(m.retired) > 0) {
		m.startGrace()
		m.finishGrace()
		at, ok = m.take(n)
	}
	return at, ok
}

func (m *memory) take(n uint32) (uint32, bool) {
	at := m.find(n)
	if at == 0 {
		return 0, false
	}
	have := m.length[at]
	m.remove(at)
	if have > n {
		m.insert(at+n, have-n)
	}
	return at, true
}

// find returns a free run of at least n units, the smallest class first; 0 when there is none.
func (m *memory) find(n uint32) uint32 {
	l := listOf(n)
	if n >= exactSizes { // runs in this list may be too short
		for at := m.head[l]; at != 0; at = m.next[at] {
			if m.length[at] >= n {
				return at
			}
		}
		l++
	}
	for w := l >> 6; w < len(m.filled); w++ {
		set := m.filled[w]
		if w == l>>6 {
			set &= ^uint64(0) << (l & 63)
		}
		if set != 0 {
			return m.head[w<<6+bits.TrailingZeros64(set)]
		}
	}
	return 0
}

// release frees a run that no lookup can be reading.
func (m *memory) release(s span) {
	at, n := s.at, s.units
	if before := m.length[at-1]; before != 0 && at > m.first {
		at -= before
		n += before
		m.remove(at)
	}
	if after := s.at + s.units; after < m.end && m.length[after] != 0 {
		n += m.length[after]
		m.remove(after)
	}
	m.insert(at, n)
}

// retire frees a run that is no longer linked from the image, once lookups under way have ended.
func (m *memory) retire(s span) {
	if m.grace == nil {
		m.release(s)
		return
	}
	m.retired = append(m.retired, s)
	m.retiredUnits += s.units
}

// collect frees what has waited long enough, and begins a grace period when enough is retired to
// be worth one. It does not block.
func (m *memory) collect() {
	if m.done != nil {
		select {
		case <-m.done:
			m.finishGrace()
		default:
		}
	}
	if m.retiredUnits > (m.end-m.first)/64 {
		m.startGrace()
	}
}

// startGrace begins a grace period for what is retired, unless one is under way.
func (m *memory) startGrace() {
	if m.done != nil || len(m.retired) == 0 {
		return
	}
	m.waiting, m.retired = m.retired, m.waiting[:0]
	m.waitingUnits, m.retiredUnits = m.retiredUnits, 0
	done := make(chan struct{})
	m.done = done
	go func() {
		m.grace()
		close(done)
	}()
}

// finishGrace waits for the grace period under way and frees what waited for it.
func (m *memory) finishGrace() {
	if m.done == nil {
		return
	}
	<-m.done
	m.done = nil
	for _, s := range m.waiting {
		m.release(s)
	}
	m.waiting, m.waitingUnits = m.waiting[:0], 0
}

// settle waits until nothing is retired any more.
func (m *memory) settle() {
	for m.done != nil || len(m.retired) > 0 {
		m.startGrace()
		m.finishGrace()
	}
}

// used is how many units lookups can reach.
func (m *memory) used() uint32 {
	return m.end - m.first - m.free - m.retiredUnits - m.waitingUnits
}

// largest is the longest free run, in units.
func (m *memory) largest() uint32 {
	for l := sizes - 1; l > 0; l-- {
		longest := uint32(0)
		for at := m.head[l]; at != 0; at = m.next[at] {
			longest = max(longest, m.length[at])
		}
		if longest > 0 {
			return longest
		}
	}
	return 0
}
