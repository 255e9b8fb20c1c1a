// SPDX-License-Identifier: Apache-2.0

package classify

// What a packet is above its addresses becomes one class: kind (protocol, SYN,
// fragment), source port and destination port or ICMP type and code each get a
// class, and two tables of pairs join them. Rules have few different conditions
// here, hundreds where they have thousands of addresses, so the tables stay small.

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// transport is what one rule wants here, one set for each field.
type transport struct {
	kinds               [kinds / 64]uint64
	source, destination []Range
}

var allPorts = []Range{{0, 65535}}

// transportOf is a rule's condition.
func transportOf(r *Rule) transport {
	t := transport{source: allPorts, destination: allPorts}
	for k := range uint16(kinds) {
		if r.matchesKind(k) && (k&KindSYN == 0 || k >= KindFragment || uint8(k) == protocolTCP) {
			t.kinds[k>>6] |= 1 << (k & 63)
		}
	}
	if len(r.SourcePorts) > 0 {
		t.source = joinedPorts(r.SourcePorts)
	}
	if len(r.DestinationPorts) > 0 {
		t.destination = joinedPorts(r.DestinationPorts)
	}
	if len(r.ICMP) > 0 {
		var values []Range
		for _, one := range r.ICMP {
			values = append(values, one.values())
		}
		t.destination = joinedPorts(values)
		if len(r.SourcePorts)+len(r.DestinationPorts) > 0 {
			t.kinds = [kinds / 64]uint64{} // no packet has both
		}
	}
	return t
}

func joinedPorts(ranges []Range) []Range {
	list := slices.Clone(ranges)
	slices.SortFunc(list, func(a, b Range) int { return int(a.First) - int(b.First) })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && int(out[n-1].Last)+1 >= int(r.First) {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// transportSets collects the distinct conditions.
type transportSets struct {
	sets   []transport
	number map[string]int
}

func (s *transportSets) add(r *Rule) int {
	t := transportOf(r)
	var key []byte
	for _, w := range t.kinds {
		key = binary.NativeEndian.AppendUint64(key, w)
	}
	for _, list := range [][]Range{t.source, t.destination} {
		key = binary.NativeEndian.AppendUint32(key, uint32(len(list)))
		for _, one := range list {
			key = binary.NativeEndian.AppendUint32(key, uint32(one.First)<<16|uint32(one.Last))
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
	s.sets = append(s.sets, t)
	return n
}

// bitset has a bit for each condition.
type bitset []uint64

func (b bitset) add(i int) { b[i>>6] |= 1 << (i & 63) }

func (b bitset) key() string {
	out := make([]byte, 0, 8*len(b))
	for _, w := range b {
		out = binary.NativeEndian.AppendUint64(out, w)
	}
	return string(out)
}

// fieldClasses are the classes of one field: by class, the conditions that accept it.
type fieldClasses struct {
	accepts []bitset
	number  map[string]uint32
}

func (f *fieldClasses) class(b bitset) uint32 {
	key := b.key()
	if n, ok := f.number[key]; ok {
		return n
	}
	if f.number == nil {
		f.number = map[string]uint32{}
	}
	n := uint32(len(f.accepts))
	f.number[key] = n
	f.accepts = append(f.accepts, slices.Clone(b))
	return n
}

// Bounds of the transport tables.
const (
	maxTransports = noClass // classes
	maxPairs      = 1 << 21 // entries of one table, and work on it in 64-bit words / 32
)

// transportClasses is the outcome: tables as the image has them, and the classes of each set.
type transportClasses struct {
	kind        [kinds]uint32   // class of the kind × source classes
	source      [1 << 16]uint16 // class by port
	destination [1 << 16]uint16
	first       []uint32 // [kind class × source classes + source class] = pair × destination classes
	second      []uint32 // [pair × destination classes + destination class] = class
	count       int
	sets        [][]run
}

func (s *transportSets) classes() (*transportClasses, error) {
	t := &transportClasses{}
	words := (len(s.sets) + 63) / 64
	var kindClass, source, destination, pairs, all fieldClasses
	var kind [kinds]uint32
	for k := range kinds {
		b := make(bitset, words)
		for i := range s.sets {
			if s.sets[i].kinds[k>>6]>>(k&63)&1 != 0 {
				b.add(i)
			}
		}
		kind[k] = kindClass.class(b)
	}
	s.ports(&t.source, &source, words, func(one *transport) []Range { return one.source })
	s.ports(&t.destination, &destination, words, func(one *transport) []Range { return one.destination })

	for k := range kind {
		t.kind[k] = kind[k] * uint32(len(source.accepts))
	}
	var err error
	if t.first, err = product(&kindClass, &source, &pairs); err != nil {
		return nil, err
	}
	for i := range t.first {
		t.first[i] *= uint32(len(destination.accepts))
	}
	if t.second, err = product(&pairs, &destination, &all); err != nil {
		return nil, err
	}
	t.count = len(all.accepts)
	members := make([][]uint32, len(s.sets))
	for class, b := range all.accepts {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				set := i*64 + bits.TrailingZeros64(w)
				members[set] = append(members[set], uint32(class))
			}
		}
	}
	for _, m := range members {
		t.sets = append(t.sets, runsOf(m))
	}
	return t, nil
}

// ports sweeps over one field and fills in its classes.
func (s *transportSets) ports(table *[1 << 16]uint16, f *fieldClasses, words int, of func(*transport) []Range) {
	type end struct{ at, set int }
	var ends []end
	for i := range s.sets {
		for _, r := range of(&s.sets[i]) {
			ends = append(ends, end{int(r.First), i}, end{int(r.Last) + 1, i})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return a.at - b.at })
	now := make(bitset, words)
	for i, at := 0, 0; at <= 65535; {
		for ; i < len(ends) && ends[i].at == at; i++ {
			now[ends[i].set>>6] ^= 1 << (ends[i].set & 63)
		}
		to := 65536
		if i < len(ends) {
			to = ends[i].at
		}
		class := f.class(now)
		for ; at < to; at++ {
			table[at] = uint16(class)
		}
	}
}

// product gives each pair of classes the class of the conditions that accept both.
func product(a, b, out *fieldClasses) ([]uint32, error) {
	entries := len(a.accepts) * len(b.accepts)
	if len(b.accepts) > maxClasses || entries > maxPairs || entries*len(a.accepts[0]) > 32*maxPairs {
		return nil, fmt.Errorf("the rules have too many different ports: their combinations fall into %d × %d classes, "+
			"expected up to %d; join ranges of ports, or ask for fewer source ports", len(a.accepts), len(b.accepts), maxPairs)
	}
	table := make([]uint32, 0, entries)
	both := make(bitset, len(a.accepts[0]))
	for _, x := range a.accepts {
		for _, y := range b.accepts {
			for i := range both {
				both[i] = x[i] & y[i]
			}
			table = append(table, out.class(both))
		}
	}
	if len(out.accepts) > maxTransports {
		return nil, fmt.Errorf("the rules' protocols and ports fall into %d classes, expected up to %d", len(out.accepts), maxTransports)
	}
	return table, nil
}
