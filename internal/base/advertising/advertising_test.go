// SPDX-License-Identifier: Apache-2.0

package advertising

import (
	"testing"
	"time"
)

// The first advertisements come quickly, the others between three quarters of the interval and all of it; a solicitation brings
// the next one forward, and many of them make no more than one answer in three seconds.
func TestClock(t *testing.T) {
	const responseDelay = 2 * time.Second
	now := time.Unix(1000, 0)
	for range 1000 {
		c := Clock{Interval: 10 * time.Minute, Delay: responseDelay}
		for n := 1; n < 6; n++ {
			c.Advertised(now)
			wait := c.Next.Sub(now)
			switch least := 450 * time.Second; {
			case n < initialAdvertisements && wait != initialInterval, n >= initialAdvertisements && (wait < least || wait > c.Interval):
				t.Fatalf("%d: %v", n, wait)
			}
		}
		later := now.Add(time.Minute)
		c.Solicited(later)
		if wait := c.Next.Sub(later); wait < 0 || wait > responseDelay {
			t.Fatalf("an answer after %v", wait)
		}
		c.Advertised(later)
		for range 10 {
			c.Solicited(later)
		}
		if wait := c.Next.Sub(later); wait < betweenAnswers || wait > betweenAnswers+responseDelay {
			t.Fatalf("a second answer after %v", wait)
		}
		at := c.Next
		c.Solicited(at.Add(-time.Millisecond))
		if c.Next.After(at) {
			t.Fatal("a solicitation has put an answer off")
		}
	}
}
