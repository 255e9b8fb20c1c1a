// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"
)

// words is a table in memory that is shared with the program, as 64-bit words.
// The program reads each word by one load, so what stands in one word changes at once.
type words []uint64

func (w words) load(i int) uint64 { return atomic.LoadUint64(&w[i]) }

// store writes a word if it differs, so that pages that stay zero are never touched for writing.
func (w words) store(i int, v uint64) {
	if atomic.LoadUint64(&w[i]) != v {
		atomic.StoreUint64(&w[i], v)
	}
}

// macWord is six bytes of a MAC as they stand in a frame and two of flags, in host order.
func macWord(mac [6]byte, flags uint16) uint64 {
	var b [8]byte
	copy(b[:], mac[:])
	binary.NativeEndian.PutUint16(b[6:], flags)
	return binary.NativeEndian.Uint64(b[:])
}

// pair is two 32-bit fields in the order in which they stand in memory.
func pair(first, second uint32) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint32(b[:], first)
	binary.NativeEndian.PutUint32(b[4:], second)
	return binary.NativeEndian.Uint64(b[:])
}

// zoneWord is an interface's slot of traffic and its zones, in the order in which they stand in memory.
func zoneWord(slot uint32, zone0, zone1 uint8, off Reason) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint32(b[:], slot)
	b[4], b[5] = zone0, zone1
	binary.NativeEndian.PutUint16(b[6:], uint16(off))
	return binary.NativeEndian.Uint64(b[:])
}

// splitPair takes apart what pair put together.
func splitPair(w uint64) (first, second uint32) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], w)
	return binary.NativeEndian.Uint32(b[:]), binary.NativeEndian.Uint32(b[4:])
}

func macOf(a net.HardwareAddr) (mac [6]byte, ok bool) {
	if len(a) != len(mac) {
		return mac, false
	}
	copy(mac[:], a)
	return mac, mac != [6]byte{}
}

// network16 is a 16-bit value whose bytes in memory are in network order.
func network16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// gracePeriod is how long a place in a shared table rests before it is used for something else.
// A packet that still holds the old reference is through the program within microseconds.
const gracePeriod = 100 * time.Millisecond

// pool hands out runs of places in a shared table.
type pool struct {
	next, limit uint32 // places never used yet
	free        map[uint32][]resting
	now         func() time.Time
}

type resting struct {
	at    uint32
	since time.Time
}

func newPool(first, limit uint32) *pool {
	return &pool{next: first, limit: limit, free: map[uint32][]resting{}, now: time.Now}
}

// take returns the first of n places in a row, or false when the table is full.
func (p *pool) take(n uint32) (uint32, bool) {
	if q := p.free[n]; len(q) > 0 && p.now().Sub(q[0].since) > gracePeriod {
		p.free[n] = q[1:]
		return q[0].at, true
	}
	if p.limit-p.next < n {
		return 0, false
	}
	at := p.next
	p.next += n
	return at, true
}

// give takes a run back. Nothing may refer to it any more.
func (p *pool) give(at, n uint32) {
	p.free[n] = append(p.free[n], resting{at, p.now()})
}
