// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"sort"
)

// Reference answers what the structures answer, by the plainest means: the addresses at which the answer
// changes, in order, and a binary search.
type Reference struct {
	starts []Key
	hops   []uint32
}

// NewReference compiles the routes of a family.
func NewReference(f Family, routes []Route) (*Reference, error) {
	all, err := entries(f, routes)
	if err != nil {
		return nil, err
	}
	r := &Reference{starts: []Key{{}}, hops: []uint32{0}}
	var open []entry // around the address that has been reached, the outermost first
	closeUntil := func(k Key, end bool) {
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
		closeUntil(e.Key, false)
		r.change(e.Key, e.hop)
		open = append(open, e)
	}
	closeUntil(Key{}, true)
	return r, nil
}

// change makes the answer another one from an address on, not below the last one changed.
func (r *Reference) change(at Key, hop uint32) {
	if n := len(r.starts); r.starts[n-1] == at {
		r.hops[n-1] = hop
		return
	}
	r.starts, r.hops = append(r.starts, at), append(r.hops, hop)
}

// behind is the first address after a prefix; there may be none.
func (e entry) behind() (k Key, overflow bool) {
	k = e.Key
	if e.bits > 64 {
		step := uint64(1) << (128 - e.bits)
		k.Lo += step
		if k.Lo != 0 {
			return k, false
		}
		k.Hi++
		return k, k.Hi == 0
	}
	if e.bits == 0 {
		return Key{}, true
	}
	k.Hi += 1 << (64 - e.bits)
	return k, k.Hi == 0
}

// Lookup returns the next hop for an address of the reference's family, or 0.
func (r *Reference) Lookup(k Key) uint32 {
	after := sort.Search(len(r.starts), func(i int) bool {
		s := r.starts[i]
		return s.Hi > k.Hi || s.Hi == k.Hi && s.Lo > k.Lo
	})
	return r.hops[after-1]
}
