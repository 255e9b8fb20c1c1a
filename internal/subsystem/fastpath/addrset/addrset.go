// SPDX-License-Identifier: Apache-2.0

// Package addrset keeps up to eight sets of addresses and prefixes, 100,000 members
// and more, in memory that the fast path's eBPF program reads at the same time
// (bpf/set.h has the layout). It does no I/O.
//
// All sets share one hash table of lists with a word of a Bloom filter for each
// bucket; the number of its set is part of what a member is. Whoever leaves is
// unlinked by one store and the word is made anew from the members that stay, so the
// filter needs no counters, and no packet misses a member that stays. What was
// unlinked is used again after a grace period.
//
// Prefixes of a set may overlap in any way: an address is in the set as long as one
// of them has it.
package addrset

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"unsafe"
)

// MaxSets is how many sets an image has, numbered from 0: SET_MAX in bpf/set.h.
const MaxSets = 8

// Layout of the image in words of 32 bits, SET_ in bpf/set.h.
const (
	headSecret = 0
	headFirst  = 16

	setStride   = 192
	setCounts   = 0 // IPv4, IPv6
	setLengths4 = 2
	setLengths6 = 35

	headWords = headFirst + MaxSets*setStride // SET_BLOOM

	memberWords = 6 // hi, lo, kind, next
	memberKind  = 4
	memberNext  = 5

	ipv4Kind   = 256
	setKind    = 512
	maxChain   = 64 // SET_CHAIN
	slackBytes = 32

	membersPerBucket = 8
)

// ImageMap is the name of the eBPF array.
const ImageMap = "set_image"

// ErrFull says that a member found no room: a Layout for more is needed.
var ErrFull = errors.New("addrset: no room for more members")

// Layout is the size of an image.
type Layout struct{ bucketBits, words int }

// LayoutFor is the layout for so many members, all sets together, with room for a quarter more; the
// size is a power of two, and what that leaves is room too. Without members it is 8 KiB.
func LayoutFor(members int) Layout {
	members += members / 4
	l := Layout{bucketBits: max(6, bits.Len(uint(members/membersPerBucket)))}
	need := headWords + 3<<l.bucketBits + members*memberWords
	l.words = 1 << bits.Len(uint(need-1))
	return l
}

// ImageBytes is the value size of the eBPF array ImageMap.
func (l Layout) ImageBytes() uint32 { return uint32(l.words*4 + slackBytes) }

// Room is how many members there is room for.
func (l Layout) Room() int { return (l.words - int(l.members())) / memberWords }

// members is the place of the first member.
func (l Layout) members() uint32 { return uint32(headWords+3<<l.bucketBits+1) &^ 1 }

// Constants are the program's read-only variables by name.
func (l Layout) Constants() map[string]uint32 {
	return map[string]uint32{"set_mask": uint32(l.words - 1), "set_shift": uint32(64 - l.bucketBits)}
}

// Set is the writer's side of all sets of an image. It is used by one goroutine at a time.
type Set struct {
	words   []uint32
	secret  [2]uint64
	shift   uint
	heads   uint32   // places, in words
	first   uint32   // member
	next    uint32   // first word never used
	free    []uint32 // members ready for use
	retired []uint32 // members that a reader may still look at
	grace   func()
	lengths [MaxSets][2][129]int // members by family and prefix length
	count   [MaxSets]int
}

// New makes empty sets over the mapped bytes of ImageMap, which it clears. grace must return only
// when every program that was running has ended.
func (l Layout) New(image []byte, grace func()) (*Set, error) {
	if len(image) < int(l.ImageBytes()) {
		return nil, fmt.Errorf("addrset: image of %d bytes, %d expected", len(image), l.ImageBytes())
	}
	s := &Set{
		words:  unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(image))), l.words),
		secret: [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1},
		shift:  uint(64 - l.bucketBits),
		heads:  headWords + 2<<l.bucketBits,
		first:  l.members(),
		next:   l.members(),
		grace:  grace,
	}
	for set := range MaxSets { // a program that runs finds nothing from here on
		s.store(own(set)+setCounts, 0)
		s.store(own(set)+setCounts+1, 0)
	}
	grace()
	clear(s.words)
	s.store64(headSecret, s.secret[0])
	s.store64(headSecret+2, s.secret[1])
	return s, nil
}

// own is where a set's own words begin.
func own(set int) uint32 { return uint32(headFirst + set*setStride) }

// Len is the number of members of a set.
func (s *Set) Len(set int) int { return s.count[set] }

// Members are those of a set, in no order.
func (s *Set) Members(set int) []netip.Prefix {
	list := make([]netip.Prefix, 0, s.count[set])
	for bucket := range uint32(1) << (64 - s.shift) {
		for at := s.words[s.heads+bucket]; at != 0; at = s.words[at+memberNext] {
			if m := s.member(at); m.set() == set {
				list = append(list, m.prefix())
			}
		}
	}
	return list
}

// Free is how many members there is room for beside those that there are.
func (s *Set) Free() int {
	return (len(s.words)-int(s.next))/memberWords + len(s.free) + len(s.retired)
}

// Has tells whether exactly this prefix is a member of a set.
func (s *Set) Has(set int, p netip.Prefix) bool {
	m, err := memberOf(set, p)
	if err != nil {
		return false
	}
	_, at, _ := s.find(&m, uint32(s.hash(&m)>>s.shift))
	return at != 0
}

