// SPDX-License-Identifier: Apache-2.0

package classify

import "encoding/binary"

// Lookup returns the verdict on a packet. It is the algorithm of bpf/classify.h, step by step.
func (t *Tables) Lookup(k *Key) uint32 {
	w := t.words
	head := w[headFamily:]
	if k.IPv6 {
		head = w[headFamily+familyWords:]
	}
	classes := uint64(t.address(head, source, k.Source)) |
		uint64(t.address(head, destination, k.Destination))<<16 |
		uint64(t.transport(k))<<32
	zone := head[familyZones] + 4*uint32(k.Zone)
	first := uint32(noRule)
	for _, ref := range w[zone : zone+3] {
		first = min(first, t.walk(ref, classes))
	}
	return w[w[headVerdicts]+(first+1)&noRule]
}

func (t *Tables) address(head []uint32, d dimension, a [2]uint64) uint32 {
	field := head[familyField+fieldWords*int(d):]
	width := field[fieldBits]
	class := t.words[field[fieldTable]+uint32(a[0]>>(64-width))]
	if class&isTree != 0 {
		class = t.search(class&^isTree, a[0]<<width>>width)
	}
	if class&deepValue != 0 {
		class = t.search(field[fieldDeep]+(class&maxClasses*2+uint32(a[1]>>63))*rootWords, a[1]&startBits)
	}
	return class
}

// search finds the value of a word in a search tree.
func (t *Tables) search(root uint32, key uint64) uint32 {
	i := uint32(0)
	for range t.words[root+rootLevels] {
		node := (t.words[root+rootNodes] + i) * nodeWords
		i = 4*i + 1
		for child := range uint32(3) {
			if t.word64(node+2*child) <= key {
				i++
			}
		}
	}
	return t.half(0, t.words[root+rootValues]+i)
}

func (t *Tables) transport(k *Key) uint32 {
	w := t.words
	from := t.half(0, w[w[headSourcePort]+uint32(k.SourcePort>>8)]+uint32(k.SourcePort&0xff))
	to := t.half(0, w[w[headPort]+uint32(k.DestinationPort>>8)]+uint32(k.DestinationPort&0xff))
	pair := w[w[headFirst]+w[w[headKinds]+uint32(k.Kind)]+from]
	return t.half(w[headSecond], pair+to)
}

// half is entry i of an array of 16-bit values at a place.
func (t *Tables) half(at, i uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], t.words[at+i/2])
	return uint32(binary.NativeEndian.Uint16(b[2*(i&1):]))
}

func (t *Tables) word64(at uint32) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint32(b[:], t.words[at])
	binary.NativeEndian.PutUint32(b[4:], t.words[at+1])
	return binary.NativeEndian.Uint64(b[:])
}

// walk follows references to a rule.
func (t *Tables) walk(ref uint32, classes uint64) uint32 {
	for range maxSteps {
		class := uint32(uint16(classes >> (ref >> 24 & 0x30)))
		at := ref & refPlace
		switch ref >> 30 << 30 {
		case refTable:
			ref = t.words[at+class]
		case refRuns:
			n := uint32(0)
			for i := range uint32(runStarts) {
				if t.half(at, i) <= class {
					n++
				}
			}
			ref = t.words[at+startWords+n]
		default:
			return ref
		}
	}
	return ref
}
