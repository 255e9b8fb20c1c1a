// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"hash/maphash"
	"slices"

	"minne/internal/fastpath/flow"
)

// FastPath is the part of the traffic that does not pass the kernel.
type FastPath interface {
	// Flows calls visit for each flow of the flow table that a filter chooses, until it returns
	// false. The fast path takes no updates meanwhile, so visit is quick.
	Flows(filter flow.Filter, visit func(flow.Flow) bool)
	// FlowStats describe the flow table; not ok when there is none.
	FlowStats() (stats flow.Stats, ok bool, err error)
}

// repeated is what the fast path has counted, by connection, in the order of hashes. A connection is known by
// 64 bits of a keyed hash in the place of 40 bytes of addresses and ports: that two of a million flows share
// one is less likely than a memory error, and who opens connections can't choose it.
type repeated struct {
	seed  maphash.Seed
	flows []counted
}

type counted struct {
	hash uint64
	counts
}

// counts are packets and bytes of IP packets in both directions.
type counts struct{ packets, bytes [2]uint64 }

// readRepeated reads the fast path's side. It comes before the kernel's is read: a
// flow that ends meanwhile is a connection still, one that begins meanwhile has few packets.
func readRepeated(f FastPath, filter flow.Filter) repeated {
	r := repeated{seed: maphash.MakeSeed()}
	if f == nil {
		return r
	}
	f.Flows(filter, func(fl flow.Flow) bool {
		r.flows = append(r.flows, counted{hash(r.seed, &fl.Key[0]), counts{fl.Packets, fl.Bytes}})
		return true
	})
	slices.SortFunc(r.flows, func(a, b counted) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

func hash(seed maphash.Seed, k *flow.Key) uint64 { return maphash.Comparable(seed, k.Words()) }

// join adds what the fast path has counted of a connection to what the kernel has.
func (r *repeated) join(c *Connection) {
	if len(r.flows) == 0 {
		return
	}
	i, found := slices.BinarySearchFunc(r.flows, hash(r.seed, &c.Key[0]), func(f counted, hash uint64) int { return cmp.Compare(f.hash, hash) })
	if !found {
		return
	}
	more := &r.flows[i]
	c.FastPath, c.Repeated = true, more.packets
	for d := range 2 {
		c.Packets[d] += more.packets[d]
		c.Bytes[d] += more.bytes[d]
	}
}
