// SPDX-License-Identifier: Apache-2.0

// Package session is one run of the lab: it gathers what is measured into one
// result, tells how far it is and how long it will take, and keeps a valid
// report on disk from the first figure on, so that Ctrl-C, a crash or a power cut
// costs only what was not measured yet.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/report"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// saveEvery is how often a running measurement is written to disk.
const saveEvery = 10 * time.Second

// Options say what a session is.
type Options struct {
	Title    string    // of the report
	Command  []string  // how to repeat it
	Version  string    // of this binary
	Commit   string    // that it was built from; empty when not known
	Dir      string    // of the report; empty writes none
	Progress io.Writer // where people look meanwhile
}

// Session is one run of the lab.
type Session struct {
	progress *progress
	dir      string
	watch    *machine.Watch

	mu    sync.Mutex
	r     result.Result
	saved time.Time
}

// Begin starts a session. When it has a directory, that is made at once, so that a
// path that can't be written fails before hours of measuring.
func Begin(o Options) (*Session, error) {
	if o.Dir != "" {
		if err := newDirectory(o.Dir); err != nil {
			return nil, err
		}
	}
	s := &Session{progress: newProgress(o.Progress), dir: o.Dir, watch: machine.StartWatch()}
	s.r = result.Result{
		Schema: result.Schema, Title: o.Title, Command: o.Command, Started: time.Now(),
		Minne:   result.Build{Version: o.Version, Commit: o.Commit, Go: runtime.Version()},
		Machine: machine.Read(),
	}
	return s, nil
}

// newDirectory makes an empty directory, or takes one that is already there and empty.
func newDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("report directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("report directory %s is not empty: give another with --out, or remove it; reports are never overwritten", dir)
	}
	return nil
}

// Update changes the result; the change is on disk some seconds later, and at the latest at End.
func (s *Session) Update(change func(*result.Result)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.r)
	if s.dir == "" || time.Since(s.saved) < saveEvery {
		return
	}
	s.saved = time.Now()
	snapshot := s.r
	snapshot.Ended, snapshot.Partial = s.saved, "the measurement was still running when this was written"
	if err := report.Write(s.dir, &snapshot); err != nil {
		s.progress.Line(fmt.Sprintf("the report could not be written: %v", err))
	}
}

// Record keeps a trial with its raw counters.
func (s *Session) Record(t trial.Result) {
	t.Streams = slices.Clone(t.Streams) // the caller's keep theirs
	for i := range t.Streams {          // their sum stays
		t.Streams[i].Latency.Reset()
	}
	if t.Purpose == "soak" { // thousands of them: their series is in the soak itself
		t.Latency.Reset()
	}
	s.Update(func(r *result.Result) { r.Trials = append(r.Trials, t) })
}

// Note adds something that a reader must know to judge the figures, once.
func (s *Session) Note(text string) {
	s.Update(func(r *result.Result) {
		for _, n := range r.Notes {
			if n == text {
				return
			}
		}
		r.Notes = append(r.Notes, text)
	})
}

// Step says what is being done now.
func (s *Session) Step(format string, args ...any) { s.progress.Line(fmt.Sprintf(format, args...)) }

// Progress shows the state of a long step; left is the time that it will still take, 0 when unknown.
func (s *Session) Progress(text string, left time.Duration) { s.progress.Status(text, left) }

// End completes the result. cause is why the run ended; nil is "as planned". It returns the
// result and the error of the whole run.
func (s *Session) End(cause error) (*result.Result, error) {
	s.progress.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r.Ended = time.Now()
	s.r.Machine.Steal = s.watch.Steal()
	s.r.Notes = append(s.r.Notes, s.watch.Notes()...)
	switch {
	case errors.Is(cause, context.Canceled):
		s.r.Partial = "interrupted by the user"
	case cause != nil:
		s.r.Partial = cause.Error()
	}
	if s.dir == "" {
		return &s.r, cause
	}
	if cause != nil && s.Empty() {
		return &s.r, errors.Join(cause, os.RemoveAll(s.dir)) // it was made empty, and is still of no use
	}
	if err := report.Write(s.dir, &s.r); err != nil {
		return &s.r, errors.Join(cause, fmt.Errorf("write report: %w", err))
	}
	return &s.r, cause
}

// Empty says that nothing has been measured.
func (s *Session) Empty() bool { return len(s.r.Trials) == 0 && s.r.Empty() }
