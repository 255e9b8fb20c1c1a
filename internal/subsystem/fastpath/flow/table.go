// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/mapped"
)

// Shapes of bpf/flow.h.
const (
	places       = 12
	probes       = 4
	tickShift    = 31
	restShift    = 24
	restMask     = 1<<24 - 1
	egressShift  = 48
	unseenEgress = 0xffff
	controlBytes = 256
)

// Translated is set in Flow.Flags when the replies' addresses or ports are not just the original's turned round.
const Translated = 1

// Memory are the table's eBPF arrays, mapped by the caller, by the names of the maps.
type Memory struct {
	Control, Index, Sides, Free, Sources []byte
}

// control mirrors struct flow_control.
type control struct {
	secret     secret
	flows      uint32
	buckets    uint32
	generation uint32
	ringBits   uint32
	_          [6]uint64
	head       uint64
	_          [7]uint64
	tail       uint64
	_          [7]uint64
}

// bucket mirrors struct flow_bucket. Tags are the program's affair.
type bucket struct {
	_      uint64
	_      uint32
	passed uint32
	number [places]uint32
}

// side mirrors struct flow_side. Its last word is read and taken apart by lifeOf.
type side struct {
	key     rawKey
	packets uint64
	bytes   uint64
	life    uint64
}

// life is the last word of a side.
type life struct {
	seen, generation uint16
	version, flags   uint8
	mark             uint16
}

func lifeOf(w uint64) life {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], w)
	return life{
		seen: binary.NativeEndian.Uint16(b[:]), generation: binary.NativeEndian.Uint16(b[2:]),
		version: b[4], flags: b[5], mark: binary.NativeEndian.Uint16(b[6:]),
	}
}

func (l life) complete() bool { return l.version&1 != 0 }

// Table is the flow table. One goroutine at a time may use it.
type Table struct {
	control *control
	index   []bucket
	sides   []side
	ring    []uint64
	sources []uint64

	cursor   int   // where Sweep goes on
	missing  []odd // flows that were nobody's when the table was taken over
	timeouts Timeouts
	passive  uint64
	clock    func() time.Duration
	serial   uint64   // of this table among those of the process
	listener Listener // hears of flows that end; may be nil

	entering sync.Mutex // held while user space makes a flow
}

// New lays a table over its arrays. Fresh arrays get a secret and free flows; arrays that are in use, of a
// fast path that went on without a daemon, are taken over as they are.
func New(m Memory, s Size, timeouts Timeouts) (*Table, error) {
	if err := errors.Join(s.Check(), timeouts.check()); err != nil {
		return nil, err
	}
	want := s.Entries()
	if len(m.Control) < controlBytes || len(m.Index) < int(want["flow_index"])*bucketBytes ||
		len(m.Sides) < int(want["flow_sides"])*64 || len(m.Free) < int(want["flow_free"])*8 || len(m.Sources) < sources*8 {
		return nil, fmt.Errorf("flow table for %d flows: the memory given is too small", s.Flows)
	}
	t := &Table{
		control:  &mapped.View[control](m.Control)[0],
		index:    mapped.View[bucket](m.Index)[:want["flow_index"]],
		sides:    mapped.View[side](m.Sides)[:want["flow_sides"]],
		ring:     mapped.View[uint64](m.Free)[:want["flow_free"]],
		sources:  mapped.View[uint64](m.Sources)[:sources],
		timeouts: timeouts,
		clock:    monotonic,
		serial:   serials.Add(1),
	}
	if have := atomic.LoadUint32(&t.control.flows); have != 0 {
		if int(have) != s.Flows {
			return nil, fmt.Errorf("flow table for %d flows: the one that is loaded is for %d", s.Flows, have)
		}
		t.missing = t.nobodys()
		return t, nil
	}
	t.begin(s)
	return t, nil
}

// begin fills fresh arrays. The program takes no flow before flows is set, because no place of the ring is filled.
func (t *Table) begin(s Size) {
	c := t.control
	c.secret = newSecret()
	c.buckets = uint32(len(t.index))
	c.ringBits = uint32(s.ringBits())
	rested := t.rest() - restMask/2
	for n := range s.Flows {
		t.ring[n] = rested&restMask<<restShift | uint64(n+1)
	}
	atomic.StoreUint64(&c.tail, uint64(s.Flows))
	atomic.StoreUint32(&c.flows, uint32(s.Flows))
}

