// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"fmt"
	"math/bits"
	"os"
)

// Limits of a table. The number of a flow has 24 bits in the queue of free ones.
const (
	MinFlows = 256
	MaxFlows = 1<<24 - 2
)

const (
	bucketBytes = 64
	flowBytes   = 128     // both directions
	sourceRow   = 1 << 15 // FLOW_SOURCE_ROW
	sources     = 2 * sourceRow
)

// Size is how large a table is. The kernel allocates all of it when the maps are created: arrays that
// user space can map are not allocated page by page.
type Size struct {
	Flows int // capacity
}

// SizeFor is the default size for a machine with so many bytes of memory: at most 1/32 of it,
// and no more than a million flows (172 MB). A router with 512 MB has room for 100,000.
func SizeFor(memory uint64) Size {
	s := Size{Flows: 1 << 20}
	for s.Flows > MinFlows && uint64(s.Bytes()) > memory/32 {
		s.Flows = max(s.Flows-max(s.Flows/64, 1), MinFlows)
	}
	return s
}

// Check says what is wrong with a size that was asked for.
func (s Size) Check() error {
	if s.Flows < MinFlows || s.Flows > MaxFlows {
		return fmt.Errorf("flow table for %d flows: expected %d to %d", s.Flows, MinFlows, MaxFlows)
	}
	return nil
}

// buckets is an even number with a mean of 6.4 headers in a bucket of twelve when the table is full.
func (s Size) buckets() int { return (s.Flows*10/32 + 2) &^ 1 }

func (s Size) ringBits() int { return bits.Len(uint(s.Flows)) }

// Sizes of the ring of ended flows. The largest holds what ends in 50 ms when 100,000 flows end in a second.
const (
	toldBytes = 96 // of a flow that ended, with the ring's own header
	maxRing   = 1 << 19
)

// ring is the size of the ring of ended flows in bytes: room for a quarter of the flows.
func (s Size) ring() int {
	want := min(max(s.Flows/4*toldBytes, os.Getpagesize()), maxRing)
	return 1 << bits.Len(uint(want-1))
}

// RingRecords is what the program's flow_wake_bytes must be for somebody to be told of flows that end.
func (s Size) RingRecords() uint32 { return uint32(s.ring() / 4) }

// Entries are the sizes of the eBPF arrays by name, for the loader to set before the program is loaded.
func (s Size) Entries() map[string]uint32 {
	return map[string]uint32{
		"flow_index": uint32(s.buckets()),
		"flow_sides": uint32(2 * (s.Flows + 1)), // number 0 is nobody's
		"flow_free":  1 << s.ringBits(),
		"flow_ended": uint32(s.ring()),
	}
}

// Bytes is the memory that the table takes.
func (s Size) Bytes() int {
	return s.buckets()*bucketBytes + (s.Flows+1)*flowBytes + 8<<s.ringBits() + sources*8 + controlBytes + s.ring()
}
