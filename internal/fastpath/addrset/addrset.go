// SPDX-License-Identifier: Apache-2.0

// Package addrset keeps a set of addresses and prefixes, 100,000 and more, in
// memory that the fast path's eBPF program reads at the same time (bpf/set.h has
// the layout). It does no I/O.
//
// The set is a hash table of lists with a word of a Bloom filter for each bucket.
// Whoever leaves is unlinked by one store and the word is made anew from the
// members that stay, so the filter needs no counters. What was unlinked is used
// again after a grace period.
package addrset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"unsafe"
)

// Layout of the image in words of 32 bits, SET_ in bpf/set.h.
const (
	headSecret   = 0
	headShift    = 4
	headBloom    = 5
	headHeads    = 6
	headCounts   = 7 // IPv4, IPv6
	headLengths4 = 16
	headLengths6 = 64
	headWords    = 256

	memberWords = 6 // hi, lo, kind, next
	memberKind  = 4
	memberNext  = 5

	ipv4Kind   = 256
	maxChain   = 64 // SET_CHAIN
	slackBytes = 32

	membersPerBucket = 2
)

// ImageMap is the name of the eBPF array.
const ImageMap = "set_image"

// ErrFull says that a member found no room.
var ErrFull = errors.New("addrset: the set is full")

// Layout is the size of a set's image.
type Layout struct{ members, bucketBits, words int }

// LayoutFor is the layout for so many members.
func LayoutFor(members int) Layout {
	l := Layout{members: members, bucketBits: max(6, bits.Len(uint(members/membersPerBucket)))}
	need := headWords + 3<<l.bucketBits + members*memberWords
	l.words = 1 << bits.Len(uint(need-1))
	return l
}

// ImageBytes is the value size of the eBPF array ImageMap.
func (l Layout) ImageBytes() uint32 { return uint32(l.words*4 + slackBytes) }

// Constants are the program's read-only variables by name.
func (l Layout) Constants() map[string]uint32 {
	return map[string]uint32{"set_mask": uint32(l.words - 1)}
}

// Set is the writer's side. It is used by one goroutine at a time.
type Set struct {
	words   []uint32
	secret  [2]uint64
	shift   uint
	bloom   uint32 // places, in words
	heads   uint32
	next    uint32 // first word never used
	limit   uint32
	free    []uint32 // members ready for use
	retired []uint32 // members that a reader may still look at
	grace   func()
	lengths [2]map[int]int // members by prefix length: IPv4, IPv6
	count   int
}

// New makes an empty set over the mapped bytes of ImageMap, which it clears. grace must return only
// when every program that was running has ended.
func (l Layout) New(image []byte, grace func()) (*Set, error) {
	if len(image) < int(l.ImageBytes()) {
		return nil, fmt.Errorf("addrset: image of %d bytes, %d expected", len(image), l.ImageBytes())
	}
	s := &Set{
		words:   unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(image))), l.words),
		secret:  [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1},
		shift:   uint(64 - l.bucketBits),
		bloom:   headWords,
		grace:   grace,
		lengths: [2]map[int]int{{}, {}},
	}
	s.heads = s.bloom + 2<<l.bucketBits
	s.next = (s.heads + 1<<l.bucketBits + 1) &^ 1
	s.limit = s.next + uint32(l.members)*memberWords
	for _, head := range []uint32{headCounts, headCounts + 1} {
		s.store(head, 0) // a program that runs finds nothing from here on
	}
	grace()
	clear(s.words)
	s.store64(headSecret, s.secret[0])
	s.store64(headSecret+2, s.secret[1])
	s.store(headShift, uint32(s.shift))
	s.store(headBloom, s.bloom)
	s.store(headHeads, s.heads)
	return s, nil
}

// Len is the number of members.
func (s *Set) Len() int { return s.count }

// member is a prefix as the image has it.
type member struct {
	hi, lo uint64
	kind   uint32
	bits   int
	ipv6   int // 1 when it is
}

func memberOf(p netip.Prefix) (m member, err error) {
	if !p.IsValid() || p.Addr().Is4In6() {
		return m, fmt.Errorf("addrset: an IPv4 or IPv6 prefix is expected, not %v", p)
	}
	p = p.Masked()
	m.bits = p.Bits()
	m.kind = uint32(m.bits)
	if p.Addr().Is4() {
		b := p.Addr().As4()
		m.hi, m.kind = uint64(binary.BigEndian.Uint32(b[:]))<<32, m.kind+ipv4Kind
		return m, nil
	}
	b := p.Addr().As16()
	m.hi, m.lo, m.ipv6 = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), 1
	return m, nil
}

// hash is set_hash of bpf/set.h.
func (s *Set) hash(m *member) uint64 {
	h := (m.hi ^ uint64(m.kind)<<17) * s.secret[0]
	h ^= h >> 32
	h = (h ^ m.lo) * s.secret[1]
	h ^= h >> 29
	return h * s.secret[0]
}

