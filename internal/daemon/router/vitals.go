// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"minne/internal/base/health"
)

// How often the daemon proves that it is alive, and how long it may not before it gives itself up where
// nothing else would end it. The systemd unit says WatchdogSec=20.
const (
	provingTime = 10 * time.Second
	unprovenMax = 30 * time.Second
)

// vital is a part without which the daemon does not do its work.
type vital struct {
	name string
	// alive returns once the part has done a little work, or with ctx.
	alive func(ctx context.Context) error
}

// vitals is the task that proves that the daemon does its work, and not only that the process lives: every part
// is asked to do a little, again and again. A lock that is held for ever or a loop that stands still ends
// the proofs, and with them what they feed: the service manager's watchdog, and the machine's on the
// image. A commit may take its time.
type vitals struct {
	log    *slog.Logger
	health *health.Book
	parts  []vital
	every  time.Duration
	beat   func() error // lets the fast path trust its tables for some more time
	ping   func()       // tells the service manager; nil where there is none that waits
	busy   func() bool  // a commit is at work, which others may have to wait for
	giveUp func()       // ends the process, where only that brings another; nil elsewhere

	mu     sync.Mutex
	proved time.Time     // when all parts were alive the last time
	fresh  chan struct{} // closed by the next proof
	silent string        // parts that did not answer in the last round
}

func newVitals(log *slog.Logger, book *health.Book, busy func() bool, beat func() error, parts []vital) *vitals {
	v := &vitals{log: log, health: book, busy: busy, beat: beat, parts: parts, every: provingTime, proved: time.Now(), fresh: make(chan struct{})}
	if limit := watchdogTime(); limit > 0 {
		v.every = limit / 4
		v.ping = func() { notify("WATCHDOG=1") }
	}
	return v
}

// watchdogTime is how long the service manager waits for a sign of life; 0 for ever (sd_watchdog_enabled(3)).
func watchdogTime() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

func (v *vitals) String() string { return "vitals" }

// Ready is ready from the beginning.
func (v *vitals) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// Run proves until ctx ends.
func (v *vitals) Run(ctx context.Context) error {
	tick := time.NewTicker(v.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if silent := v.round(ctx); len(silent) > 0 {
			v.miss(strings.Join(silent, ", "))
			continue
		}
		v.prove()
	}
}

// round asks all parts, and names those that do not answer before the next.
func (v *vitals) round(ctx context.Context) (silent []string) {
	ctx, cancel := context.WithTimeout(ctx, v.every)
	defer cancel()
	type answer struct {
		part int
		err  error
	}
	answers := make(chan answer, len(v.parts))
	for i, p := range v.parts {
		go func() { answers <- answer{i, p.alive(ctx)} }()
	}
	waiting := make(map[int]bool, len(v.parts))
	for i := range v.parts {
		waiting[i] = true
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			if a.err == nil {
				delete(waiting, a.part)
				continue
			}
		case <-ctx.Done():
		}
		break
	}
	if v.busy() {
		return nil
	}
	for i, p := range v.parts {
		if waiting[i] {
			silent = append(silent, p.name)
		}
	}
	return silent
}

func (v *vitals) prove() {
	v.mu.Lock()
	v.proved, v.silent = time.Now(), ""
	close(v.fresh)
	v.fresh = make(chan struct{})
	v.mu.Unlock()
	v.health.Clear("daemon")
	if err := v.beat(); err != nil {
		v.log.Warn("cannot renew the fast path's watchdog; without it the kernel takes over forwarding in three minutes", "error", err)
	}
	if v.ping != nil {
		v.ping()
	}
}

// miss takes down that a round ended without a proof. One is no fault yet on a machine that has much to do.
func (v *vitals) miss(silent string) {
	v.mu.Lock()
	again, since := v.silent != "", time.Since(v.proved)
	v.silent = silent
	v.mu.Unlock()
	if !again {
		return
	}
	v.health.Fault("daemon", "parts of it do not answer: "+silent)
	if v.giveUp != nil && since > unprovenMax {
		v.log.Error("stopping so that the supervisor starts a new daemon: parts do not respond", "silent", silent, "for", since.Round(time.Second))
		v.giveUp()
	}
}

// wait returns once the daemon has proved anew that it is alive.
func (v *vitals) wait() {
	v.mu.Lock()
	fresh := v.fresh
	v.mu.Unlock()
	<-fresh
}

// stepGrace is what a step may take beyond its time limit before it is one that hangs.
const stepGrace = 30 * time.Second

// enter takes the subsystems for a change or a question, and notes since when.
func (e *Engine) enter() (leave func()) {
	e.touch.Lock()
	e.beginStep()
	return func() {
		e.stepSince.Store(0)
		e.touch.Unlock()
	}
}

func (e *Engine) beginStep() { e.stepSince.Store(int64(e.clock.sinceBoot())) }

// busy says whether a step of a commit is at work that may still take its time.
func (e *Engine) busy() bool {
	since := e.stepSince.Load()
	return since != 0 && e.clock.sinceBoot()-time.Duration(since) < stepTimeout+stepGrace
}

// alive returns once the engine answers, and its subsystems are free or busy.
func (e *Engine) alive(ctx context.Context) error {
	e.State()
	for {
		if e.touch.TryLock() {
			e.touch.Unlock()
			return nil
		}
		if e.busy() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a step of the commit is stuck: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
