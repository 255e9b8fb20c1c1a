// SPDX-License-Identifier: Apache-2.0

package label

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Names of the maps of bpf/label.h.
const (
	ImageMap   = "label_image"
	LabelsMap  = "label_labels"
	FlowsMap   = "label_flows"
	LimitsMap  = "label_limits"
	TalliesMap = "label_tallies"
	HitsMap    = "label_hits"
	EffortMap  = "label_effort"
)

// Lasting are the maps that a program goes on with that takes the place of another with the same patterns.
var Lasting = []string{FlowsMap, LimitsMap, TalliesMap, HitsMap, EffortMap}

// Labels is how many labels the program's tables have room for, with 0.
const Labels = maxSets + 1

// Constants are the variables of the program.
func (s *Sets) Constants() map[string]uint32 {
	return map[string]uint32{
		"label_build": 1, "label_mask": uint32(len(s.words)) - 1,
		"label_packets": uint32(s.Packets), "label_bytes": uint32(s.Bytes),
	}
}

// ImageBytes is the size of the automata's table.
func (s *Sets) ImageBytes() uint32 { return uint32(4 * len(s.words)) }

// Entries are the sizes of the other tables, by name.
func (s *Sets) Entries() map[string]uint32 {
	n := uint32(len(s.Patterns))
	return map[string]uint32{LabelsMap: n, HitsMap: n, FlowsMap: uint32(s.Flows)}
}

// Fill writes the automata into the memory of ImageMap, before the program meets packets.
func (s *Sets) Fill(memory []byte) error {
	if len(memory) < 4*len(s.words) {
		return fmt.Errorf("match: memory of %d bytes for a table of %d", len(memory), 4*len(s.words))
	}
	copy(memory, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.words))), 4*len(s.words)))
	return nil
}

// limit mirrors struct label_limit. The program owns paid and packetsPaid.
type limit struct {
	perByte, burst      uint64
	packet, packetBurst uint64
	paid, packetsPaid   uint64
	drop                uint64
	_                   uint64
}

// Limits is the memory of LimitsMap.
type Limits []limit

// OpenLimits lays Limits over memory.
func OpenLimits(memory []byte) (Limits, error) {
	if len(memory) < Labels*int(unsafe.Sizeof(limit{})) {
		return nil, fmt.Errorf("match: memory of %d bytes is too small for limits", len(memory))
	}
	return unsafe.Slice((*limit)(unsafe.Pointer(unsafe.SliceData(memory))), Labels), nil
}

// What may pass at once, so that a rate can be used up by senders that send in bursts.
const (
	burstTime  = 100 * time.Millisecond
	burstBytes = 32 * 1500
	burstCount = 32 // packets
)

// byteShift is the binary point of limit.perByte: 100 Gbit/s are 0.08 ns a byte.
const byteShift = 16

// Set puts the limits of the sets in force, each by some stores: a packet in between may meet the old rate with
// the new burst.
func (l Limits) Set(s *Sets) {
	for label := 1; label < len(l); label++ {
		var want Set
		if label <= len(s.Sets) {
			want = s.Sets[label-1]
		}
		one := &l[label]
		var perByte, burst, packet, packetBurst, drop uint64
		if want.Rate > 0 {
			perByte = max(1, uint64(8*float64(time.Second)*(1<<byteShift)/float64(want.Rate)))
			burst = max(uint64(burstTime), perByte*burstBytes>>byteShift)
		}
		if n := uint64(want.PacketsPerSecond); n > 0 {
			packet = uint64(time.Second) / n
			packetBurst = max(uint64(burstTime), burstCount*packet)
		}
		if want.Drop {
			drop = 1
		}
		atomic.StoreUint64(&one.burst, burst)
		atomic.StoreUint64(&one.perByte, perByte)
		atomic.StoreUint64(&one.packetBurst, packetBurst)
		atomic.StoreUint64(&one.packet, packet)
		atomic.StoreUint64(&one.drop, drop)
	}
}

// Tally is what became of the packets of a label on one CPU (struct label_tally). Bytes are of IP packets.
type Tally struct{ Packets, Bytes, Dropped, DroppedBytes uint64 }

// Effort is what the search took on one CPU (struct label_effort).
type Effort struct{ Directions, Packets, Bytes, Early uint64 }

// Observed is what the patterns have found.
type Observed struct {
	Packets int           `json:"packets"` // that are looked at, of each direction
	Bytes   int           `json:"bytes"`   // of each
	Sets    []ObservedSet `json:"sets"`
	// The search: directions of flows with payload, their packets that were searched, and bytes that the automata took.
	Directions  uint64 `json:"directions"`
	Searched    uint64 `json:"searched_packets"`
	SearchBytes uint64 `json:"searched_bytes"`
	Early       uint64 `json:"early_segments"` // of TCP, that came before one that was missing
	States      int    `json:"states"`         // of the automata
	ImageBytes  int    `json:"image_bytes"`
	// Interfaces without the program: what comes in there is not looked at.
	Unseen []string `json:"unseen,omitempty"`
}

// ObservedSet is one set. Bytes are of IP packets.
type ObservedSet struct {
	Set
	Flows        uint64            `json:"flows"` // that were labelled
	Packets      uint64            `json:"labelled_packets"`
	Bytes        uint64            `json:"labelled_bytes"`
	Dropped      uint64            `json:"dropped_packets"`
	DroppedBytes uint64            `json:"dropped_bytes"`
	Patterns     []ObservedPattern `json:"patterns"`
}

// ObservedPattern is one pattern of a set.
type ObservedPattern struct {
	Text  string `json:"text"`
	Flows uint64 `json:"flows"` // that it labelled
}

// Observe puts together what was counted: by CPU, tallies by label, hits by pattern.
func (s *Sets) Observe(tallies [][]Tally, hits [][]uint64, efforts []Effort) Observed {
	o := Observed{Packets: s.Packets, Bytes: s.Bytes, States: s.States, ImageBytes: 4 * len(s.words)}
	for _, e := range efforts {
		o.Directions += e.Directions
		o.Searched += e.Packets
		o.SearchBytes += e.Bytes
		o.Early += e.Early
	}
	for i, set := range s.Sets {
		one := ObservedSet{Set: set}
		for _, t := range tallies[i+1] {
			one.Packets += t.Packets
			one.Bytes += t.Bytes
			one.Dropped += t.Dropped
			one.DroppedBytes += t.DroppedBytes
		}
		o.Sets = append(o.Sets, one)
	}
	for i, p := range s.Patterns {
		one := ObservedPattern{Text: p.Text}
		for _, n := range hits[i] {
			one.Flows += n
		}
		set := &o.Sets[p.Label-1]
		set.Flows += one.Flows
		set.Patterns = append(set.Patterns, one)
	}
	return o
}
