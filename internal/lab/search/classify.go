// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"slices"
	"time"
)

// outcome is what a search keeps of a trial: its Trial Duration (RFC 9971 section
// 4.5.1; the Trial Effective Duration of section 4.5.8 is the same here) and its
// Trial Loss Ratio (section 4.5.6).
type outcome struct {
	duration time.Duration
	loss     float64
}

// class is the Load Classification (RFC 9971 section 4.7.2).
type class int

const (
	undecided class = iota // section 4.7.2.3: trials to come decide
	lower                  // section 4.7.2.2: certain to meet the goal
	upper                  // section 4.7.2.1: certain to fail it
)

// demand is what a load is judged by: the required attributes of a Search Goal
// (RFC 9971 section 4.6.7), or those of a coarser target on the way to it.
type demand struct {
	loss     float64       // Goal Loss Ratio, section 4.6.3
	exceed   float64       // Goal Exceed Ratio, section 4.6.4
	duration time.Duration // Goal Final Trial Duration, section 4.6.1
	sum      time.Duration // Goal Duration Sum, section 4.6.2
}

// tally adds up the durations of one load's trials by Trial Classification (RFC
// 9971 section 4.7.1), in seconds: short trials are shorter than the Goal Final
// Trial Duration, high-loss trials lose more than the Goal Loss Ratio.
type tally struct {
	fullLow, fullHigh, shortLow, shortHigh float64
}

func (d demand) tally(trials []outcome) (t tally) {
	for _, o := range trials {
		high, seconds := o.loss > d.loss, o.duration.Seconds()
		switch full := o.duration >= d.duration; {
		case full && high:
			t.fullHigh += seconds
		case full:
			t.fullLow += seconds
		case high:
			t.shortHigh += seconds
		default:
			t.shortLow += seconds
		}
	}
	return t
}

// classify says what the trials of a load so far make of it (RFC 9971 section 6.1
// and appendix A). The load is a lower bound if even the worst outcomes of the
// trials missing from the Goal Duration Sum would leave no more than the Goal
// Exceed Ratio of the time in high-loss trials; an upper bound if even the best
// would leave more.
//
// Short trials can only speak against a load: as far as the high-loss ones among
// them exceed what the low-loss ones excuse, they count as if they were full.
func (d demand) classify(trials []outcome) class {
	t := d.tally(trials)
	excused := t.shortLow * d.exceed / (1 - d.exceed)
	high := t.fullHigh + max(0, t.shortHigh-excused)
	whole := max(high+t.fullLow, d.sum.Seconds())
	allowed := whole * d.exceed
	switch {
	case whole-t.fullLow <= allowed: // all that is missing is high-loss
		return lower
	case high > allowed: // all that is missing is low-loss
		return upper
	}
	return undecided
}

// throughputLoss is the loss ratio behind the Conditional Throughput (RFC 9971
// sections 4.8.3 and 6.2, appendix B) of a load: that of the full-length trial at
// the quantile which the Goal Exceed Ratio says, the median for 0.5. Trials missing
// from the Goal Duration Sum count as total loss, so it is a cautious figure.
func (d demand) throughputLoss(trials []outcome) float64 {
	full := slices.DeleteFunc(slices.Clone(trials), func(o outcome) bool { return o.duration < d.duration })
	slices.SortStableFunc(full, func(a, b outcome) int { return cmp.Compare(a.loss, b.loss) })
	sum := 0.0
	for _, o := range full {
		sum += o.duration.Seconds()
	}
	remaining := max(sum, d.sum.Seconds()) * (1 - d.exceed)
	for _, o := range full {
		if remaining -= o.duration.Seconds(); remaining <= 0 {
			return o.loss
		}
	}
	return 1
}

// bounds are two loads in steps of the grid, or none.
type bounds struct{ lower, upper int }

// record holds all trials of a search, by load.
type record struct {
	loads  []int // sorted
	trials map[int][]outcome
}

func (r *record) add(step int, o outcome) {
	if at, there := slices.BinarySearch(r.loads, step); !there {
		r.loads = slices.Insert(r.loads, at, step)
	}
	r.trials[step] = append(r.trials[step], o)
}

// relevant returns the relevant bounds as of now: the Relevant Upper Bound is the
// least load that is an upper bound (RFC 9971 section 4.8.1), the Relevant Lower
// Bound the greatest lower bound below it (section 4.8.2). Lower bounds above an
// upper bound are taken for luck (section 5.3.3).
//
// Without an upper bound the greatest lower bound is returned, which the RFC calls
// "effective" (section 4.8.4.2).
func (r *record) relevant(d demand) bounds {
	found := bounds{none, none}
	for _, step := range r.loads {
		switch d.classify(r.trials[step]) {
		case lower:
			found.lower = step
		case upper:
			found.upper = step
			return found
		}
	}
	return found
}
