// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"time"

	"minne/internal/lab/result"
)

// How a goal is approached. None of this is in RFC 9971 (section 4.1.3 leaves the
// choice of loads to the implementation), and none of it decides what is a bound:
// it only saves time. The moves are those of the FD.io project's MLRsearch, so that
// the number of trials can be held against it.
//
// A goal has a ladder of targets. The first is satisfied with few seconds of
// trials and wide bounds, each further one asks for more and for half the width;
// the last is the goal itself. The bounds of one target are where the next one
// begins: its first trial is between them, as a halving is due anyway, and the
// next ones confirm the lower bound or the upper. If a bound is not confirmed, the
// search leaves the interval in strides that double until it has a new one, and
// halves from there.
const (
	coarser = 2 // targets before the goal itself
	growth  = 2 // of strides
)

// target is one rung of the ladder.
type target struct {
	demand
	width int // steps
}

// ladder makes a goal's targets, the coarsest first. Their duration sums are in
// geometric progression from the initial trial duration to the Goal Duration Sum.
func ladder(goal result.Goal, g grid) []target {
	ratio := math.Pow(goal.InitialTrial.Seconds()/goal.DurationSum.Seconds(), 1.0/coarser)
	width := g.width(goal.Width) << coarser
	var out []target
	for left := coarser; left >= 0; left-- {
		sum := time.Duration(float64(goal.DurationSum) * math.Pow(ratio, float64(left)))
		switch left {
		case coarser:
			sum = goal.InitialTrial
		case 0:
			sum = goal.DurationSum
		}
		out = append(out, target{
			demand: demand{goal.LossRatio, goal.ExceedRatio, min(goal.FinalDuration, sum), sum},
			width:  width,
		})
		width /= 2
	}
	return out
}

// candidate is the trial that a seeker would have next.
type candidate struct {
	load     int // step
	duration time.Duration
	stride   int   // common stride if this candidate is chosen
	grow     class // strides grow if the load turns out to be this bound; undecided: never
	seeker   *seeker
}

// before says which of two candidates is tried first: the lower load, as bounds
// found there stay (RFC 9971 section 5.3.4), then the longer trial, then the longer stride.
func (c candidate) before(o candidate) bool {
	switch {
	case c.load != o.load:
		return c.load < o.load
	case c.duration != o.duration:
		return c.duration > o.duration
	}
	return c.stride > o.stride
}

// seeker pursues one goal.
type seeker struct {
	grid    grid
	record  *record
	common  *int     // the least stride of all seekers: goals that leave their intervals do so together
	targets []target // still ahead; the first is the current one
	start   bounds   // where the current target began
	stride  int      // the next one when leaving an interval
}

func newSeeker(goal result.Goal, g grid, r *record, common *int, start bounds) *seeker {
	s := &seeker{grid: g, record: r, common: common, targets: ladder(goal, g)}
	s.begin(start)
	return s
}

// begin starts a target.
func (s *seeker) begin(start bounds) {
	s.start = start
	size := 0
	if start.lower != none && start.upper != none {
		size = start.upper - start.lower
	}
	s.limit(size)
}

// limit sets the next stride after a move over some width.
func (s *seeker) limit(width int) { s.stride = max(width, s.targets[0].width) * growth }

// reach is the stride to leave an interval with.
func (s *seeker) reach() int { return max(s.stride, *s.common) }

// next names the trial that this goal would have next, false when the goal is reached.
func (s *seeker) next() (candidate, bool) {
	for {
		known := s.record.relevant(s.targets[0].demand)
		for _, move := range []func(bounds) (candidate, bool){
			s.divide, s.confirmLower, s.confirmUpper, s.leaveDown, s.leaveUp, s.halve,
		} {
			if c, ok := move(known); ok {
				c.duration, c.seeker = s.targets[0].duration, s
				return c, true
			}
		}
		if len(s.targets) == 1 {
			return candidate{}, false
		}
		s.targets = s.targets[1:]
		s.begin(known)
	}
}

// tried tells the seeker that its candidate was chosen and tried.
func (s *seeker) tried(c candidate) {
	known := s.record.relevant(s.targets[0].demand)
	if c.grow == lower && known.lower == c.load || c.grow == upper && known.upper == c.load {
		s.stride *= growth
		*s.common = s.stride
	}
}

// worth says whether a trial at a load could better the bounds.
func (s *seeker) worth(load int, known bounds) bool {
	switch {
	case known.lower != none && load <= known.lower, known.upper != none && load >= known.upper:
		return false
	case known.lower == none || known.upper == none:
		return true
	}
	return known.upper-known.lower > s.targets[0].width
}

// divide tries the middle of what the target before left, if that is one halving away from done.
func (s *seeker) divide(known bounds) (candidate, bool) {
	width, size := s.targets[0].width, s.start.upper-s.start.lower
	if s.start.lower == none || s.start.upper == none || size <= width || size > 2*width {
		return candidate{}, false
	}
	return s.confirm(middle(s.start.lower, s.start.upper, width), known)
}

// confirmLower tries the lower bound that the target before left.
func (s *seeker) confirmLower(known bounds) (candidate, bool) { return s.confirm(s.start.lower, known) }

// confirmUpper tries the upper bound that the target before left.
func (s *seeker) confirmUpper(known bounds) (candidate, bool) { return s.confirm(s.start.upper, known) }

func (s *seeker) confirm(load int, known bounds) (candidate, bool) {
	if load == none || !s.worth(load, known) {
		return candidate{}, false
	}
	width := s.targets[0].width
	s.limit(width)
	return candidate{load: load, stride: width}, true
}

// leaveDown looks for a lower bound below the only upper one.
func (s *seeker) leaveDown(known bounds) (candidate, bool) {
	if known.lower != none || known.upper <= 0 {
		return candidate{}, false
	}
	return s.away(known.upper-s.reach(), upper, known)
}

// leaveUp looks for an upper bound above the only lower one.
func (s *seeker) leaveUp(known bounds) (candidate, bool) {
	if known.upper != none || known.lower == none || known.lower >= s.grid.last {
		return candidate{}, false
	}
	return s.away(known.lower+s.reach(), lower, known)
}

func (s *seeker) away(load int, grow class, known bounds) (candidate, bool) {
	load = s.grid.inside(load, s.targets[0].width, known)
	return candidate{load: load, stride: s.reach(), grow: grow}, load != none && s.worth(load, known)
}

// halve divides the interval between the bounds. A bound may have come from the
// pursuit of another goal and be far off; then a stride from the better bound
// towards where this target began is shorter than the halving, and is preferred.
func (s *seeker) halve(known bounds) (candidate, bool) {
	width := s.targets[0].width
	if known.lower == none || known.upper == none || known.upper-known.lower <= width {
		return candidate{}, false
	}
	half := middle(known.lower, known.upper, width)
	if s.start.upper != none && half < s.start.upper {
		c, ok := s.away(known.upper-s.reach(), upper, known)
		if ok && c.load > half && c.load < s.start.upper {
			return c, true
		}
	}
	if s.start.lower != none && half > s.start.lower {
		c, ok := s.away(known.lower+s.reach(), lower, known)
		if ok && c.load < half && c.load > s.start.lower {
			return c, true
		}
	}
	part := min(half-known.lower, known.upper-half)
	s.limit(part)
	return candidate{load: half, stride: part}, true
}
