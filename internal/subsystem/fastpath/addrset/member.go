// SPDX-License-Identifier: Apache-2.0

package addrset

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A member is a prefix with the number of its set, as the image has it: an IPv4
// address stands in the upper half of hi.

// member mirrors struct set_member of bpf/set.h.
type member struct {
	hi, lo uint64
	kind   uint32 // prefix length + ipv4Kind + set * setKind
}

func memberOf(set int, p netip.Prefix) (m member, err error) {
	if set < 0 || set >= MaxSets {
		return m, fmt.Errorf("addrset: set %d, sets are 0 to %d", set, MaxSets-1)
	}
	if !p.IsValid() || p.Addr().Is4In6() {
		return m, fmt.Errorf("addrset: an IPv4 or IPv6 prefix is expected, not %v", p)
	}
	p = p.Masked()
	m.kind = uint32(set*setKind + p.Bits())
	if p.Addr().Is4() {
		b := p.Addr().As4()
		m.hi, m.kind = uint64(binary.BigEndian.Uint32(b[:]))<<32, m.kind+ipv4Kind
		return m, nil
	}
	b := p.Addr().As16()
	m.hi, m.lo = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	return m, nil
}

// prefix is memberOf backwards.
func (m *member) prefix() netip.Prefix {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], m.hi)
	binary.BigEndian.PutUint64(b[8:], m.lo)
	if m.family() == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), m.bits())
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), m.bits())
}

func (m *member) set() int  { return int(m.kind / setKind) }
func (m *member) bits() int { return int(m.kind % ipv4Kind) }

// family is 0 for IPv4, 1 for IPv6.
func (m *member) family() int {
	if m.kind&ipv4Kind != 0 {
		return 0
	}
	return 1
}

// member reads one from the image.
func (s *Set) member(at uint32) member {
	return member{hi: s.word64(at), lo: s.word64(at + 2), kind: s.words[at+memberKind]}
}

// find looks for a member in a bucket: the word that refers to it and its place, 0 when it is not
// there, and how many members were passed.
func (s *Set) find(m *member, bucket uint32) (from, at uint32, passed int) {
	from = s.heads + bucket
	for at = s.words[from]; at != 0; at = s.words[from] {
		if s.words[at+memberKind] == m.kind && s.word64(at) == m.hi && s.word64(at+2) == m.lo {
			return from, at, passed
		}
		from = at + memberNext
		passed++
	}
	return from, 0, passed
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
