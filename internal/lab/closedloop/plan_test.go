// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/subsystem/kernel"
)

// journal keeps what a measurement tells.
type journal struct {
	result result.Result
	steps  []string
	rounds int
}

func (j *journal) Step(format string, args ...any) {
	j.steps = append(j.steps, fmt.Sprintf(format, args...))
}
func (j *journal) Progress(string, time.Duration)     { j.rounds++ }
func (j *journal) Update(change func(*result.Result)) { change(&j.result) }
func (j *journal) Note(text string)                   { j.result.Notes = append(j.result.Notes, text) }
func parsed(t *testing.T, texts ...string) (out []pattern.Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := pattern.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestPlanFillsTheResult(t *testing.T) {
	p := Plan{Means: device.Means{Load: kernel.BulkRoutes}, Traffic: parsed(t, "one-flow", "flows=16 family=ipv6 size=512"), Rounds: 1}
	var j journal
	devices := []device.Spec{{Kind: device.Kernel}, {Kind: device.Bridge}}
	if err := p.Cost(t.Context(), &j, devices); err != nil {
		t.Fatal(err)
	}
	if len(j.result.Cost) != 4 || len(j.result.Devices) != 2 || j.result.Tester.Mode != "closed loop, 1 core" || j.rounds != 4 {
		t.Fatalf("%+v after %d rounds", j.result, j.rounds)
	}
	for i, want := range []result.Subject{
		{Device: "kernel", Traffic: "one-flow", FrameSize: 64, MeanSize: 64},
		{Device: "kernel", Traffic: "flows=16 family=ipv6", FrameSize: 512, MeanSize: 512},
		{Device: "bridge", Traffic: "one-flow", FrameSize: 64, MeanSize: 64},
		{Device: "bridge", Traffic: "flows=16 family=ipv6", FrameSize: 512, MeanSize: 512},
	} {
		if got := j.result.Cost[i]; got.Subject != want || got.Rounds != 1 {
			t.Errorf("figure %d: %+v, expected to be about %+v", i, got, want)
		}
	}
	p.Traffic = p.Traffic[1:]
	if err := p.Compare(t.Context(), &j, devices[0], devices[0]); err != nil {
		t.Fatal(err)
	}
	if len(j.result.Comparisons) != 1 || j.result.Comparisons[0].Subject != (result.Subject{Traffic: "flows=16 family=ipv6", FrameSize: 512, MeanSize: 512}) || j.result.Comparisons[0].Verdict == "" {
		t.Errorf("%+v", j.result.Comparisons)
	}
}

func TestPlanRefusesTrafficBeforeItBuilds(t *testing.T) {
	p := Plan{Means: device.Means{Load: kernel.BulkRoutes}, Traffic: parsed(t, "bidirectional"), Rounds: 1}
	var j journal
	if err := p.Cost(t.Context(), &j, []device.Spec{{Kind: device.Kernel}}); err == nil || !strings.Contains(err.Error(), "one direction") || len(j.steps) > 0 {
		t.Errorf("error %v after %q", err, j.steps)
	}
}

func TestAnInterruptedFigureHasTheRoundsUntilThen(t *testing.T) {
	for _, c := range []struct{ after, figures int }{{LeastRounds, 1}, {1, 0}} {
		ctx, stop := context.WithCancel(t.Context())
		j := &stopping{after: c.after, stop: stop}
		p := Plan{Means: device.Means{Load: kernel.BulkRoutes}, Traffic: parsed(t, "one-flow", "one-flow family=ipv6"), Rounds: 100}
		err := p.Cost(ctx, j, []device.Spec{{Kind: device.None}})
		stop()
		if !errors.Is(err, context.Canceled) || len(j.result.Cost) != c.figures {
			t.Errorf("stopped after %d rounds: error %v and %d figures, expected %d", c.after, err, len(j.result.Cost), c.figures)
		}
		if c.figures > 0 && j.result.Cost[0].Rounds != c.after {
			t.Errorf("%d rounds, expected %d", j.result.Cost[0].Rounds, c.after)
		}
	}
}

// stopping is a user who presses Ctrl-C after some rounds.
type stopping struct {
	journal
	after int
	stop  func()
}

func (s *stopping) Progress(text string, left time.Duration) {
	s.journal.Progress(text, left)
	if s.rounds == s.after {
		s.stop()
	}
}
