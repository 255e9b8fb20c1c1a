// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"
)

// Bell wakes who supervises. Rung twice before anybody has looked, it is heard once.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring never waits.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Supervise calls revive at once, at each ring of the bell, and when the time that it
// returned is over (0: not before the next ring), until ctx ends.
func Supervise(ctx context.Context, bell Bell, revive func(context.Context) time.Duration) {
	for {
		var timer <-chan time.Time
		if next := revive(ctx); next > 0 {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-bell:
		case <-timer:
		}
	}
}
