// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"net/netip"
	"sort"
)

// Reference answers what the structures answer, by the plainest means: the addresses at which the answer
// changes, in order, and a binary search.
type Reference struct {
	starts []key
	hops   []uint32
}

// NewReference compiles the routes of a family.
func NewReference(f Family, routes []Route) (*Reference, error) {
	all, err := entries(f, routes)
	if err != nil {
		return nil, err
	}
	r := &Reference{starts: []key{{}}, hops: []uint32{0}}
	var open []entry // around the address that has been reached, the outermost first
	closeUntil := func(k key, end bool) {
		for len(open) > 0 {
			inner := open[len(open)-1]
			if !end && inner.shares(k, int(inner.bits)) {
				return
			}
			open = open[:len(open)-1]
			behind, overflow := inner.behind()
			if overflow {
				continue
			}
			var hop uint32
			if len(open) > 0 {
				hop = open[len(open)-1].hop
			}
			r.change(behind, hop)
		}
	}
	for _, e := range all {
		closeUntil(e.key, false)
		r.change(e.key, e.hop)
		open = append(open, e)
	}
	closeUntil(key{}, true)
	return r, nil
}

// change makes the answer another one from an address on, not below the last one changed.
func (r *Reference) change(at key, hop uint32) {
	if n := len(r.starts); r.starts[n-1] == at {
		r.hops[n-1] = hop
		return
	}
	r.starts, r.hops = append(r.starts, at), append(r.hops, hop)
}

// behind is the first address after a prefix; there may be none.
func (e entry) behind() (k key, overflow bool) {
	k = e.key
	if e.bits > 64 {
		step := uint64(1) << (128 - e.bits)
		k.lo += step
		if k.lo != 0 {
			return k, false
		}
		k.hi++
		return k, k.hi == 0
	}
	if e.bits == 0 {
		return key{}, true
	}
	k.hi += 1 << (64 - e.bits)
	return k, k.hi == 0
}

// Lookup returns the next hop for an address of the reference's family, or 0.
func (r *Reference) Lookup(a netip.Addr) uint32 { return r.lookup(keyOf(a)) }

func (r *Reference) lookup(k key) uint32 {
	after := sort.Search(len(r.starts), func(i int) bool {
		s := r.starts[i]
		return s.hi > k.hi || s.hi == k.hi && s.lo > k.lo
	})
	return r.hops[after-1]
}
