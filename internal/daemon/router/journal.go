// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// journalLines is how much of the log the daemon keeps for "show log".
const journalLines = 2000

// Journal passes the log on and keeps its last lines.
type Journal struct {
	out   io.Writer
	mu    sync.Mutex
	lines [journalLines]string
	count int           // of all lines ever
	more  chan struct{} // closed by the next line, and by the end
	ended bool          // whoever follows shall go
}

// NewJournal returns a journal in front of out.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out, more: make(chan struct{})} }

// Write takes one record of the log, as slog's handlers write it.
func (j *Journal) Write(record []byte) (int, error) {
	j.mu.Lock()
	j.lines[j.count%journalLines] = string(bytes.TrimRight(record, "\n"))
	j.count++
	close(j.more)
	j.more = make(chan struct{})
	j.mu.Unlock()
	return j.out.Write(record)
}

// Tail returns the last n lines, oldest first; n ≤ 0 is all that are kept.
func (j *Journal) Tail(n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tail(n)
}

func (j *Journal) tail(n int) []string {
	kept := min(j.count, journalLines)
	if n <= 0 || n > kept {
		n = kept
	}
	tail := make([]string, 0, n)
	for i := j.count - n; i < j.count; i++ {
		tail = append(tail, j.lines[i%journalLines])
	}
	return tail
}

// Follow says the last n lines, then each that comes, until ctx ends, End is called or say fails.
// Lines that come faster than say takes them are lost but for the last ones.
func (j *Journal) Follow(ctx context.Context, n int, say func(line string) error) error {
	j.mu.Lock()
	from := j.count - min(n, j.count)
	j.mu.Unlock()
	return j.Feed(ctx, from, func(_ int, line string) error { return say(line) })
}

// Feed says each line from a number on, counted from 0 since the start of the daemon, until ctx ends or say fails. Lines
// that say did not take before newer ones pushed them out are left out: the numbers tell.
func (j *Journal) Feed(ctx context.Context, from int, say func(number int, line string) error) error {
	for {
		j.mu.Lock()
		var lines []string
		if news := j.count - from; news > 0 {
			lines = j.tail(news)
		}
		from = j.count
		more, ended := j.more, j.ended
		j.mu.Unlock()
		for i, line := range lines {
			if err := say(from-len(lines)+i, line); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// End lets those go who follow.
func (j *Journal) End() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.ended = true
		close(j.more)
		j.more = make(chan struct{})
	}
}
