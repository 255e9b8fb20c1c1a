// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"time"

	"minne/internal/lab/histogram"
	"minne/internal/lab/traffic"
	"minne/internal/lab/trial"
)

// series looks at the counters of a running trial from time to time.
type series struct {
	done   chan struct{}
	gone   chan struct{}
	points []trial.Point
}

// startSeries begins a series when the trial is long enough for one.
func (r *Rig) startSeries(load trial.Load) *series {
	s := &series{done: make(chan struct{}), gone: make(chan struct{})}
	if load.Duration < seriesFrom {
		close(s.gone)
		return s
	}
	go func() {
		defer close(s.gone)
		tick := time.NewTicker(seriesEvery)
		defer tick.Stop()
		begun, before := time.Now(), r.look()
		for {
			select {
			case <-s.done:
				return
			case <-tick.C:
			}
			now := r.look()
			s.points = append(s.points, now.since(before, time.Since(begun)))
			before = now
		}
	}()
	return s
}

// stop ends the series and returns its points.
func (s *series) stop() []trial.Point {
	close(s.done)
	<-s.gone
	return s.points
}

// sight is the state of all counters at one moment.
type sight struct {
	sent, received uint64
	latency        histogram.Histogram
}

func (r *Rig) look() (now sight) {
	now.sent = r.sentSoFar()
	arrived, err := r.read()
	if err != nil {
		arrived = map[uint8]traffic.Arrived{} // the trial itself reads them again and reports the error
	}
	for _, a := range arrived {
		now.received += a.Received
		now.latency.Add(&a.Latency)
	}
	return now
}

// since returns what happened between two sights.
func (s sight) since(before sight, at time.Duration) trial.Point {
	s.latency.Subtract(&before.latency)
	return trial.Point{At: at, Sent: s.sent - before.sent, Received: s.received - before.received, Latency: s.latency.Quantile(0.5)}
}