// monotonic is the clock of bpf_ktime_get_coarse_ns.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts) // it has no reason to fail
	return time.Duration(ts.Nano())
}

// Now is the clock that flows are aged by, in ticks of 2^31 ns: flow_now of bpf/flow.h.
func Now() uint16 { return uint16(monotonic() >> tickShift) }

func (t *Table) rest() uint64 { return uint64(t.clock() >> restShift) }

// Capacity is how many flows the table can hold.
func (t *Table) Capacity() int { return int(t.control.flows) }

// Generation is what flows that are made now belong to.
func (t *Table) Generation() uint16 { return uint16(atomic.LoadUint32(&t.control.generation)) }

// Invalidate makes every flow stale at once: its next packet goes to the kernel and is evaluated again.
// Sweep then collects what nobody asks for any more.
func (t *Table) Invalidate() {
	t.entering.Lock()
	defer t.entering.Unlock()
	atomic.AddUint32(&t.control.generation, 1)
}

// bucketAt is flow_bucket.
func (t *Table) bucketAt(hash uint64, probe int) *bucket {
	at := uint64(uint32(hash))
	if probe&2 != 0 {
		at = uint64(uint32(hash >> 24))
	}
	return &t.index[at*uint64(t.control.buckets)>>32^uint64(probe&1)]
}

// find returns how many buckets a lookup reads to find a side's number, 0 when it is not there.
func (t *Table) find(hash uint64, number uint32) int {
	for probe := range probes {
		b := t.bucketAt(hash, probe)
		for i := range b.number {
			if atomic.LoadUint32(&b.number[i]) == number {
				return probe + 1
			}
		}
	}
	return 0
}

// withdraw is flow_withdraw: it takes out a side's number, and reports whether it did.
func (t *Table) withdraw(hash uint64, number uint32) bool {
	for probe := range probes {
		b := t.bucketAt(hash, probe)
		for i := range b.number {
			if !atomic.CompareAndSwapUint32(&b.number[i], number, 0) {
				continue
			}
			for p := range probe {
				atomic.AddUint32(&t.bucketAt(hash, p).passed, ^uint32(0))
			}
			return true
		}
	}
	return false
}

// remove is flow_remove: it ends flow n, 1 and above, and reports whether nobody else did.
func (t *Table) remove(n uint32) bool {
	s0, s1 := &t.sides[2*n], &t.sides[2*n+1]
	first, second := s0.readKey(), s1.readKey()
	hash := t.control.secret.hash(&first)
	if !t.withdraw(hash, 2*n) {
		return false
	}
	hash = t.control.secret.hash(&second)
	t.withdraw(hash, 2*n|1)
	if t.listener != nil {
		t.notify(n)
	}
	s0.next()
	s1.next()
	source := t.control.secret.source(&first)
	atomic.AddUint64(&t.sources[source&(sourceRow-1)], ^uint64(0))
	atomic.AddUint64(&t.sources[source>>32&(sourceRow-1)+sourceRow], ^uint64(0))
	t.give(n)
	return true
}

// give is flow_give.
func (t *Table) give(n uint32) {
	position := atomic.AddUint64(&t.control.tail, 1) - 1
	lap := position >> t.control.ringBits & 0xffff
	atomic.StoreUint64(&t.ring[position&uint64(len(t.ring)-1)], lap<<48|t.rest()&restMask<<restShift|uint64(n))
}

func (s *side) readKey() (k rawKey) {
	for i := range k {
		k[i] = atomic.LoadUint64(&s.key[i])
	}
	return k
}

// count is how many packets the side has counted, FLOW_PACKETS of bpf/flow.h.
func (s *side) count() uint64 { return atomic.LoadUint64(&s.packets) & (1<<egressShift - 1) }

// next counts up the version. A packet may write seen meanwhile, in the same word.
func (s *side) next() {
	for {
		old := atomic.LoadUint64(&s.life)
		var b [8]byte
		binary.NativeEndian.PutUint64(b[:], old)
		b[4]++
		if atomic.CompareAndSwapUint64(&s.life, old, binary.NativeEndian.Uint64(b[:])) {
			return
		}
	}
}
