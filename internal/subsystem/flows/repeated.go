// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"

	"minne/internal/subsystem/fastpath/flow"
)

// FastPath is the part of the traffic that does not pass the kernel.
type FastPath interface {
	// Flows calls visit for each flow of the flow table that a filter chooses, until it returns
	// false. The fast path takes no updates meanwhile, so visit is quick. When Flows returns, the
	// Table has been told of all flows that ended before they could be visited, and while they were.
	Flows(filter flow.Filter, visit func(flow.Flow) bool)
	// TellEnded returns when the Table has been told of all flows that have ended.
	TellEnded()
	// Labels calls visit for directions of flows that patterns have labelled; one may come twice.
	Labels(visit func(key flow.Key, label string)) error
	// FlowStats describe the flow table; not ok when there is none.
	FlowStats() (stats flow.Stats, ok bool, err error)
}

// repeated is what the fast path has counted, by connection: of flows that it has, in the order of hashes, and
// of flows that have ended. A connection is known by 64 bits of a keyed hash in the place of 40 bytes of addresses
// and ports: that two of a million flows share one is less likely than a memory error, and who opens connections
// can't choose it.
type repeated struct {
	seed  maphash.Seed
	flows []counted
	ended map[uint64]*past
	label map[uint64]string // of directions of flows that patterns have labelled
	found map[uint64]bool   // those of ended whose connections the kernel has
	later map[uint64]*past  // of found, what is left where an earlier connection had counted, too
}

type counted struct {
	hash uint64
	id   uint64
	counts
}

// counts are packets and bytes of IP packets in both directions.
type counts struct{ packets, bytes [2]uint64 }

// readRepeated reads the fast path's side. It comes before the kernel's is read: a connection that ends meanwhile
// is no longer there, one that begins meanwhile has few packets. A flow that ends meanwhile is counted once.
func (t *Table) readRepeated(filter flow.Filter) (*repeated, error) {
	r := repeated{seed: t.ended.seed, label: map[uint64]string{}}
	if t.fast == nil {
		return &r, nil
	}
	err := t.fast.Labels(func(key flow.Key, label string) { r.label[hash(r.seed, &key)] = label })
	if err != nil {
		return &r, err
	}
	t.ended.begin()
	t.fast.Flows(filter, func(fl flow.Flow) bool {
		r.flows = append(r.flows, counted{hash(r.seed, &fl.Key[0]), fl.ID, counts{fl.Packets, fl.Bytes}})
		return true
	})
	var ended map[uint64]bool
	if r.ended, ended = t.ended.read(); len(ended) > 0 {
		r.flows = slices.DeleteFunc(r.flows, func(f counted) bool { return ended[f.id] })
	}
	slices.SortFunc(r.flows, func(a, b counted) int { return cmp.Compare(a.hash, b.hash) })
	return &r, nil
}

// join reads the kernel's side, and visits each connection with what the fast path has counted of it.
func (t *Table) join(ctx context.Context, r *repeated, visit func(*Connection)) error {
	r.found, r.later = make(map[uint64]bool, len(r.ended)), map[uint64]*past{}
	err := connections(ctx, func(c *Connection) {
		r.join(c)
		visit(c)
	})
	if err == nil {
		t.ended.settle(r)
	}
	return err
}

func hash(seed maphash.Seed, k *flow.Key) uint64 { return maphash.Comparable(seed, k.Words()) }

// join adds what the fast path has counted of a connection to what the kernel has.
func (r *repeated) join(c *Connection) {
	for d := 0; d < len(c.Key) && c.Label == "" && len(r.label) > 0; d++ {
		c.Label = r.label[hash(r.seed, &c.Key[d])]
	}
	if len(r.flows) == 0 && len(r.ended) == 0 {
		return
	}
	h := hash(r.seed, &c.Key[0])
	var more counts
	i, _ := slices.BinarySearchFunc(r.flows, h, func(f counted, hash uint64) int { return cmp.Compare(f.hash, hash) })
	for ; i < len(r.flows) && r.flows[i].hash == h; i++ {
		c.FastPath = true
		more.add(&r.flows[i].counts)
	}
	if p := r.ended[h]; p != nil {
		began := c.began
		if began > time.Now().UnixNano() {
			began = 0 // the clock has been set back since
		}
		sum, whole := p.since(began)
		more.add(&sum)
		if r.found[h] = true; !whole {
			r.later[h] = p.after(began)
		}
	}
	c.count(&more)
}

// count adds what the fast path has counted.
func (c *Connection) count(more *counts) {
	c.Repeated, c.repeatedBytes = more.packets, more.bytes
	for d := range 2 {
		c.Packets[d] += more.packets[d]
		c.Bytes[d] += more.bytes[d]
	}
}
