// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"math/rand/v2"
	"testing"

	"minne/internal/subsystem/fastpath/flow"
)

// model is what the table should hold, kept in a plain way.
type model struct {
	*bed
	rng   *rand.Rand
	keys  []flow.Key
	open  map[int]*modelFlow // by place in the array
	stale map[int]bool       // of an earlier generation, still in the table
}

type modelFlow struct {
	seen    [2]uint16
	packets [2]uint64
}

// rival says which other flow has the same key for the replies, if any.
func (m *model) rival(i int) (int, bool) {
	if i%20 == 1 {
		return i - 1, true
	}
	if i%20 == 0 {
		return i + 1, true
	}
	return 0, false
}

func (m *model) insert(i int) {
	m.Helper()
	full := len(m.open) + len(m.stale)
	got := m.one(workInsert, i, 0)
	other, shares := m.rival(i)
	delete(m.open, i)
	delete(m.stale, i)
	if shares {
		delete(m.open, other)
		delete(m.stale, other)
	}
	switch {
	case got == made:
		m.open[i] = &modelFlow{seen: [2]uint16{m.now, m.now}}
	case got == refusedFull && full >= m.size.Flows:
	case got == refusedUnfair && full >= m.size.Flows*7/8:
	case got == refusedCrowded && full >= m.size.Flows/2:
	default:
		m.Fatalf("insert with %d of %d flows: outcome %d", full, m.size.Flows, got)
	}
}

func (m *model) lookup(i int) {
	m.Helper()
	direction := uint32(m.rng.IntN(2))
	work := []int{workLookup, workForward}[m.rng.IntN(2)]
	_, shares := m.rival(i)
	got := m.one(work, i, direction)
	f, open := m.open[i]
	if !open {
		if other, _ := m.rival(i); shares && direction == 1 && m.open[other] != nil {
			f, open = m.open[other], true
		}
	}
	if (got != 0) != open {
		m.Fatalf("%v direction %d: found %d, open %v", m.keys[i], direction, got, open)
	}
	if open && uint32(got&1) != direction {
		m.Fatalf("%v: found side %d for direction %d", m.keys[i], got, direction)
	}
	if open && work == workForward {
		f.seen[direction] = m.now
		f.packets[direction]++
	}
}

func (m *model) end(i int) {
	m.Helper()
	got := m.one(workDelete, i, 0)
	if _, open := m.open[i]; (got != 0) != open {
		m.Fatalf("%v: ended %v, open %v", m.keys[i], got != 0, open)
	}
	delete(m.open, i)
}

// sweep visits the whole table and ends in the model what must have ended.
func (m *model) sweep() {
	m.Helper()
	swept := m.table.Sweep(m.now, m.size.Flows)
	want := len(m.stale)
	clear(m.stale)
	for i, f := range m.open {
		limit := flow.DefaultTimeouts.Other
		switch m.keys[i].Protocol {
		case tcp:
			limit = flow.DefaultTimeouts.TCP
		case udp:
			limit = flow.DefaultTimeouts.UDP
		case icmp:
			limit = flow.DefaultTimeouts.ICMP
		}
		ticks := uint16((limit + tick - 1) / tick)
		if m.now-f.seen[0] > ticks && m.now-f.seen[1] > ticks {
			delete(m.open, i)
			want++
		}
	}
	if swept.Ended != want || !swept.Round {
		m.Fatalf("sweep ended %d flows (round %v), expected %d", swept.Ended, swept.Round, want)
	}
}

func (m *model) check() {
	m.Helper()
	seen := 0
	m.table.Walk(m.now, flow.Filter{}, func(f flow.Flow) bool {
		if !f.Stale {
			seen++
		}
		return true
	})
	if s := m.stats(); s.Entries != len(m.open)+len(m.stale) || seen != len(m.open) || s.DepthMax > 4 {
		m.Fatalf("the table has %d flows, %d of them valid, depth %d; expected %d and %d",
			s.Entries, seen, s.DepthMax, len(m.open)+len(m.stale), len(m.open))
	}
}

func TestTableAgreesWithAMap(t *testing.T) {
	for seed := range uint64(3) {
		b := newBed(t, 256, 0)
		m := &model{bed: b, rng: rand.New(rand.NewPCG(seed, 4)), open: map[int]*modelFlow{}, stale: map[int]bool{}}
		const universe = 400
		m.keys = b.randomFlows(m.rng, universe)
		for i := range universe {
			if other, shares := m.rival(i); shares && other < i {
				b.shared.pairs[i].key[1] = b.shared.pairs[other].key[1]
			}
		}
		for step := range 6000 {
			i := m.rng.IntN(universe)
			switch n := m.rng.IntN(100); {
			case n < 40:
				m.insert(i)
			case n < 80:
				m.lookup(i)
			case n < 97:
				m.end(i)
			case n < 99:
				m.now += uint16(m.rng.IntN(20))
				m.sweep()
			case step%10 == 0:
				for o := range m.open {
					m.stale[o] = true
				}
				clear(m.open)
				m.table.Invalidate()
			}
			if step%200 == 0 {
				m.check()
			}
		}
		m.check()
		m.empty()
	}
}
