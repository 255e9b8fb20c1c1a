// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"sync"
	"time"
)

// A sampler reads counters once a second, but only while somebody wants to know
// rates: it stops by itself some time after the last question, so that an idle
// router sleeps.
type sampler[T any] struct {
	take func(context.Context) (T, error)

	mu      sync.Mutex
	samples []sample[T] // oldest first, at most sampleHistory
	until   time.Time   // when sampling stops
	running bool
}

type sample[T any] struct {
	at    time.Time
	value T
}

const (
	sampleEvery   = time.Second
	sampleHistory = 61 // samples: a minute between the first and the last
	sampleLasting = 90 * time.Second
)

// history returns the samples of the last minute, at least two: the first
// question waits a second for the second one.
func (s *sampler[T]) history(ctx context.Context) ([]sample[T], error) {
	samples, err := s.keepOn(ctx)
	if err != nil || len(samples) > 1 {
		return samples, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(sampleEvery):
	}
	return s.add(ctx)
}

// keepOn lets sampling go on for a while and returns what there is.
func (s *sampler[T]) keepOn(ctx context.Context) ([]sample[T], error) {
	s.mu.Lock()
	s.until = time.Now().Add(sampleLasting)
	started := s.running
	s.running = true
	samples := append([]sample[T](nil), s.samples...)
	s.mu.Unlock()
	if started {
		return samples, nil
	}
	samples, err := s.add(ctx)
	go s.run()
	return samples, err
}

// add takes one more sample.
func (s *sampler[T]) add(ctx context.Context) ([]sample[T], error) {
	value, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample[T]{time.Now(), value})
	if extra := len(s.samples) - sampleHistory; extra > 0 {
		s.samples = append(s.samples[:0:0], s.samples[extra:]...)
	}
	return append([]sample[T](nil), s.samples...), nil
}

// run samples until nobody has asked for sampleLasting. A sample that fails is
// left out: whoever asks next gets the error from a sample of their own.
func (s *sampler[T]) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for range tick.C {
		s.mu.Lock()
		if time.Now().After(s.until) {
			s.samples, s.running = nil, false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		_, _ = s.add(context.Background())
	}
}

// before returns the newest sample at least age older than the last one; ok is
// false when the history is shorter. Half a period of slack forgives late ticks.
func before[T any](samples []sample[T], age time.Duration) (s sample[T], ok bool) {
	last := samples[len(samples)-1].at
	for i := len(samples) - 2; i >= 0; i-- {
		if last.Sub(samples[i].at) >= age-sampleEvery/2 {
			return samples[i], true
		}
	}
	return s, false
}
