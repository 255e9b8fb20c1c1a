// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A flow's counters go when the flow does: when its connection ends, when it is made anew after a commit, when it
// was silent for long, when the table makes place for another. Whoever keeps books is told what they were. Flows that
// a packet ends come out of a ring (flow_ended of bpf/flow_write.h); those that user space ends are told by it.

// Ended is what a flow had counted when it ended. It is told of flows that counted something.
type Ended struct {
	Key     Key       // of who opened the connection
	Packets [2]uint64 // index 0 from who opened it, 1 the replies
	Bytes   [2]uint64 // of IP packets
	At      time.Time // when
	ID      uint64    // Flow.ID
}

// Listener hears of flows that end. FlowEnded is quick, and does not ask the fast path. It is called by one goroutine
// for flows that packets end, and by others meanwhile for those that user space ends.
type Listener interface{ FlowEnded(Ended) }

// serials tells the tables of the process apart.
var serials atomic.Uint64

// id names a flow that was made in this table: by number and by what its version is while it is complete.
func (t *Table) id(number uint32, version uint8) uint64 {
	return t.serial<<32 | uint64(number)<<8 | uint64(version)
}

// SetListener makes flows that user space ends known to a listener from now on.
func (t *Table) SetListener(l Listener) { t.listener = l }

// notify tells of a complete flow.
func (t *Table) notify(n uint32) {
	key := t.sides[2*n].readKey()
	e := Ended{Key: key.key(), At: time.Now(), ID: t.id(n, lifeOf(atomic.LoadUint64(&t.sides[2*n].life)).version)}
	if e.read(t.sides[2*n:]); e.Packets != [2]uint64{} {
		t.listener.FlowEnded(e)
	}
}

// NotifyAll tells of all flows. No packet uses the table any more: another takes its place.
func (t *Table) NotifyAll() {
	for n := uint32(1); t.listener != nil && int(n) <= t.Capacity(); n++ {
		if lifeOf(atomic.LoadUint64(&t.sides[2*n].life)).complete() {
			t.notify(n)
		}
	}
}

// read reads the counters of a flow's two sides.
func (e *Ended) read(sides []side) {
	for d := range 2 {
		e.Packets[d], e.Bytes[d] = sides[d].count(), atomic.LoadUint64(&sides[d].bytes)
	}
}

// told is struct flow_ended_record of bpf/flow_write.h in bytes.
const told = 88

// Ended reads a record of the ring. Other goroutines may use the table meanwhile.
func (t *Table) Ended(record []byte) (e Ended, ok bool) {
	if len(record) < told {
		return e, false
	}
	var word [told / 8]uint64
	for i := range word {
		word[i] = binary.NativeEndian.Uint64(record[8*i:])
	}
	number, version := binary.NativeEndian.Uint32(record[80:])>>1, uint8(binary.NativeEndian.Uint32(record[84:]))
	if number == 0 || int(number) > t.Capacity() {
		return e, false
	}
	key := rawKey(word[:5])
	e = Ended{Key: key.key(), Packets: [2]uint64(word[5:7]), Bytes: [2]uint64(word[7:9]), At: realtime(word[9]), ID: t.id(number, version)}
	t.settle(&e, number, version)
	return e, true
}

// settle takes in packets that had found the flow before it ended and counted themselves behind. It is possible
// until the flow's place is used again, a tenth of a second later at the earliest.
func (t *Table) settle(e *Ended, number uint32, version uint8) {
	sides := t.sides[2*number:]
	rests := func() bool { return lifeOf(atomic.LoadUint64(&sides[0].life)).version == version+1 }
	if !rests() {
		return
	}
	late := *e
	if late.read(sides); rests() && late.holds(e) {
		*e = late
	}
}

// holds says whether all counters are at least as high: those of a flow that is just being made are not.
func (e *Ended) holds(o *Ended) bool {
	return e.Packets[0] >= o.Packets[0] && e.Packets[1] >= o.Packets[1] && e.Bytes[0] >= o.Bytes[0] && e.Bytes[1] >= o.Bytes[1]
}

// realtime turns a time of bpf_ktime_get_ns into one of the day. What it is wrong by is always late: by how long this
// thread was stopped in between.
func realtime(ns uint64) time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it has no reason to fail
	return time.Now().Add(time.Duration(int64(ns) - ts.Nano()))
}
