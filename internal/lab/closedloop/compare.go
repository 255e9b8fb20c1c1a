// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"math"
	"slices"

	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// Comparison says how many times faster B is than A.
type Comparison struct {
	A        Speed           `json:"a"`
	B        Speed           `json:"b"`
	Ratio    result.Interval `json:"ratio"`       // packets per second of B ÷ those of A
	SameSame result.Interval `json:"ratio_a_a"`   // A ÷ A of the same rounds: what is inside this interval is noise
	Rounds   int             `json:"rounds"`      // that count
	Voided   int             `json:"voided"`      // trials repeated because they were interrupted for too long
	GapTime  float64         `json:"gap_seconds"` // interruptions taken out of the trials that count
	Lost     uint64          `json:"lost"`        // packets that never arrived, of all trials
}

// Speed is the median of one side's trials.
type Speed struct {
	PacketsPerSecond float64 `json:"pps"`
	PerPacket        float64 `json:"ns_per_packet"` // generator and sink included
}

func speed(times ...[]float64) Speed {
	per := statistics.Median(slices.Concat(times...))
	return Speed{PacketsPerSecond: math.Round(1e9 / per), PerPacket: math.Round(per*10) / 10}
}

// Compare measures A and B, A B A in every round. The ratio of a round is between
// B and the two As around it; the result is the median over all rounds.
func Compare(ctx context.Context, a, b Side, n int) (Comparison, error) {
	r, err := alternate(ctx, n, nil, a, b, a)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{
		A: speed(r.times[0], r.times[2]), B: speed(r.times[1]),
		Rounds: n, Voided: r.voided, GapTime: r.gapTime, Lost: r.lost,
	}
	c.Ratio, c.SameSame = ratios(r.times[0], r.times[1], r.times[2])
	return c, nil
}

// ratios returns how many times faster B is than A, and A than itself, when
// these are the times of A, B and again A in every round.
func ratios(a, b, again []float64) (ratio, same result.Interval) {
	var rs, ss []float64
	for i := range b {
		rs = append(rs, math.Sqrt(a[i]*again[i])/b[i])
		ss = append(ss, a[i]/again[i])
	}
	return statistics.Interval(rs), statistics.Interval(ss)
}

// Measure returns the speed of one side alone, over some trials.
func Measure(ctx context.Context, side Side, trials int) (Speed, error) {
	r, err := alternate(ctx, trials, nil, side)
	if err != nil {
		return Speed{}, err
	}
	return speed(r.times[0]), nil
}
