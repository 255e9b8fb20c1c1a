// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"minne/internal/base/health"
)

// hung is a part that answers while it is not hung.
type hung struct{ atomic.Bool }

func (h *hung) alive(ctx context.Context) error {
	if h.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

// TestAHungPartEndsTheProofs: the pings of the watchdog end with one part that does not answer, go on with a commit
// that takes its time, and come back.
func TestAHungPartEndsTheProofs(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	var part hung
	var pings, given atomic.Int64
	var busy atomic.Bool
	v := newVitals(log, health.NewBook(log), busy.Load, func() error { return nil }, []vital{{"watcher", part.alive}, {"engine", func(context.Context) error { return nil }}})
	v.every = 10 * time.Millisecond
	v.ping = func() { pings.Add(1) }
	v.giveUp = func() { given.Add(1) }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.Run(ctx) }()
	defer func() { stop(); <-ended }()
	goOn := func(what string) {
		t.Helper()
		from := pings.Load()
		for deadline := time.Now().Add(30 * time.Second); pings.Load() < from+3; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no more pings", what)
			}
		}
	}
	goOn("at work")
	v.wait()

	part.Store(true)
	for deadline := time.Now().Add(30 * time.Second); len(v.health.Faults()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a part that hangs is no fault")
		}
	}
	if f := v.health.Faults(); f[0].Key != "daemon" || f[0].Text != "parts of it do not answer: watcher" {
		t.Errorf("faults %+v", f)
	}
	from := pings.Load()
	v.mu.Lock()
	v.proved = time.Now().Add(-2 * unprovenMax)
	v.mu.Unlock()
	for deadline := time.Now().Add(30 * time.Second); given.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not give up")
		}
	}
	if pings.Load() != from {
		t.Error("pings beside a part that hangs")
	}

	busy.Store(true)
	goOn("a commit that others wait for")
	busy.Store(false)
	part.Store(false)
	goOn("again at work")
	if f := v.health.Faults(); len(f) != 0 {
		t.Errorf("faults %+v, after all answer again", f)
	}
}

// TestAStepMayTakeItsTime: the engine is alive beside a step of a commit until that is beyond its time, and not
// with a lock that somebody holds for ever.
func TestAStepMayTakeItsTime(t *testing.T) {
	b := newBench(t)
	alive := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return b.alive(ctx)
	}
	if err := alive(); err != nil {
		t.Errorf("at rest: %v", err)
	}
	leave := b.enter()
	if err := alive(); err != nil || !b.busy() {
		t.Errorf("in a step: %v, busy %v", err, b.busy())
	}
	b.stepSince.Store(int64(b.Engine.clock.sinceBoot() - stepTimeout - stepGrace - time.Second))
	if err := alive(); err == nil || b.busy() {
		t.Error("a step that does not end is taken for one at work")
	}
	leave()
	if err := alive(); err != nil || b.busy() {
		t.Errorf("after it: %v", err)
	}
	b.touch.Lock()
	defer b.touch.Unlock()
	if err := alive(); err == nil {
		t.Error("a lock that is held for ever is taken for work")
	}
}
