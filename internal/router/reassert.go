// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"log/slog"

	"minne/internal/kernel"
)

// reassert is the task that puts back what the kernel drops by itself of the
// running configuration: routes that go with a carrier, all of an interface that
// was unplugged and comes back. It sleeps until the watcher sees that something
// could be restored.
type reassert struct {
	log     *slog.Logger
	watcher *kernel.Watcher
	kernel  *kernel.Kernel
	ready   chan struct{}
}

func newReassert(log *slog.Logger, w *kernel.Watcher, k *kernel.Kernel) *reassert {
	r := &reassert{log: log, watcher: w, kernel: k, ready: make(chan struct{})}
	close(r.ready) // it has nothing to wait for
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
		}
		if err := r.kernel.Reassert(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("the kernel's state can't be restored fully", "task", r, "error", err)
		}
	}
}
