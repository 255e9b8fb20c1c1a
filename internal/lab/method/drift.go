// SPDX-License-Identifier: Apache-2.0

package method

import (
	"math"
	"slices"

	"minne/internal/lab/statistics"
)

// Bounds of what findDrift looks at.
const (
	leastRates = 10   // fewer tell nothing
	mostBlocks = 100  // rates are joined into so many blocks
	leastDrift = 1e-5 // relative change in all that is no drift however sure: the counts' own granularity
)

// rate is the forwarding rate at a time.
type rate struct{ hours, value float64 }

// merge is the weighted mean of two rates.
func (r rate) merge(o rate, weight, other float64) rate {
	sum := weight + other
	return rate{(r.hours*weight + o.hours*other) / sum, (r.value*weight + o.value*other) / sum}
}

// drift is the relative change of a rate per hour with its 95 % confidence interval.
type drift struct {
	perHour, low, high float64
	known              bool // there were enough rates
	real               bool // the interval excludes 0, and the change in all is more than the noise
}

// findDrift fits a line that outliers don't move: its slope is the median of the
// slopes between any two rates (Theil 1950, Sen 1968), its confidence interval is
// Sen's, by the variance of Kendall's statistic.
//
// That interval supposes that neighbours are independent, and on shared machines they are
// not: busy spells last. So rates are joined into at most a hundred blocks by
// their medians, and a drift must not only exclude 0 but amount, over the whole time, to
// more than the rates scatter about the line.
func findDrift(rates []rate) drift {
	if len(rates) < leastRates {
		return drift{}
	}
	blocks := join(rates)
	var slopes []float64
	for i, a := range blocks {
		for _, b := range blocks[i+1:] {
			slopes = append(slopes, (b.value-a.value)/(b.hours-a.hours))
		}
	}
	slices.Sort(slopes)
	n := float64(len(blocks))
	spread := 1.96 * math.Sqrt(n*(n-1)*(2*n+5)/18)
	at := func(rank float64) float64 {
		return slopes[max(0, min(len(slopes)-1, int(math.Round(rank))))]
	}
	slope, all := statistics.Median(slopes), float64(len(slopes))
	level := medianOf(blocks, func(r rate) float64 { return r.value })
	if level <= 0 {
		return drift{}
	}
	d := drift{perHour: slope / level, low: at((all-spread)/2-1) / level, high: at((all+spread)/2) / level, known: true}
	total := math.Abs(d.perHour) * (blocks[len(blocks)-1].hours - blocks[0].hours)
	d.real = (d.low > 0 || d.high < 0) && total > max(leastDrift, scatter(rates, slope)/level)
	return d
}

// join makes at most mostBlocks of the rates, each at the median of its part.
func join(rates []rate) (out []rate) {
	n := min(len(rates), mostBlocks)
	for i := range n {
		part := rates[i*len(rates)/n : (i+1)*len(rates)/n]
		out = append(out, rate{
			hours: medianOf(part, func(r rate) float64 { return r.hours }),
			value: medianOf(part, func(r rate) float64 { return r.value }),
		})
	}
	return out
}

// scatter is the standard deviation about a line of that slope, told from the median
// of the deviations (× 1.4826 for normal noise) so that outliers don't count.
func scatter(rates []rate, slope float64) float64 {
	rest := func(r rate) float64 { return r.value - slope*r.hours }
	middle := medianOf(rates, rest)
	return 1.4826 * medianOf(rates, func(r rate) float64 { return math.Abs(rest(r) - middle) })
}

func medianOf(rates []rate, of func(rate) float64) float64 {
	values := make([]float64, len(rates))
	for i, r := range rates {
		values[i] = of(r)
	}
	return statistics.Median(values)
}