// Add puts a prefix into a set; an address is a prefix of all its bits. One that is there already
// stays. Without room, the error is ErrFull.
func (s *Set) Add(set int, p netip.Prefix) error {
	_, _, err := s.add(set, p)
	return err
}

// add returns the member's place, and whether it is new.
func (s *Set) add(set int, p netip.Prefix) (at uint32, added bool, err error) {
	m, err := memberOf(set, p)
	if err != nil {
		return 0, false, err
	}
	h := s.hash(&m)
	bucket := uint32(h >> s.shift)
	_, at, passed := s.find(&m, bucket)
	if at != 0 {
		return at, false, nil
	}
	if passed < maxChain {
		at = s.take()
	}
	if at == 0 {
		return 0, false, fmt.Errorf("%w: %v", ErrFull, p)
	}
	s.store64(at, m.hi)
	s.store64(at+2, m.lo)
	s.store(at+memberKind, m.kind)
	s.store(at+memberNext, s.words[s.heads+bucket])
	filter := headWords + 2*bucket
	s.store64(filter, s.word64(filter)|bloomBits(h))
	s.store(s.heads+bucket, at)
	s.tally(&m, 1)
	return at, true, nil
}

// Delete takes a prefix out of a set; deleted is false when it was not there.
func (s *Set) Delete(set int, p netip.Prefix) (deleted bool) {
	m, err := memberOf(set, p)
	if err != nil {
		return false
	}
	bucket := uint32(s.hash(&m) >> s.shift)
	from, at, _ := s.find(&m, bucket)
	if at == 0 {
		return false
	}
	s.unlink(from, at)
	s.filter(bucket)
	return true
}

// Replace makes prefixes all that a set has. Those that are new are put in before others go, so
// both need room for a while; when there is none, the error is ErrFull and the set is as before.
func (s *Set) Replace(set int, prefixes []netip.Prefix) error {
	stay := make([]uint64, (len(s.words)/memberWords+63)/64) // a bit for each member
	var added []netip.Prefix
	for _, p := range prefixes {
		at, isNew, err := s.add(set, p)
		if isNew {
			added = append(added, p)
		}
		if err != nil {
			for _, p := range added {
				s.Delete(set, p)
			}
			return err
		}
		n := (at - s.first) / memberWords
		stay[n/64] |= 1 << (n % 64)
	}
	if s.count[set] > len(prefixes) || s.count[set] > len(added) {
		s.keep(set, stay)
	}
	return nil
}

// keep takes all members of a set out but those whose bit is set.
func (s *Set) keep(set int, stay []uint64) {
	for bucket := range uint32(1) << (64 - s.shift) {
		from, gone := s.heads+bucket, false
		for at := s.words[from]; at != 0; at = s.words[from] {
			n := (at - s.first) / memberWords
			if s.words[at+memberKind]/setKind == uint32(set) && stay[n/64]>>(n%64)&1 == 0 {
				s.unlink(from, at)
				gone = true
			} else {
				from = at + memberNext
			}
		}
		if gone {
			s.filter(bucket)
		}
	}
}

// Clear takes all members out of a set.
func (s *Set) Clear(set int) {
	if s.count[set] > 0 {
		s.keep(set, make([]uint64, (len(s.words)/memberWords+63)/64))
	}
}

// unlink takes a member, to which the word from refers, out of its list.
func (s *Set) unlink(from, at uint32) {
	m := s.member(at)
	s.store(from, s.words[at+memberNext])
	s.retired = append(s.retired, at)
	s.tally(&m, -1)
}

// filter makes a bucket's word anew.
func (s *Set) filter(bucket uint32) {
	word := uint64(0)
	for at := s.words[s.heads+bucket]; at != 0; at = s.words[at+memberNext] {
		m := s.member(at)
		word |= bloomBits(s.hash(&m))
	}
	s.store64(headWords+2*bucket, word)
}

// tally counts a member that has come, or gone, and lists its length for the readers as long as
// there is one of it.
func (s *Set) tally(m *member, step int) {
	s.count[m.set()] += step
	length := uint32(m.bits() + 1)
	n := &s.lengths[m.set()][m.family()][m.bits()]
	*n += step
	switch {
	case *n == 0:
		s.list(m, length, 0)
	case *n == 1 && step == 1:
		s.list(m, 0, length)
	}
}

// list replaces an entry of the lengths that readers ask for. Entries never move, so no reader
// misses one.
func (s *Set) list(m *member, old, now uint32) {
	at := own(m.set()) + [2]uint32{setLengths4, setLengths6}[m.family()]
	i := uint32(0)
	for s.words[at+i] != old {
		i++
	}
	s.store(at+i, now)
	if head := own(m.set()) + setCounts + uint32(m.family()); i >= s.words[head] {
		s.store(head, i+1)
	}
}

// retireBatch is how many members wait before a grace period is worth its milliseconds.
const retireBatch = 4096

// take returns the place of a member to fill, or 0.
func (s *Set) take() uint32 {
	full := int(s.next)+memberWords > len(s.words)
	if len(s.free) == 0 && (len(s.retired) >= retireBatch || full && len(s.retired) > 0) {
		s.grace()
		s.free, s.retired = s.retired, s.free[:0]
	}
	if n := len(s.free); n > 0 {
		at := s.free[n-1]
		s.free = s.free[:n-1]
		return at
	}
	if full {
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
