// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"log/slog"
	"time"

	"minne/internal/base/health"
	"minne/internal/base/tick"
	"minne/internal/subsystem/kernel"
)

// reassert is the task that puts back what is gone of the running configuration's part in the kernel,
// whoever took it: a hand, another program, the kernel with a carrier, a port that was unplugged and
// comes back. It sleeps until the watcher sees a change, or the slow tick one that nobody
// announces, and writes into the book of health what was changed and what is missing.
type reassert struct {
	log     *slog.Logger
	watcher *kernel.Watcher
	kernel  *kernel.Kernel
	health  *health.Book
	drifted chan struct{}
	ready   chan struct{}

	// returned is called with an interface whose link came back: whoever uses it takes it anew.
	returned func(ctx context.Context, name string)
	faults   map[string]string // that were told
}

// restShare is how much longer than a look the pause after it is: looks at a large machine, and a
// storm of changes by others, take at most a fifth of a core.
const restShare = 4

func newReassert(log *slog.Logger, w *kernel.Watcher, k *kernel.Kernel, book *health.Book, clock *tick.Tick) *reassert {
	r := &reassert{log: log, watcher: w, kernel: k, health: book, drifted: make(chan struct{}, 1), ready: make(chan struct{}),
		returned: func(context.Context, string) {}, faults: map[string]string{}}
	close(r.ready) // it has nothing to wait for
	clock.Add(func(context.Context) {
		if k.Drifted() {
			select {
			case r.drifted <- struct{}{}:
			default: // it looks already
			}
		}
	})
	return r
}

func (r *reassert) String() string         { return "reassert" }
func (r *reassert) Ready() <-chan struct{} { return r.ready }

// Run restores until ctx ends. What can't be restored now waits for the next occasion.
func (r *reassert) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.watcher.Restorable():
		case <-r.drifted:
		}
		begun := time.Now()
		report, err := r.kernel.Reassert(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("cannot read the kernel's state", "task", r, "error", err)
		}
		if report != nil {
			r.report(ctx, report)
		}
		if !sleep(ctx, restShare*time.Since(begun)) {
			return nil
		}
	}
}

// report writes down what was found.
func (r *reassert) report(ctx context.Context, report *kernel.Report) {
	for key := range r.faults {
		if report.Faults[key] == "" {
			r.health.Clear(key)
		}
	}
	for key, text := range report.Faults {
		r.health.Fault(key, text)
	}
	r.faults = report.Faults
	for _, f := range report.Repaired {
		r.health.Repaired(f.Key, f.Text)
	}
	for _, name := range report.Returned {
		r.returned(ctx, name)
	}
}
