// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"net/netip"
	"sync"

	"minne/internal/subsystem/fastpath/flow"
)

// Meter sums what some addresses have sent and received over all their connections, those that have ended too. The kernel and the
// fast path count each packet in one of the two, so there are two books, which are added: the kernel tells the counters of a
// connection that ends, the fast path those of a flow that ends; of what goes on, both are asked.
type Meter struct {
	fast FastPath

	mu   sync.Mutex
	done map[netip.Addr]*Transferred // by metered address, what has ended
	last map[netip.Addr]Transferred  // what was told at last: sums never shrink
}

// Transferred is bytes of IP packets.
type Transferred struct{ Sent, Received uint64 }

func (t *Transferred) add(o Transferred) {
	t.Sent += o.Sent
	t.Received += o.Received
}

func newMeter(fast FastPath) *Meter {
	return &Meter{fast: fast, done: map[netip.Addr]*Transferred{}, last: map[netip.Addr]Transferred{}}
}

// Watch begins to meter an address. What it has transferred by then may be part of the sums: subtract what Read says at first.
func (m *Meter) Watch(a netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done[a] == nil {
		m.done[a] = &Transferred{}
	}
}

// Forget ends it.
func (m *Meter) Forget(a netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.done, a)
	delete(m.last, a)
}

// end adds what a connection, or a flow of one, had counted when it ended.
func (m *Meter) end(opener, responder netip.Addr, bytes [2]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.done[opener]; t != nil {
		t.add(Transferred{bytes[0], bytes[1]})
	}
	if t := m.done[responder]; t != nil {
		t.add(Transferred{bytes[1], bytes[0]})
	}
}

// Read returns the sums of all metered addresses.
func (m *Meter) Read(ctx context.Context) (map[netip.Addr]Transferred, error) {
	m.mu.Lock()
	sums := make(map[netip.Addr]Transferred, len(m.done))
	for a, t := range m.done {
		sums[a] = *t
	}
	m.mu.Unlock()
	if len(sums) == 0 {
		return sums, nil
	}
	add := func(a netip.Addr, t Transferred) {
		if s, metered := sums[a]; metered {
			s.add(t)
			sums[a] = s
		}
	}
	both := func(opener, responder netip.Addr, bytes [2]uint64) {
		add(opener, Transferred{bytes[0], bytes[1]})
		add(responder, Transferred{bytes[1], bytes[0]})
	}
	if m.fast != nil {
		m.fast.Flows(flow.Filter{}, func(f flow.Flow) bool {
			both(f.Key[0].Source, f.Key[1].Source, f.Bytes)
			return true
		})
	}
	err := connections(ctx, func(c *Connection) { both(c.Key[0].Source, c.Key[1].Source, c.Bytes) })
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, t := range sums {
		// What ends while it is read may be missed until the next time.
		was := m.last[a]
		t = Transferred{max(t.Sent, was.Sent), max(t.Received, was.Received)}
		sums[a], m.last[a] = t, t
	}
	return sums, nil
}

// Meter is that of the table's connections.
func (t *Table) Meter() *Meter { return t.meter }
