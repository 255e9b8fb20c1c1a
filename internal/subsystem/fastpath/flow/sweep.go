// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Timeouts say how long a flow may be silent, in both directions, before it is ended. The connection
// stays alive in the kernel, whose timeouts are others': the flow's next packet makes it anew.
type Timeouts struct {
	TCP, UDP, ICMP, Other time.Duration
}

// DefaultTimeouts are short: a flow that is silent for longer loses nothing by one visit to the kernel.
var DefaultTimeouts = Timeouts{TCP: 5 * time.Minute, UDP: 2 * time.Minute, ICMP: 30 * time.Second, Other: 2 * time.Minute}

// The clock of flows has 16 bits; half of them can be told from the future.
const longest = 1<<15 - 1

// tick is one step of the clock that flows are aged by.
const tick = time.Duration(1 << tickShift)

func (o Timeouts) check() error {
	var errs []error
	for _, d := range []time.Duration{o.TCP, o.UDP, o.ICMP, o.Other} {
		if d < tick || d > longest*tick {
			errs = append(errs, fmt.Errorf("flow timeout of %v: expected %v to %v", d, tick, (longest*tick).Truncate(time.Hour)))
		}
	}
	return errors.Join(errs...)
}

// of is the timeout of a flow in ticks, never shorter than what was asked for.
func (o Timeouts) of(k *rawKey) int {
	d := o.Other
	switch k[4] >> 48 & 0xff {
	case unix.IPPROTO_TCP:
		d = o.TCP
	case unix.IPPROTO_UDP:
		d = o.UDP
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		d = o.ICMP
	}
	return int((d + tick - 1) / tick)
}

// Swept is what Sweep did.
type Swept struct {
	Visited int
	Ended   int  // were silent for too long, or stale
	Round   bool // the last flow of the table was visited: the next Sweep begins at the first
}

// Sweep visits the next places of the table, at most so many, and ends flows that have been silent for too long
// or are of an earlier generation. now is Now.
func (t *Table) Sweep(now uint16, places int) Swept {
	t.recover()
	generation := t.Generation()
	var done Swept
	for ; done.Visited < places && !done.Round; done.Visited++ {
		n := uint32(t.cursor + 1)
		if t.over(n, now, generation) && t.remove(n) {
			done.Ended++
		}
		t.cursor++
		if t.cursor == t.Capacity() {
			t.cursor, done.Round = 0, true
		}
	}
	t.passive += uint64(done.Ended)
	return done
}

// over says whether a flow's time is over.
func (t *Table) over(n uint32, now, generation uint16) bool {
	s := &t.sides[2*n]
	first := lifeOf(atomic.LoadUint64(&s.life))
	if !first.complete() {
		return false
	}
	if first.generation != generation {
		return true
	}
	key := s.readKey()
	limit := t.timeouts.of(&key)
	if idle(now, first.seen) <= limit {
		return false
	}
	return idle(now, lifeOf(atomic.LoadUint64(&t.sides[2*n+1].life)).seen) > limit
}

// idle is how many ticks ago something was seen; 0 for what is not yet.
func idle(now, seen uint16) int { return max(int(int16(now-seen)), 0) }

// odd is a flow that is neither complete nor free, or complete without the number of direction 0.
type odd struct {
	number  uint32
	version uint8
}

// nobodys finds flows that a daemon was killed over, between taking out a number and giving the flow back. Those that
// a packet is just making or ending look the same, but not for long.
func (t *Table) nobodys() []odd {
	free := make([]bool, t.Capacity()+1)
	for p := atomic.LoadUint64(&t.control.head); p != atomic.LoadUint64(&t.control.tail); p++ {
		if n := atomic.LoadUint64(&t.ring[p&uint64(len(t.ring)-1)]) & restMask; n < uint64(len(free)) {
			free[n] = true
		}
	}
	var found []odd
	for n := uint32(1); int(n) < len(free); n++ {
		if free[n] {
			continue
		}
		l := lifeOf(atomic.LoadUint64(&t.sides[2*n].life))
		if l.complete() {
			key := t.sides[2*n].readKey()
			hash := t.control.secret.hash(&key)
			if t.find(hash, 2*n) > 0 {
				continue
			}
		}
		found = append(found, odd{n, l.version})
	}
	return found
}

// recover gives back what was nobody's when the table was taken over and still is.
func (t *Table) recover() {
	if len(t.missing) == 0 {
		return
	}
	was := map[odd]bool{}
	for _, o := range t.missing {
		was[o] = true
	}
	t.missing = nil
	for _, o := range t.nobodys() {
		if !was[o] {
			continue
		}
		for d := range uint32(2) {
			s := &t.sides[2*o.number+d]
			key := s.readKey()
			hash := t.control.secret.hash(&key)
			t.withdraw(hash, 2*o.number+d)
			if lifeOf(atomic.LoadUint64(&s.life)).complete() {
				s.next()
			}
		}
		t.give(o.number)
	}
}
