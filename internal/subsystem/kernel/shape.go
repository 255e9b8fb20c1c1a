// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"slices"

	"minne/internal/model/rib"
)

// Shapes: what routes lead to, shared. As fib_info in the kernel, a shape is all
// of a route but its identity, and counted by use: a full table has a million
// routes and a few hundred shapes. Hops of told routes are the shape's, never
// changed, so a listener may keep them.

type shape struct {
	route rib.Route // without Prefix, Source, Table, Metric, TOS
	raw   string    // its key in shapes.known
	used  int       // identities that have it
}

type shapes struct {
	list  []shape
	known map[string]uint32
	free  []uint32
	raw   []byte
}

func newShapes() shapes { return shapes{known: map[string]uint32{}} }

// number returns the shape of what r leads to, making it when it is new.
func (s *shapes) number(r *rib.Route) uint32 {
	s.raw = appendShape(s.raw[:0], r)
	if n, ok := s.known[string(s.raw)]; ok {
		return n
	}
	raw := string(s.raw)
	made := shape{raw: raw, route: rib.Route{Type: r.Type, Protocol: r.Protocol, Encap: r.Encap, MTU: r.MTU,
		NextHopID: r.NextHopID, Hops: slices.Clone(r.Hops)}}
	var n uint32
	if last := len(s.free) - 1; last >= 0 {
		n, s.free = s.free[last], s.free[:last]
		s.list[n] = made
	} else {
		n = uint32(len(s.list))
		s.list = append(s.list, made)
	}
	s.known[raw] = n
	return n
}

// use and release count the identities that have a shape. An unused one is forgotten.
func (s *shapes) use(n uint32) { s.list[n].used++ }

func (s *shapes) release(n uint32) {
	if s.list[n].used--; s.list[n].used > 0 {
		return
	}
	delete(s.known, s.list[n].raw)
	s.list[n] = shape{}
	s.free = append(s.free, n)
}

// appendShape writes all that makes a shape into b.
func appendShape(b []byte, r *rib.Route) []byte {
	encap := uint8(0)
	if r.Encap {
		encap = 1
	}
	b = append(b, uint8(r.Type), r.Protocol, encap)
	b = binary.NativeEndian.AppendUint32(b, r.MTU)
	b = binary.NativeEndian.AppendUint32(b, r.NextHopID)
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Gateway.IsValid() {
			a := h.Gateway.As16()
			b = append(append(b, uint8(h.Gateway.BitLen())), a[:]...)
		} else {
			b = append(b, 0)
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(h.Interface))
		b = append(b, uint8(h.Weight), uint8(h.Weight>>8), h.Flags)
	}
	return b
}

// same says whether r leads where shape n does, whatever the state of its links.
func (s *shapes) same(n uint32, r *rib.Route) bool {
	t := &s.list[n].route
	return t.Type == r.Type && t.Protocol == r.Protocol && t.NextHopID == r.NextHopID && t.MTU == r.MTU &&
		len(t.Hops) == len(r.Hops) && !slices.ContainsFunc(t.Hops, func(h rib.Hop) bool {
		return !slices.ContainsFunc(r.Hops, func(o rib.Hop) bool { return o.Gateway == h.Gateway && o.Interface == h.Interface })
	})
}

// sameHops compares hops in order, whatever the state of their links.
func sameHops(a, b []rib.Hop) bool {
	return slices.EqualFunc(a, b, func(x, y rib.Hop) bool {
		return x.Gateway == y.Gateway && x.Interface == y.Interface
	})
}
