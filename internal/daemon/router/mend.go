// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"log/slog"
	"time"
)

// Pauses between attempts to complete a configuration: short at first, for a
// port that its driver has not made yet, then rarer.
const (
	mendFirst = time.Second
	mendLast  = time.Minute
)

// mender is the task that tries again when the running configuration could not
// be put in place fully. Without such a failure it sleeps without a timer.
type mender struct {
	log     *slog.Logger
	reapply func(context.Context) error
	pause   time.Duration // before the first attempt
	woken   chan struct{}
	now     chan struct{} // ends a pause
	ready   chan struct{}
}

func newMender(log *slog.Logger) *mender {
	m := &mender{log: log, pause: mendFirst, woken: make(chan struct{}, 1), now: make(chan struct{}), ready: make(chan struct{})}
	close(m.ready) // it has nothing to wait for
	return m
}

// wake says that something is missing.
func (m *mender) wake() {
	select {
	case m.woken <- struct{}{}:
	default: // already awake
	}
}

// soon ends the pause before the next attempt, if one is due: what was missing may be there.
func (m *mender) soon() {
	select {
	case m.now <- struct{}{}:
	default: // nothing is missing
	}
}

func (m *mender) String() string         { return "mend" }
func (m *mender) Ready() <-chan struct{} { return m.ready }

// Run tries again after each failure until it works.
func (m *mender) Run(ctx context.Context) error {
	pause := m.pause
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.woken:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		case <-m.now:
		}
		err := m.reapply(ctx)
		switch {
		case err == nil:
			m.log.Info("the running configuration is in force again")
			pause, said = m.pause, ""
		case ctx.Err() == nil:
			if err.Error() != said { // once per cause
				m.log.Warn("parts of the running configuration are still not in force", "error", err)
				said = err.Error()
			}
			pause = min(2*pause, mendLast)
			m.wake()
		}
	}
}