func bloomBits(h uint64) uint64 {
	return 1<<(h>>8&63) | 1<<(h>>14&63) | 1<<(h>>20&63) | 1<<(h>>26&63)
}

// find looks for a member in a bucket: the word that refers to it and its place, 0 when it is not
// there, and how many members were passed.
func (s *Set) find(m *member, bucket uint32) (from, at uint32, passed int) {
	from = s.heads + bucket
	for at = s.words[from]; at != 0; at = s.words[from] {
		if s.word64(at) == m.hi && s.word64(at+2) == m.lo && s.words[at+memberKind] == m.kind {
			return from, at, passed
		}
		from = at + memberNext
		passed++
	}
	return from, 0, passed
}

// Has tells whether exactly this prefix is a member.
func (s *Set) Has(p netip.Prefix) bool {
	m, err := memberOf(p)
	if err != nil {
		return false
	}
	_, at, _ := s.find(&m, uint32(s.hash(&m)>>s.shift))
	return at != 0
}

// Add puts a prefix into the set; an address is a prefix of all its bits. added is false when it
// was there already.
func (s *Set) Add(p netip.Prefix) (added bool, err error) {
	m, err := memberOf(p)
	if err != nil {
		return false, err
	}
	h := s.hash(&m)
	bucket := uint32(h >> s.shift)
	_, at, passed := s.find(&m, bucket)
	if at != 0 {
		return false, nil
	}
	if passed < maxChain {
		at = s.take()
	}
	if at == 0 {
		return false, fmt.Errorf("%w: %d members, no room for %v", ErrFull, s.count, p)
	}
	s.store64(at, m.hi)
	s.store64(at+2, m.lo)
	s.store(at+memberKind, m.kind)
	s.store(at+memberNext, s.words[s.heads+bucket])
	filter := s.bloom + 2*bucket
	s.store64(filter, s.word64(filter)|bloomBits(h))
	s.store(s.heads+bucket, at)
	s.count++
	s.lengths[m.ipv6][m.bits]++
	if s.lengths[m.ipv6][m.bits] == 1 {
		s.list(&m, 0, uint32(m.bits)+1)
	}
	return true, nil
}

// Delete takes a prefix out of the set; deleted is false when it was not there.
func (s *Set) Delete(p netip.Prefix) (deleted bool) {
	m, err := memberOf(p)
	if err != nil {
		return false
	}
	bucket := uint32(s.hash(&m) >> s.shift)
	from, at, _ := s.find(&m, bucket)
	if at == 0 {
		return false
	}
	s.store(from, s.words[at+memberNext])
	s.filter(bucket)
	s.retired = append(s.retired, at)
	s.count--
	s.lengths[m.ipv6][m.bits]--
	if s.lengths[m.ipv6][m.bits] == 0 {
		s.list(&m, uint32(m.bits)+1, 0)
	}
	return true
}

// filter makes a bucket's word anew.
func (s *Set) filter(bucket uint32) {
	word := uint64(0)
	for at := s.words[s.heads+bucket]; at != 0; at = s.words[at+memberNext] {
		m := member{hi: s.word64(at), lo: s.word64(at + 2), kind: s.words[at+memberKind]}
		word |= bloomBits(s.hash(&m))
	}
	s.store64(s.bloom+2*bucket, word)
}

// list replaces an entry of the lengths that readers ask for. Entries never move, so no reader
// misses one.
func (s *Set) list(m *member, old, now uint32) {
	at := uint32(headLengths4)
	if m.ipv6 == 1 {
		at = headLengths6
	}
	i := uint32(0)
	for s.words[at+i] != old {
		i++
	}
	s.store(at+i, now)
	if head := uint32(headCounts + m.ipv6); i >= s.words[head] {
		s.store(head, i+1)
	}
}

// retireBatch is how many members wait before a grace period is worth its milliseconds.
const retireBatch = 4096

// take returns the place of a member to fill, or 0.
func (s *Set) take() uint32 {
	if len(s.free) == 0 && (len(s.retired) >= retireBatch || s.next+memberWords > s.limit && len(s.retired) > 0) {
		s.grace()
		s.free, s.retired = s.retired, s.free[:0]
	}
	if n := len(s.free); n > 0 {
		at := s.free[n-1]
		s.free = s.free[:n-1]
		return at
	}
	if s.next+memberWords > s.limit {
		return 0
	}
	s.next += memberWords
	return s.next - memberWords
}

func (s *Set) store(word, v uint32) { atomic.StoreUint32(&s.words[word], v) }

// pair addresses two words as one; word is even.
func (s *Set) pair(word uint32) *uint64 { return (*uint64)(unsafe.Pointer(&s.words[word])) }

func (s *Set) word64(word uint32) uint64     { return *s.pair(word) }
func (s *Set) store64(word uint32, v uint64) { atomic.StoreUint64(s.pair(word), v) }
