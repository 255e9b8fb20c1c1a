// SPDX-License-Identifier: Apache-2.0

package fib

// hops is what one prefix is worth: the next hop of the main route and of the local one for it,
// 0 for none. Any local route wins over any main route, as the kernel's local table does.
type hops struct{ main, local uint16 }

// under returns what holds inside a prefix worth p that lies in a block worth cover.
func (p hops) under(cover hops) hops {
	if p.main == 0 {
		p.main = cover.main
	}
	if p.local == 0 {
		p.local = cover.local
	}
	return p
}

// chosen is the next hop that packets take.
func (p hops) chosen() uint32 {
	if p.local != 0 {
		return uint32(p.local)
	}
	return uint32(p.main)
}

// route is a prefix of one 64-bit word: an IPv4 address in its upper half, or one half of an IPv6
// address.
type route struct {
	key  uint64 // the prefix's bits, left-aligned
	bits uint8  // 0…64
	deep bool   // an IPv6 /64 inside which longer prefixes live
	hops hops
}

// count is how many routes r stands for.
func (r *route) count() int {
	n := 0
	if r.hops.main != 0 {
		n++
	}
	if r.hops.local != 0 {
		n++
	}
	if r.deep {
		n++
	}
	return n
}

func compareRoutes(a, b route) int {
	switch {
	case a.key < b.key:
		return -1
	case a.key > b.key:
		return 1
	}
	return int(a.bits) - int(b.bits)
}

// interval is the start of a run of keys with one descriptor; it ends where the next one starts.
type interval struct {
	start uint64 // absolute
	desc  uint32
}

// open is a prefix whose end the sweep has not reached.
type open struct {
	last uint64 // its last key
	hops hops   // with what covers it
}

// sweep turns prefixes into intervals.
type sweep struct {
	intervals []interval
	stack     []open
}

// emit begins an interval. An interval with the same start is replaced, one with the same
// descriptor as its left neighbour is part of that.
func (s *sweep) emit(start uint64, desc uint32) {
	n := len(s.intervals)
	if n > 0 && s.intervals[n-1].start == start {
		n--
		s.intervals = s.intervals[:n]
	}
	if n > 0 && s.intervals[n-1].desc == desc {
		return
	}
	s.intervals = append(s.intervals, interval{start, desc})
}

// run computes the intervals of the block [base, last] worth cover, from the routes inside it in
// order (a prefix before those it contains). deep gives the descriptor of a route marked so.
func (s *sweep) run(base, last uint64, cover hops, routes []route, deep func(route, hops) (uint32, error)) error {
	s.intervals = s.intervals[:0]
	s.stack = append(s.stack[:0], open{last, cover})
	s.emit(base, cover.chosen())
	for i := range routes {
		r := &routes[i]
		s.close(r.key)
		worth := r.hops.under(s.stack[len(s.stack)-1].hops)
		desc := worth.chosen()
		if r.deep {
			var err error
			if desc, err = deep(*r, worth); err != nil {
				return err
			}
		}
		s.stack = append(s.stack, open{r.key | lowBits(r.bits), worth})
		s.emit(r.key, desc)
	}
	s.close(last) // what ends with the block needs no end
	return nil
}

// close ends the prefixes that end before key.
func (s *sweep) close(key uint64) {
	for len(s.stack) > 1 {
		top := s.stack[len(s.stack)-1]
		if top.last >= key {
			return
		}
		s.stack = s.stack[:len(s.stack)-1]
		s.emit(top.last+1, s.stack[len(s.stack)-1].hops.chosen())
	}
}

// lowBits is the mask of the bits that a prefix of that length leaves free.
func lowBits(bits uint8) uint64 {
	if bits >= 64 {
		return 0
	}
	return ^uint64(0) >> bits
}
