// SPDX-License-Identifier: Apache-2.0

package flow

import "sync/atomic"

// Counts are what happened in the program on one CPU: struct flow_counts, the value of the map flow_counts.
type Counts struct {
	Hits         uint64 `json:"hits"`
	Misses       uint64 `json:"misses"` // among them stale
	Stale        uint64 `json:"stale"`  // found, but made before the last commit
	Inserts      uint64 `json:"inserts"`
	Replaced     uint64 `json:"replaced"` // an insert found another flow with its key
	Active       uint64 `json:"collected_active"`
	Full         uint64 `json:"full"`           // refused: no free flow
	Unfair       uint64 `json:"unfair"`         // refused: nearly full, and the source has more than its share
	Crowded      uint64 `json:"crowded"`        // refused: all buckets of the key are full
	Raced        uint64 `json:"raced"`          // withdrawn: another CPU made the same flow
	LostRingFull uint64 `json:"lost_ring_full"` // ended, and what they had counted found no place in the ring
}

// Sum adds the counts of all CPUs.
func Sum(cpus []Counts) (c Counts) {
	for _, o := range cpus {
		c.Hits += o.Hits
		c.Misses += o.Misses
		c.Stale += o.Stale
		c.Inserts += o.Inserts
		c.Replaced += o.Replaced
		c.Active += o.Active
		c.Full += o.Full
		c.Unfair += o.Unfair
		c.Crowded += o.Crowded
		c.Raced += o.Raced
		c.LostRingFull += o.LostRingFull
	}
	return c
}

// Stats describe the table, in the manner of rtstat.
type Stats struct {
	Counts
	Capacity int    `json:"capacity"` // flows
	Entries  int    `json:"entries"`  // flows that are not free
	Passive  uint64 `json:"collected_passive"`
	Bytes    int    `json:"memory_bytes"`
	// Depth of a header is how many buckets, of a cache line each, a lookup reads to find it.
	DepthMean float64     `json:"depth_mean"`
	DepthMax  int         `json:"depth_max"`
	Depths    [probes]int `json:"depths"` // headers by depth, 1 first
}

// Empty reports whether there is no flow.
func (t *Table) Empty() bool {
	head := atomic.LoadUint64(&t.control.head)
	return atomic.LoadUint64(&t.control.tail)-head >= uint64(t.Capacity())
}

// Stats reads the whole table: about a tenth of a second for a million flows. counts are those of all CPUs.
func (t *Table) Stats(counts []Counts) Stats {
	s := Stats{Counts: Sum(counts), Capacity: t.Capacity(), Passive: t.passive, Bytes: Size{t.Capacity()}.Bytes()}
	// Head first: it never passes tail, so the difference is never negative.
	head := atomic.LoadUint64(&t.control.head)
	s.Entries = s.Capacity - int(min(atomic.LoadUint64(&t.control.tail)-head, uint64(s.Capacity)))
	headers, sum := 0, 0
	for i := 2; i < len(t.sides); i++ {
		if !lifeOf(atomic.LoadUint64(&t.sides[i].life)).complete() {
			continue
		}
		key := t.sides[i].readKey()
		hash := t.control.secret.hash(&key)
		depth := t.find(hash, uint32(i))
		if depth == 0 {
			continue // just ended
		}
		headers++
		sum += depth
		s.Depths[depth-1]++
		s.DepthMax = max(s.DepthMax, depth)
	}
	if headers > 0 {
		s.DepthMean = float64(sum) / float64(headers)
	}
	return s
}
