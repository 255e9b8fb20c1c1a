// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"hash/maphash"

	"minne/internal/fastpath/flow"
)

// FastPath is the part of the traffic that does not pass the kernel.
type FastPath interface {
	// Flows calls visit for each flow of the flow table, until it returns false.
	Flows(visit func(flow.Flow) bool)
	// FlowStats describe the flow table; false when there is none.
	FlowStats() (flow.Stats, bool)
}

// ethernetHeader is what the fast path counts of each packet and conntrack does not.
const ethernetHeader = 14

// repeated is what the fast path has counted, by connection. A key is 64 bits of a keyed hash in the place of
// 40 bytes of addresses and ports: that two of a million flows share one is less likely than a memory
// error, and who opens connections can't choose it.
type repeated struct {
	seed   maphash.Seed
	counts map[uint64]counts
}

// counts are packets and bytes of IP packets in both directions.
type counts struct{ packets, bytes [2]uint64 }

// readRepeated reads the fast path's side. It comes before the kernel's is read: a
// flow that ends meanwhile is a connection still, one that begins meanwhile has few packets.
func readRepeated(f FastPath) repeated {
	r := repeated{maphash.MakeSeed(), map[uint64]counts{}}
	if f == nil {
		return r
	}
	f.Flows(func(fl flow.Flow) bool {
		c := counts{packets: fl.Packets}
		for d := range 2 {
			c.bytes[d] = fl.Bytes[d] - min(fl.Bytes[d], ethernetHeader*fl.Packets[d])
		}
		r.counts[r.hash(&fl.Key[0])] = c
		return true
	})
	return r
}

func (r *repeated) hash(k *flow.Key) uint64 {
	words := k.Words()
	return maphash.Comparable(r.seed, words)
}

// join adds what the fast path has counted of a connection to what the kernel has.
func (r *repeated) join(c *Connection) {
	if len(r.counts) == 0 {
		return
	}
	var more counts
	if more, c.FastPath = r.counts[r.hash(&c.Key[0])]; !c.FastPath {
		return
	}
	c.Repeated = more.packets
	for d := range 2 {
		c.Packets[d] += more.packets[d]
		c.Bytes[d] += more.bytes[d]
	}
}
