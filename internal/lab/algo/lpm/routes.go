// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// Route is where a prefix leads to. A next hop of 0 is what a lookup without a route answers, so no
// route may have it.
type Route struct {
	Prefix  netip.Prefix
	NextHop uint32
}

// Family is IPv4 or IPv6.
type Family int

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Key is an address, left-aligned: an IPv4 address is the upper half of Hi. Both are in the CPU's byte order.
type Key struct{ Hi, Lo uint64 }

// bitsAt returns the n bits (at most 32) behind the first `depth` ones.
func (k Key) bitsAt(depth, n int) uint32 {
	if depth >= 64 {
		return uint32(k.Lo << (depth - 64) >> (64 - n))
	}
	v := k.Hi << depth
	if depth > 0 {
		v |= k.Lo >> (64 - depth)
	}
	return uint32(v >> (64 - n))
}

// shares is whether the first n bits of both are equal.
func (k Key) shares(o Key, n int) bool {
	if n <= 64 {
		return (k.Hi^o.Hi)>>(64-n) == 0
	}
	return k.Hi == o.Hi && (k.Lo^o.Lo)>>(128-n) == 0
}

// KeyOf is an address as a key.
func KeyOf(a netip.Addr) Key {
	if a.Is4() {
		b := a.As4()
		return Key{Hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return Key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Address is a key as an address of a family.
func (k Key) Address(f Family) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.Hi)
	binary.BigEndian.PutUint64(b[8:], k.Lo)
	if f == IPv4 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// entry is a route as the builders use it.
type entry struct {
	Key
	bits int32
	hop  uint32
}

func compareEntries(a, b entry) int {
	switch {
	case a.Hi != b.Hi:
		return cmp.Compare(a.Hi, b.Hi)
	case a.Lo != b.Lo:
		return cmp.Compare(a.Lo, b.Lo)
	}
	return cmp.Compare(a.bits, b.bits)
}

// entries are the routes of a family in order, a prefix before the longer ones inside it. Of equal prefixes
// the last one counts. A route that leads where the route around it leads is left out: it decides nothing.
func entries(f Family, routes []Route) ([]entry, error) {
	if f != IPv4 && f != IPv6 {
		return nil, fmt.Errorf("family %d: expected 4 or 6", f)
	}
	all := make([]entry, 0, len(routes))
	for i, r := range routes {
		p := r.Prefix
		switch {
		case !p.IsValid():
			return nil, fmt.Errorf("route %d: its prefix is not valid", i+1)
		case p.Addr().Is4() != (f == IPv4):
			return nil, fmt.Errorf("route %d: %v is not an IPv%d prefix", i+1, p, f)
		case r.NextHop == 0:
			return nil, fmt.Errorf("route %d: %v has next hop 0, which means that there is no route: expected 1 or above", i+1, p)
		}
		all = append(all, entry{KeyOf(p.Masked().Addr()), int32(p.Bits()), r.NextHop})
	}
	if !slices.IsSortedFunc(all, compareEntries) {
		slices.SortStableFunc(all, compareEntries)
	}
	var around []entry
	kept := all[:0]
	for i, e := range all {
		if i+1 < len(all) && compareEntries(e, all[i+1]) == 0 {
			continue
		}
		for len(around) > 0 && !around[len(around)-1].shares(e.Key, int(around[len(around)-1].bits)) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && around[len(around)-1].hop == e.hop {
			continue
		}
		around = append(around, e)
		kept = append(kept, e)
	}
	return kept, nil
}

// wide is whether a next hop needs more than 16 bits.
func wide(all []entry) bool {
	return slices.ContainsFunc(all, func(e entry) bool { return e.hop > 0xffff })
}
