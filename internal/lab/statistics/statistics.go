// SPDX-License-Identifier: Apache-2.0

// Package statistics turns repeated measurements into a figure with its
// uncertainty, and two figures into a verdict.
//
// Times on a shared machine are not normally distributed: most are close
// together, some are far too long. So a figure is a median, and its 95 %
// confidence interval comes from the measurements themselves (bootstrap), not from
// a formula that assumes a distribution. What measurements share, like a machine
// that is slow for a second, is taken out before, by pairing: measure A and B
// within milliseconds of each other, and take the median of the pairs' ratios.
package statistics

import (
	"math/rand/v2"
	"slices"

	"minne/internal/lab/result"
)

const resamples = 2000

// Extra is by how much the values of more are above those of plain, which were taken before and again after them in each
// round, and what the latter two differ by.
func Extra(plain, more, again []float64) (longer, same result.Interval) {
	var ls, ss []float64
	for i := range more {
		ls = append(ls, more[i]-(plain[i]+again[i])/2)
		ss = append(ss, again[i]-plain[i])
	}
	return Interval(ls), Interval(ss)
}

// Interval returns the median of the values and its 95 % confidence interval by
// the percentile bootstrap: the middle 95 % of the medians of samples drawn from
// the values with replacement. It is seeded: the same values give the same interval. Of
// fewer than about ten values it is too narrow; of one it is that value.
func Interval(values []float64) result.Interval {
	if len(values) == 0 {
		return result.Interval{}
	}
	random := rand.New(rand.NewPCG(uint64(len(values)), 1))
	medians := make([]float64, resamples)
	sample := make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[random.IntN(len(values))]
		}
		slices.Sort(sample)
		medians[i] = middle(sample)
	}
	slices.Sort(medians)
	return result.Interval{Median: Median(values), Low: medians[resamples*25/1000], High: medians[resamples*975/1000-1]}
}

// Median returns the middle value, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return middle(slices.Sorted(slices.Values(values)))
}

// Quantile is the value below which the share q of one or more values lies, between the two nearest of them.
func Quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
