// SPDX-License-Identifier: Apache-2.0

package flowrecord

import (
	"context"
	"sync"
)

// Feed gives records to all who asked for them. Who tells never waits: a queue that is full loses records, and counts them.
type Feed struct {
	mu     sync.Mutex
	queues map[*Queue]struct{}
	ended  chan struct{}
}

// NewFeed returns a feed that nobody has asked for yet.
func NewFeed() *Feed {
	return &Feed{queues: map[*Queue]struct{}{}, ended: make(chan struct{})}
}

// Tell gives records to all queues. They may keep them.
func (f *Feed) Tell(records []Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q := range f.queues {
		q.add(records)
	}
}

// End says that no more records come. It may be called once.
func (f *Feed) End() { close(f.ended) }

// Ended is closed when no more records come.
func (f *Feed) Ended() <-chan struct{} { return f.ended }

// Queue returns a queue of at most so many records, which gets all that are told from now on.
func (f *Feed) Queue(most int) *Queue {
	q := &Queue{feed: f, most: most, some: make(chan struct{}, 1)}
	f.mu.Lock()
	f.queues[q] = struct{}{}
	f.mu.Unlock()
	return q
}

// Queue has the records that one listener has not taken yet.
type Queue struct {
	feed *Feed
	most int
	some chan struct{} // has a word when there are records

	mu      sync.Mutex
	batches [][]Record
	waiting int
	lost    uint64
}

// Close ends a queue: it gets no more.
func (q *Queue) Close() {
	q.feed.mu.Lock()
	delete(q.feed.queues, q)
	q.feed.mu.Unlock()
}

func (q *Queue) add(records []Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(records), max(q.most-q.waiting, 0))
	q.lost += uint64(len(records) - n)
	if n == 0 {
		return
	}
	q.batches, q.waiting = append(q.batches, records[:n:n]), q.waiting+n
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// Next waits for records, the earliest first. It returns none when ctx ends.
func (q *Queue) Next(ctx context.Context) []Record {
	for {
		q.mu.Lock()
		if len(q.batches) > 0 {
			batch := q.batches[0]
			q.batches = q.batches[1:]
			q.waiting -= len(batch)
			q.mu.Unlock()
			return batch
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-q.some:
		}
	}
}

// PutBack puts records that were taken in front again.
func (q *Queue) PutBack(records []Record) {
	if len(records) == 0 {
		return
	}
	q.mu.Lock()
	q.batches, q.waiting = append([][]Record{records}, q.batches...), q.waiting+len(records)
	q.mu.Unlock()
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// Figures are how many records wait, and how many were lost since the beginning.
func (q *Queue) Figures() (waiting int, lost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.lost
}
