// SPDX-License-Identifier: Apache-2.0

// Package histogram holds latencies in logarithmic ranges that are divided
// linearly: any value up to two minutes is known to within 1/128 (0.8 %) of
// itself, in 2048 counters.
//
// Values below 128 ns have a bucket each. Above, every power of two is divided
// into 64 buckets, whose middle stands for what was counted in them. The packet
// sink counts in the same buckets (bpf/lab_histogram.h), so both files change
// together.
package histogram

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Shape of the buckets.
const (
	linear  = 128 // values with a bucket each
	perStep = 64  // buckets per power of two
	first   = 7   // the power of two of the first divided range: 2^7 = linear
	// Buckets is how many there are.
	Buckets = 2048
)

// Histogram counts durations. Its zero value is empty and ready for use.
type Histogram struct {
	counts [Buckets]uint64
	total  uint64
}

// Bucket returns the bucket of a duration in ns. Durations of more than 2^37 ns are in the last.
func Bucket(ns uint64) int {
	if ns < linear {
		return int(ns)
	}
	e := bits.Len64(ns) - 1
	return min(linear+(e-first)*perStep+int(ns>>(e-6)&(perStep-1)), Buckets-1)
}

// middle is the duration in ns that stands for a bucket.
func middle(bucket int) uint64 {
	if bucket < linear {
		return uint64(bucket)
	}
	e := (bucket-linear)/perStep + first
	width := uint64(1) << (e - 6)
	return uint64(1)<<e + uint64((bucket-linear)%perStep)*width + width/2
}

// Record counts one duration; negative ones count as 0.
func (h *Histogram) Record(d time.Duration) { h.AddBucket(Bucket(uint64(max(0, d))), 1) }

// AddBucket counts n durations in a bucket.
func (h *Histogram) AddBucket(bucket int, n uint64) {
	h.counts[bucket] += n
	h.total += n
}

// Add counts everything that another histogram has.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 { return h.total }

// Quantile returns the least duration that at least the share q (0…1) of all does
// not exceed, to within the width of its bucket; 0 when nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	want, seen := uint64(q*float64(h.total)+0.5), uint64(0)
	want = max(1, min(want, h.total))
	for i, n := range h.counts {
		if seen += n; seen >= want {
			return time.Duration(middle(i))
		}
	}
	return 0
}

// Min returns the least duration counted.
func (h *Histogram) Min() time.Duration { return h.Quantile(0) }

// Max returns the greatest duration counted.
func (h *Histogram) Max() time.Duration { return h.Quantile(1) }

// Mean returns the mean duration.
func (h *Histogram) Mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	sum := 0.0
	for i, n := range h.counts {
		sum += float64(n) * float64(middle(i))
	}
	return time.Duration(sum / float64(h.total))
}

// String tells how many durations there are and where their middle is.
func (h Histogram) String() string {
	return fmt.Sprintf("%d durations, median %v", h.total, h.Quantile(0.5))
}

// Bar is one bucket that is not empty.
type Bar struct {
	At    time.Duration // its middle
	Count uint64
}

// Bars returns the buckets that are not empty, shortest durations first.
func (h *Histogram) Bars() (out []Bar) {
	for i, n := range h.counts {
		if n > 0 {
			out = append(out, Bar{time.Duration(middle(i)), n})
		}
	}
	return out
}

// MarshalJSON writes pairs of bucket number and count.
func (h Histogram) MarshalJSON() ([]byte, error) {
	pairs := [][2]uint64{}
	for i, n := range h.counts {
		if n > 0 {
			pairs = append(pairs, [2]uint64{uint64(i), n})
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][2]uint64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if i := slices.IndexFunc(pairs, func(p [2]uint64) bool { return p[0] >= Buckets }); i >= 0 {
		return fmt.Errorf("histogram: bucket %d: expected less than %d", pairs[i][0], Buckets)
	}
	*h = Histogram{}
	for _, p := range pairs {
		h.AddBucket(int(p[0]), p[1])
	}
	return nil
}

// Reset forgets everything.
func (h *Histogram) Reset() { *h = Histogram{} }

// Subtract takes off what an earlier state of the same histogram had.
func (h *Histogram) Subtract(earlier *Histogram) {
	for i, n := range earlier.counts {
		h.counts[i] -= n
	}
	h.total -= earlier.total
}
