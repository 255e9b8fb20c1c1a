// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
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
	count int // of all lines ever
}

// NewJournal returns a journal in front of out.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out} }

// Write takes one record of the log, as slog's handlers write it.
func (j *Journal) Write(record []byte) (int, error) {
	j.mu.Lock()
	j.lines[j.count%journalLines] = string(bytes.TrimRight(record, "\n"))
	j.count++
	j.mu.Unlock()
	return j.out.Write(record)
}

// Tail returns the last n lines, oldest first; n ≤ 0 is all that are kept.
func (j *Journal) Tail(n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
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
