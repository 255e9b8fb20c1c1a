// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"time"

	"minne/internal/lab/trial"
)

// report tells Options.Progress where the search is; a zero load means the end.
func (s *search) report(next trial.Load) {
	if s.o.Progress == nil {
		return
	}
	status := Status{Next: next, Trials: s.trials, Elapsed: time.Since(s.started)}
	if next.Duration == 0 {
		status.Bounds = s.bounds()
		s.o.Progress(status)
		return
	}
	for i, goal := range s.o.Goals {
		targets := ladder(goal, s.grid)
		if len(s.seekers) > 0 {
			targets = s.seekers[i].targets
		}
		b := s.bound(goal, targets[0])
		if b.Irregular == "" && len(targets) > 1 {
			b.Irregular = "preliminary"
		}
		status.Bounds = append(status.Bounds, b)
	}
	status.Remaining = s.remaining()
	s.o.Progress(status)
}

// remaining estimates how long the search will take from here, if no bound found
// so far is lost again. Trials take longer than their duration: by as much as those
// before did.
func (s *search) remaining() time.Duration {
	trials, tried := 0.0, 0.0
	for i, goal := range s.o.Goals {
		targets := ladder(goal, s.grid)
		if len(s.seekers) > 0 {
			targets = s.seekers[i].targets
		}
		for j, t := range targets {
			need := max(1, math.Ceil(t.sum.Seconds()/t.duration.Seconds()*max(t.exceed, 1-t.exceed)))
			loads := 2.0 // one is halved, or one bound is confirmed, and the other
			if j == 0 {
				loads = s.left(t)
			}
			trials += loads * need
			tried += loads * need * t.duration.Seconds()
		}
	}
	overhead := 0.0
	if s.trials > 0 {
		overhead = max(0, (time.Since(s.started)-s.tried).Seconds()/float64(s.trials))
	}
	return time.Duration((tried + overhead*trials) * 1e9)
}

// left is how many loads a target still needs.
func (s *search) left(t target) float64 {
	known := s.record.relevant(t.demand)
	switch {
	case known.lower == s.grid.last || known.upper == 0:
		return 0
	case known.lower == none || known.upper == none:
		return 2
	}
	return max(0, math.Ceil(math.Log2(float64(known.upper-known.lower)/float64(t.width))))
}
