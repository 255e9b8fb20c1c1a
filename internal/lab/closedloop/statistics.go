// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"math/rand/v2"
	"slices"
)

// Interval is a median with its 95 % confidence interval.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const resamples = 2000

// interval returns the median of the values and a percentile-bootstrap interval
// of it: medians of resamples drawn with replacement, seeded, so that the same
// measurements give the same figures.
func interval(values []float64) Interval {
	random := rand.New(rand.NewPCG(uint64(len(values)), 1))
	medians := make([]float64, resamples)
	sample := make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[random.IntN(len(values))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return Interval{Median: median(values), Low: medians[resamples*25/1000], High: medians[resamples*975/1000-1]}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
