// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"math"

	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// Cost measures the processor time that the side's device alone takes for a
// packet: with the device less without it. Each round is with, without, with; the
// difference of its two equal trials is the noise. What the device's own ports
// cost (taking a frame from one veth and giving it to another) is part of the device.
// When ctx ends, the rounds until then are the figure that comes with the error.
func Cost(ctx context.Context, side Side, n int, progress func(done int)) (result.Cost, error) {
	r, err := alternate(ctx, n, progress, side, Side{Path: side.rig.Direct, Load: side.Load}, side)
	if r.complete() == 0 {
		return result.Cost{}, err
	}
	c := cost(r.times[0], r.times[1], r.times[2])
	c.Subject = side.Load.Subject
	c.Device = side.Name
	c.Rounds, c.Voided, c.Lost = r.complete(), r.voided, r.lost
	return c, err
}

// cost works out the figures of rounds of with, without, with.
func cost(with, without, again []float64) result.Cost {
	var own, same, both []float64
	for i := range with {
		mean := (with[i] + again[i]) / 2
		both = append(both, mean)
		own = append(own, mean-without[i])
		same = append(same, with[i]-again[i])
	}
	return result.Cost{
		PerPacket: statistics.Interval(own), With: statistics.Interval(both),
		Without: statistics.Interval(without), SameSame: statistics.Interval(same),
	}
}

// Against compares device B with device A by rate, and by cost with generator and
// sink taken off. again is the same device as A, built once more: what two equal
// devices differ by, each with its own place in memory, is noise, too. When ctx ends, the
// rounds until then are the figure that comes with the error.
func Against(ctx context.Context, a, b, again Side, n int, progress func(done int)) (result.Comparison, error) {
	r, err := alternate(ctx, n, progress, a, b, again, Side{Path: a.rig.Direct, Load: a.Load})
	if r.complete() == 0 {
		return result.Comparison{}, err
	}
	c := against(r.times[0], r.times[1], r.times[2], r.times[3])
	c.Subject = a.Load.Subject
	c.A, c.B, c.Rounds, c.Voided, c.Lost = a.Name, b.Name, r.complete(), r.voided, r.lost
	return c, err
}

// against works out the figures of rounds of A, B, again A, and no device.
func against(a, b, again, without []float64) result.Comparison {
	var c result.Comparison
	c.RateA, c.RateB = speed(a, again).PacketsPerSecond, speed(b).PacketsPerSecond
	c.Ratio, c.SameSame = ratios(a, b, again)
	c.Verdict = string(statistics.Assess(c.Ratio, c.SameSame))
	c.CostRatio = costRatio(a, b, again, without)
	return c
}

// costRatio is how many times more A costs than B, without generator and sink;
// nil when a device costs too little to divide by, like a cable.
func costRatio(a, b, again, without []float64) *result.Interval {
	var costA, costB, rs []float64
	for i := range b {
		ownA, ownB := math.Sqrt(a[i]*again[i])-without[i], b[i]-without[i]
		costA, costB = append(costA, ownA), append(costB, ownB)
		rs = append(rs, ownA/ownB)
	}
	// Less than a hundredth of what generator and sink take is not told apart from nothing.
	least := statistics.Median(without) / 100
	if statistics.Interval(costA).Low < least || statistics.Interval(costB).Low < least {
		return nil
	}
	ratio := statistics.Interval(rs)
	return &ratio
}
