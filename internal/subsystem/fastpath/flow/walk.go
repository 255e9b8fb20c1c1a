// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Flow is one connection as the fast path knows it. Index 0 is the direction of who opened it, 1 the replies.
type Flow struct {
	Key        [2]Key        `json:"key"`
	Packets    [2]uint64     `json:"packets"`
	Bytes      [2]uint64     `json:"bytes"` // of IP packets
	Idle       time.Duration `json:"idle"`  // since the last packet, to 2^31 ns
	Translated bool          `json:"translated"`
	Stale      bool          `json:"stale"` // made before the last commit
	Flags      uint8         `json:"-"`
	ID         uint64        `json:"-"` // no two flows of this process share one

	number  uint32
	version uint8
}

// Label is the number that patterns gave the flow (bpf/label.h); 0 for none.
func (f *Flow) Label() int { return int(f.Flags >> 2) }

// Filter chooses flows. What is not set matches all.
type Filter struct {
	Host     netip.Prefix // any address of either direction
	Zone     *uint16      // of either direction
	Protocol uint8
	Port     uint16 // any port of either direction
}

// Match says whether a flow is chosen.
func (f Filter) Match(fl *Flow) bool {
	any := func(test func(*Key) bool) bool { return test(&fl.Key[0]) || test(&fl.Key[1]) }
	return (!f.Host.IsValid() || any(func(k *Key) bool { return f.Host.Contains(k.Source) || f.Host.Contains(k.Destination) })) &&
		(f.Zone == nil || any(func(k *Key) bool { return k.Zone == *f.Zone })) &&
		(f.Protocol == 0 || fl.Key[0].Protocol == f.Protocol) &&
		(f.Port == 0 || any(func(k *Key) bool { return k.SourcePort == f.Port || k.DestinationPort == f.Port }))
}

// read reads flow n. false: there is none, or it ended while it was read.
func (t *Table) read(n uint32, now, generation uint16) (f Flow, ok bool) {
	var lives [2]life
	for d := range 2 {
		s := &t.sides[2*n+uint32(d)]
		lives[d] = lifeOf(atomic.LoadUint64(&s.life))
		if !lives[d].complete() {
			return f, false
		}
		key := s.readKey()
		f.Key[d] = key.key()
		f.Packets[d], f.Bytes[d] = s.count(), atomic.LoadUint64(&s.bytes)
	}
	for d := range 2 {
		if lifeOf(atomic.LoadUint64(&t.sides[2*n+uint32(d)].life)).version != lives[0].version {
			return f, false
		}
	}
	f.number, f.version, f.Flags, f.ID = n, lives[0].version, lives[0].flags, t.id(n, lives[0].version)
	f.Translated = f.Flags&Translated != 0
	f.Stale = lives[0].generation != generation
	f.Idle = time.Duration(min(idle(now, lives[0].seen), idle(now, lives[1].seen))) * tick
	return f, true
}

// Walk calls visit for every flow that the filter chooses, until it returns false. now is Now.
func (t *Table) Walk(now uint16, f Filter, visit func(Flow) bool) {
	generation := t.Generation()
	for n := uint32(1); int(n) <= t.Capacity(); n++ {
		fl, ok := t.read(n, now, generation)
		if ok && f.Match(&fl) && !visit(fl) {
			return
		}
	}
}

// End ends a flow that Walk gave: its next packet goes to the kernel. false: it had ended already.
func (t *Table) End(f Flow) bool {
	return lifeOf(atomic.LoadUint64(&t.sides[2*f.number].life)).version == f.version && t.remove(f.number)
}

// Look is what all flows had counted at one time.
type Look struct {
	at     time.Duration
	counts map[uint32]counted
}

type counted struct {
	version        uint8
	packets, bytes [2]uint64
}

// Look remembers the counters of the flows that a filter chooses, to be compared by Rates.
func (t *Table) Look(f Filter) Look {
	l := Look{at: t.clock(), counts: map[uint32]counted{}}
	t.Walk(0, f, func(fl Flow) bool {
		l.counts[fl.number] = counted{fl.version, fl.Packets, fl.Bytes}
		return true
	})
	return l
}

// Rate is a flow and what it transfers, per second and direction.
type Rate struct {
	Flow
	PacketRate [2]float64 `json:"packets_per_second"`
	BitRate    [2]float64 `json:"bits_per_second"`
}

// Rates returns the n flows that transferred most bytes since an earlier look. Flows that are younger than
// the look count from their beginning.
func (t *Table) Rates(now uint16, since Look, f Filter, n int) []Rate {
	seconds := (t.clock() - since.at).Seconds()
	if seconds <= 0 {
		return nil
	}
	var all []Rate
	t.Walk(now, f, func(fl Flow) bool {
		was := since.counts[fl.number]
		if was.version != fl.version {
			was = counted{}
		}
		r := Rate{Flow: fl}
		for d := range 2 {
			r.PacketRate[d] = float64(fl.Packets[d]-was.packets[d]) / seconds
			r.BitRate[d] = 8 * float64(fl.Bytes[d]-was.bytes[d]) / seconds
		}
		all = append(all, r)
		return true
	})
	slices.SortFunc(all, func(a, b Rate) int {
		return cmp.Compare(b.BitRate[0]+b.BitRate[1], a.BitRate[0]+a.BitRate[1])
	})
	return all[:min(n, len(all))]
}
