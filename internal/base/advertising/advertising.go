// SPDX-License-Identifier: Apache-2.0

// Package advertising says when a router advertises itself to hosts: RFC 1256, section 5, and RFC 4861, section 6.2, which have one law.
package advertising

import (
	"math/rand/v2"
	"time"
)

// The first advertisements come quickly. Answers go to all hosts, and are at least betweenAnswers apart, so that a flood of
// solicitations makes no flood of answers (RFC 4861, section 6.2.6).
const (
	initialAdvertisements = 3
	initialInterval       = 16 * time.Second
	betweenAnswers        = 3 * time.Second
)

// Clock is when the next advertisement goes out.
type Clock struct {
	Interval time.Duration // the greatest between two
	Delay    time.Duration // the greatest between a solicitation and its answer
	Next     time.Time

	sent int
	last time.Time
}

// Advertised counts an advertisement and chooses the time of the next.
func (c *Clock) Advertised(now time.Time) {
	c.sent++
	wait := c.Interval - rand.N(c.Interval/4)
	if c.sent < initialAdvertisements {
		wait = min(wait, initialInterval)
	}
	c.last, c.Next = now, now.Add(wait)
}

// Solicited brings the next advertisement forward.
func (c *Clock) Solicited(now time.Time) {
	at := now.Add(rand.N(c.Delay))
	if least := c.last.Add(betweenAnswers); at.Before(least) {
		at = least
	}
	if at.Before(c.Next) {
		c.Next = at
	}
}
