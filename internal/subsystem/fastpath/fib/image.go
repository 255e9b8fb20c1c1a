// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Kinds of descriptor; bpf/fib_range.h has the layout.
const (
	kindHop    = 0
	kindLeaf32 = 1 // start and next hop in 32 bits
	kindLeaf64 = 2 // 48-bit start and next hop in 64 bits
	kindDeep   = 3 // 64-bit starts, then 32-bit descriptors
	kindDirect = 4

	// askKernel is the descriptor of a block that could not be built: lookups answer 0.
	askKernel = 1 << 16

	maxLeaf = 1024 // ranges; what every kind of leaf can hold

	slackBytes = 256 // FIB_SLACK
)

// ErrFull says that the image has no room for what was to be published. The blocks of addresses
// that did not fit answer 0 (the kernel decides) until a later Publish succeeds; every other
// block is up to date. An image with more capacity, or a table without that many routes, is needed.
var ErrFull = errors.New("fib: image is full")

func descriptor(kind, size, word uint32) uint32 {
	return kind<<29 | size<<20 | word/unitWords
}

func kindOf(desc uint32) uint32 { return desc >> 29 }
func sizeOf(desc uint32) uint32 { return desc >> 20 & 0x1ff }
func wordOf(desc uint32) uint32 { return (desc & 0xfffff) * unitWords }

// leafSpan is the memory that a leaf's descriptor refers to; ok is false when it refers to none.
func leafSpan(desc uint32) (s span, ok bool) {
	s.at = desc & 0xfffff
	switch kindOf(desc) {
	case kindLeaf32, kindLeaf64:
		s.units = sizeOf(desc) + 1
	case kindDeep:
		s.units = 3 * (sizeOf(desc) + 1)
	default:
		return span{}, false
	}
	return s, true
}

// image is the flat memory that lookups read, in words of the CPU's byte order. All accesses are
// atomic: lookups run at any time.
type image []uint32

// imageOf lays an image over the bytes of a mapped eBPF array, which are its only value.
func imageOf(region []byte, words int) (image, error) {
	if len(region) < words*4 {
		return nil, fmt.Errorf("fib: image of %d bytes, %d expected", len(region), words*4)
	}
	start := unsafe.Pointer(unsafe.SliceData(region))
	if uintptr(start)%8 != 0 {
		return nil, errors.New("fib: image does not begin at a multiple of 8 bytes")
	}
	return unsafe.Slice((*uint32)(start), words), nil
}

func (m image) load(word uint32) uint32     { return atomic.LoadUint32(&m[word]) }
func (m image) store(word uint32, v uint32) { atomic.StoreUint32(&m[word], v) }

// pair64 addresses two words as one; word is even.
func (m image) pair64(word uint32) *uint64 {
	_ = m[word+1]
	return (*uint64)(unsafe.Pointer(&m[word]))
}

func (m image) load64(word uint32) uint64     { return atomic.LoadUint64(m.pair64(word)) }
func (m image) store64(word uint32, v uint64) { atomic.StoreUint64(m.pair64(word), v) }

// set and set64 store only what differs: a store costs more than a load.
func (m image) set(word uint32, v uint32) {
	if m.load(word) != v {
		m.store(word, v)
	}
}

func (m image) set64(word uint32, v uint64) {
	if m.load64(word) != v {
		m.store64(word, v)
	}
}

// find32 is fib_leaf32 of bpf/fib_range.h.
func (m image) find32(desc, key uint32, hopBits uint8) uint32 {
	hopMask := uint32(1)<<hopBits - 1
	bound := key | hopMask
	at := wordOf(desc)
	for n := (sizeOf(desc) + 1) * 4; n > 1; {
		half := n / 2
		if m.load(at+half) <= bound {
			at += half
		}
		n -= half
	}
	return m.load(at) & hopMask
}

// find64 is fib_leaf64.
func (m image) find64(desc uint32, key uint64) uint32 {
	bound := key | 0xffff
	at := wordOf(desc)
	for n := (sizeOf(desc) + 1) * 2; n > 1; {
		half := n / 2
		if m.load64(at+2*half) <= bound {
			at += 2 * half
		}
		n -= half
	}
	return uint32(m.load64(at) & 0xffff)
}

// findDeep is fib_leaf_deep.
func (m image) findDeep(desc uint32, key uint64) uint32 {
	ranges := (sizeOf(desc) + 1) * 4
	first := wordOf(desc)
	hit := uint32(0)
	for n := ranges; n > 1; {
		half := n / 2
		if m.load64(first+2*(hit+half)) <= key {
			hit += half
		}
		n -= half
	}
	return m.load(first + 2*ranges + hit)
}

// walk follows direct stages from a descriptor, and returns the one that ends them with what is
// left of the key.
func (m image) walk(desc uint32, key uint64) (uint32, uint64) {
	for kindOf(desc) == kindDirect {
		stride := sizeOf(desc) & 31
		desc = m.load(wordOf(desc) + uint32(key>>(64-stride)))
		key <<= stride
	}
	return desc, key
}

// hop ends a lookup: the next hop in a leaf or a next-hop descriptor, 0 for anything else.
// found is false when no prefix but perhaps the default route matches.
func (m image) hop(desc uint32, key uint64, hopBits uint8) (hop uint32, found bool) {
	switch kindOf(desc) {
	case kindLeaf32:
		hop = m.find32(desc, uint32(key>>32), hopBits)
	case kindLeaf64:
		hop = m.find64(desc, key)
	default:
		return desc & 0xffff, desc != 0
	}
	return hop, hop != 0
}
