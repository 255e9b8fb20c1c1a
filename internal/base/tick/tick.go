// SPDX-License-Identifier: Apache-2.0

// Package tick is the one slow clock of a router: for what has to be looked at now and then
// because nobody announces its changes. All looks share one wake-up, so that an idle processor
// sleeps as long as it can; what is announced is never looked for here.
package tick

import (
	"context"
	"sync"
	"time"
)

// Every is the time between two looks: what is changed silently is noticed within it.
const Every = 2 * time.Second

// Tick is the clock of one router. The zero value is not usable, see New.
type Tick struct {
	every time.Duration
	ready chan struct{}

	mu    sync.Mutex
	looks []func(context.Context)
}

// New returns a clock that looks at nothing yet.
func New() *Tick {
	t := &Tick{every: Every, ready: make(chan struct{})}
	close(t.ready) // it has nothing to wait for
	return t
}

// Add lets look be called at every tick from now on. Looks are called one after the other and
// share one goroutine: a look reads little and hands longer work on.
func (t *Tick) Add(look func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks = append(t.looks, look)
}

// String names the task.
func (t *Tick) String() string { return "tick" }

// Ready is closed from the start.
func (t *Tick) Ready() <-chan struct{} { return t.ready }

// Run ticks until ctx ends.
func (t *Tick) Run(ctx context.Context) error {
	clock := time.NewTicker(t.every)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		}
		t.mu.Lock()
		looks := t.looks
		t.mu.Unlock()
		for _, look := range looks {
			look(ctx)
		}
	}
}
