// SPDX-License-Identifier: Apache-2.0

// Package search finds how much a device forwards: Multiple Loss Ratio Search
// (MLRsearch, RFC 9971) for any number of goals at once.
//
// A trial offers a load for some time and shows how much of it is lost. From the
// trials of one load follows whether it is a lower bound, an upper bound or still
// undecided for each goal (classify.go, all of it prescribed by the RFC). The
// search tries loads until the bounds of each goal are as close as the goal wants
// them (seeker.go, which the RFC leaves open). Every trial counts for every goal.
//
// In the words of RFC 9971 section 4.9 this package is the Controller; a
// trial.Tester is the Measurer. Loads are those of all directions together. The
// Trial Effective Duration is the Trial Duration.
package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// Options are the Controller Input (RFC 9971 section 4.6.8).
type Options struct {
	Goals   []result.Goal
	MinLoad float64 // frames per second, section 4.6.8.2; the shortest trial must have a frame of it
	MaxLoad float64 // frames per second, section 4.6.8.1; what the tester surely sends
	// Timeout ends the search with the bounds found so far, which are then
	// irregular (section 4.8.4.2). A trial that runs is finished first. 0: never.
	Timeout time.Duration
	// Progress is called before every trial and at the end, from the goroutine of Run.
	Progress func(Status)
}

// Status is how far a search is.
type Status struct {
	Next      trial.Load // what is tried now; zero at the end
	Trials    int        // done
	Elapsed   time.Duration
	Remaining time.Duration // an estimate; a noisy device takes longer
	// Bounds are the current ones of each goal (section 4.3.1), by the coarser
	// target that the search is at. All are marked irregular until they are final.
	Bounds []result.Bound
}

// errTimeout ends a search that took longer than Options.Timeout.
var errTimeout = errors.New("the search ran out of time")

// Run searches. It returns a bound for each goal, in the order of the goals: a
// Regular Goal Result (RFC 9971 section 4.8.4.1) or, with Irregular saying why, an
// Irregular one. Running out of time, a MinLoad that is too much, and a MaxLoad
// that is not, are irregular results and no errors.
//
// When ctx ends or the tester fails, the bounds so far come together with the error.
func Run(ctx context.Context, tester trial.Tester, o Options) ([]result.Bound, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := newSearch(ctx, tester, o)
	err := s.initial()
	if err == nil {
		err = s.loop()
	}
	if errors.Is(err, errTimeout) {
		s.stopped, err = fmt.Sprintf("the search's time of %v ran out", o.Timeout), nil
	} else if err != nil {
		s.stopped = "the search was interrupted"
	}
	s.report(trial.Load{})
	return s.bounds(), err
}

func (o Options) check() error {
	if len(o.Goals) == 0 {
		return errors.New("search: no goal: expected at least one")
	}
	if !(o.MinLoad > 0 && o.MinLoad < o.MaxLoad) {
		return fmt.Errorf("search: loads from %g to %g frames per second: expected a least load above 0 and a greater greatest one", o.MinLoad, o.MaxLoad)
	}
	for _, g := range o.Goals {
		if err := check(g); err != nil {
			return err
		}
		if o.MinLoad*g.InitialTrial.Seconds() < 1 {
			return fmt.Errorf("search goal %q: trials of %v at the least load of %g frames per second have not one frame: expected a greater least load",
				g.Name, g.InitialTrial, o.MinLoad)
		}
	}
	return nil
}

// search is the state of a run.
type search struct {
	ctx     context.Context
	tester  trial.Tester
	o       Options
	grid    grid
	record  *record
	seekers []*seeker
	stride  int // common to the seekers
	started time.Time
	trials  int
	tried   time.Duration // sum of trial durations
	stopped string        // why the search ended early
}

func newSearch(ctx context.Context, tester trial.Tester, o Options) *search {
	var widths []float64
	for _, g := range o.Goals {
		widths = append(widths, g.Width)
	}
	return &search{
		ctx: ctx, tester: tester, o: o,
		grid:    newGrid(o.MinLoad, o.MaxLoad, widths),
		record:  &record{trials: map[int][]outcome{}},
		started: time.Now(),
	}
}

