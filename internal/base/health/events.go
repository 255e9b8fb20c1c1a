// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"time"
)

// keptEvents bounds how many events wait for those who follow slowly.
const keptEvents = 512

// Turn is what happened to a fault.
type Turn string

// The turns.
const (
	Raised  Turn = "raised"
	Changed Turn = "changed" // its text
	Acked   Turn = "acknowledged"
	Cleared Turn = "cleared"
)

// Event is one turn of a fault.
type Event struct {
	Number int       `json:"number"` // from 0 since the start of the daemon
	Time   time.Time `json:"time"`
	Turn   Turn      `json:"event"`
	Fault  Fault     `json:"alarm"` // as it was then
}

// events are the last ones. The book's lock guards them.
type events struct {
	last  []Event // the oldest first
	count int     // of all ever
	more  chan struct{}
}

func (e *events) add(turn Turn, f Fault) {
	e.last = append(e.last, Event{Number: e.count, Time: time.Now(), Turn: turn, Fault: f})
	if len(e.last) > keptEvents {
		e.last = append([]Event(nil), e.last[1:]...)
	}
	e.count++
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// Follow says each event from a number on, until ctx ends or say fails. Those that nobody took in time are left out: the
// numbers tell.
func (b *Book) Follow(ctx context.Context, from int, say func(Event) error) error {
	for {
		b.mu.Lock()
		var news []Event
		for _, e := range b.events.last {
			if e.Number >= from {
				news = append(news, e)
			}
		}
		from = b.events.count
		if b.events.more == nil {
			b.events.more = make(chan struct{})
		}
		more := b.events.more
		b.mu.Unlock()
		for _, e := range news {
			if err := say(e); err != nil {
				return err
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}
