// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/report"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

func begin(t *testing.T, dir string) (*Session, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	s, err := Begin(Options{Title: "Test", Command: []string{"minne", "lab", "test"}, Version: "1", Dir: dir, Progress: &out})
	if err != nil {
		t.Fatal(err)
	}
	return s, &out
}

func TestInterruptedSessionLeavesAValidPartialReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	s, _ := begin(t, dir)
	timed := trial.Result{Intended: 2, Sent: 2, Received: 2, Streams: []trial.Stream{{ID: 1}}}
	timed.Streams[0].Latency.Record(time.Millisecond)
	s.Record(timed)
	if timed.Streams[0].Latency.Count() != 1 {
		t.Error("recording a trial changed the caller's")
	}
	s.Update(func(r *result.Result) { r.MRR = append(r.MRR, result.MRR{Mean: 1000, Rates: []float64{1000}}) })
	if r, err := report.Read(dir); err != nil || r.Partial == "" {
		t.Errorf("while it runs the report is %+v, %v: expected a partial one", r, err)
	}
	s.Note("once")
	s.Note("once")
	if _, err := s.End(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("the end's error is %v", err)
	}
	r, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Partial, "interrupted") || len(r.Trials) != 1 || len(r.MRR) != 1 || strings.Count(strings.Join(r.Notes, "\n"), "once") != 1 {
		t.Errorf("partial %q, %d trials, %d rates, notes %q", r.Partial, len(r.Trials), len(r.MRR), r.Notes)
	}
}

func TestSessionThatFoundNothingLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	s, _ := begin(t, dir)
	if _, err := s.End(errors.New("no such port")); err == nil || err.Error() != "no such port" {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestReportsAreNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "result.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v: expected that it is not empty", err)
	}
	if _, err := Begin(Options{Dir: filepath.Join(dir, "result.json", "x")}); err == nil {
		t.Error("a path below a file was taken for a directory")
	}
}

func TestProgressOffATerminalIsAFewLines(t *testing.T) {
	s, out := begin(t, "")
	s.Step("building %s", "it")
	for range 100 {
		s.Progress("searching", 90*time.Second)
	}
	s.progress.Clear()
	if got, want := out.String(), "building it\n  searching, about 2 min left\n"; got != want {
		t.Errorf("printed %q, expected %q", got, want)
	}
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, terminal: true}
	p.Status("abcdef", 0)
	p.Status("gh", 0)
	p.Line("done")
	if got, want := out.String(), "abcdef\r      \rgh\r  \rdone\n"; got != want {
		t.Errorf("printed %q, expected %q", got, want)
	}
}