// try runs one trial and records it.
func (s *search) try(step int, duration time.Duration) (outcome, error) {
	if err := context.Cause(s.ctx); err != nil {
		return outcome{}, err
	}
	if s.o.Timeout > 0 && time.Since(s.started) >= s.o.Timeout {
		return outcome{}, errTimeout
	}
	load := trial.Load{Rate: s.grid.load(step), Duration: duration}
	s.report(load)
	r, err := s.tester.Try(s.ctx, load)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{duration, r.LossRatio()}
	s.record.add(step, o)
	s.trials++
	s.tried += duration
	return o, nil
}

// initial finds out where to begin: what comes back of the greatest load (RFC
// 2285's FRMOL) is a good guess for what the device forwards, and what comes back
// of that is a better one. It makes the seekers.
func (s *search) initial() error {
	loss, duration, width := 1.0, time.Duration(0), 0
	for _, g := range s.o.Goals {
		t := ladder(g, s.grid)[0]
		loss, duration, width = min(loss, t.loss), max(duration, t.duration), max(width, t.width)
	}
	// guess is the load of which as much comes back as did of another, if all that
	// is offered beyond it is lost.
	guess := func(step int, o outcome) int {
		return s.grid.below(s.grid.load(step) * (1 - o.loss) / (1 - loss))
	}
	first, err := s.try(s.grid.last, duration)
	if err != nil {
		return err
	}
	step := guess(s.grid.last, first)
	if step >= s.grid.last {
		s.seek(s.grid.last, s.grid.last)
		return nil
	}
	step = s.grid.inside(step, width, bounds{none, s.grid.last})
	second, err := s.try(step, duration)
	if err != nil {
		return err
	}
	third, known := step+width, bounds{step, s.grid.last}
	if second.loss > loss {
		third, known = guess(step, second), bounds{none, step}
	} else {
		third = min(third, s.grid.last)
	}
	if third = s.grid.inside(third, width, known); third == none {
		s.seek(step, step)
		return nil
	}
	if _, err := s.try(third, duration); err != nil {
		return err
	}
	s.seek(min(step, third), max(step, third))
	return nil
}

// seek makes the seekers, which begin at two loads.
func (s *search) seek(lower, upper int) {
	s.stride = upper - lower
	for _, g := range s.o.Goals {
		s.seekers = append(s.seekers, newSeeker(g, s.grid, s.record, &s.stride, bounds{lower, upper}))
	}
}

// loop tries the best candidate of all seekers until none has any. Of equal ones
// that of the earlier goal is taken.
func (s *search) loop() error {
	for {
		var best candidate
		for _, seeker := range s.seekers {
			if c, ok := seeker.next(); ok && (best.seeker == nil || c.before(best)) {
				best = c
			}
		}
		if best.seeker == nil {
			return nil
		}
		if _, err := s.try(best.load, best.duration); err != nil {
			return err
		}
		s.stride = best.stride
		best.seeker.tried(best)
	}
}

// bounds returns the Search Result (RFC 9971 section 4.8.5).
func (s *search) bounds() (out []result.Bound) {
	for _, g := range s.o.Goals {
		targets := ladder(g, s.grid)
		out = append(out, s.bound(g, targets[len(targets)-1]))
	}
	return out
}

// bound is the Goal Result (section 4.8.4) by one of the goal's targets.
func (s *search) bound(goal result.Goal, t target) result.Bound {
	known := s.record.relevant(t.demand)
	b := result.Bound{Goal: goal}
	if known.upper != none {
		b.Upper = s.grid.load(known.upper)
	}
	if known.lower != none {
		b.Lower = s.grid.load(known.lower)
		b.Conditional = b.Lower * (1 - t.throughputLoss(s.record.trials[known.lower]))
	}
	switch {
	case known.upper == 0:
		b.Irregular = fmt.Sprintf("even the least load of %.0f frames per second is too much for this goal", s.o.MinLoad)
	case known.lower == s.grid.last:
		b.Unlimited = true
		b.Irregular = fmt.Sprintf("even the greatest load of %.0f frames per second meets this goal: the device may forward more than was offered", s.o.MaxLoad)
	case s.stopped != "" && (known.lower == none || known.upper == none):
		b.Irregular = s.stopped + " before both bounds were found"
	case known.lower == none || known.upper == none:
		b.Irregular = "not both bounds are found yet"
	case known.upper-known.lower > t.width && s.stopped != "":
		b.Irregular = fmt.Sprintf("%s before the bounds were within %.3g %%", s.stopped, 100*goal.Width)
	case known.upper-known.lower > t.width:
		b.Irregular = fmt.Sprintf("the bounds are not within %.3g %% yet", 100*goal.Width)
	}
	return b
}
