// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/failover"
	"minne/internal/lab/statistics"
)

// deaths are the figures of an uplink that dies.
var deaths = []definition{
	{"failover.silent.s", "longest outage of 20 destinations when an ISP goes silent, 20,000 prefixes, BFD of 3 × 300 ms", "s", "the round before, as a difference", dies(failover.Silence)},
	{"failover.link.s", "longest outage of 20 destinations when an uplink's link goes down, 20,000 prefixes", "s", "the round before, as a difference", dies(failover.Link)},
}

// roundsOfDeath is how many rounds of a comparison take as long as one death.
const roundsOfDeath = 8

// Failing returns a router with two ISPs.
func (b *Bench) Failing(ctx context.Context) (*failover.Bed, error) {
	return b.failing.get(func() (*failover.Bed, error) {
		b.release()
		b.Progress("building a router with two ISPs")
		bed, err := failover.New(ctx, b.Means.Binary, failover.DefaultPrefixes)
		if err == nil {
			b.teardowns = append(b.teardowns, bed.Close)
		}
		return bed, err
	})
}

// dies is the longest outage of a destination in the world; against itself, each death less the one before.
func dies(k failover.Kind) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		bed, err := bench.Failing(ctx)
		if err != nil {
			return Measured{}, err
		}
		var longest, same []float64
		for i := range max(2, bench.Rounds/roundsOfDeath) {
			d, err := bed.Measure(ctx, k)
			if err != nil {
				return Measured{}, err
			}
			longest = append(longest, d.Dies.Out.Longest)
			if i > 0 {
				same = append(same, longest[i]-longest[i-1])
			}
		}
		return measured(statistics.Interval(longest), statistics.Interval(same)), nil
	}
}
