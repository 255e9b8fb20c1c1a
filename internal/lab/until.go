// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hopeless wraps an error after which asking again makes no sense.
type Hopeless struct{ Err error }

func (h Hopeless) Error() string { return h.Err.Error() }
func (h Hopeless) Unwrap() error { return h.Err }

// Pause waits for a time, or for the end of ctx, which is then its error.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Until asks ready again and again until it returns nil, at most for the given
// time. The error says what was waited for and what stood in the way last.
func Until(ctx context.Context, most time.Duration, what string, ready func() error) error {
	start := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(pause*5/4, 250*time.Millisecond) {
		err := ready()
		var hopeless Hopeless
		switch {
		case err == nil:
			return nil
		case errors.As(err, &hopeless):
			return fmt.Errorf("waiting for %s: %w", what, hopeless.Err)
		case time.Since(start) > most:
			return fmt.Errorf("waited %s for %s: %w", most, what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(pause):
		}
	}
}
