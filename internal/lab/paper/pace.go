// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"time"

	"minne/internal/lab/measure"
	"minne/internal/lab/method"
	"minne/internal/lab/result"
)

// pace is how long an experiment measures.
type pace struct {
	trial  time.Duration // of an open loop
	repeat int           // trials to a figure
	sizes  []int         // of figure6, bytes
	warmUp time.Duration // before each traffic; less than 0 is none
	rounds int           // of interleaved trials of the closed loop, which has trials of its own length
	turns  int           // rounds of other interleaved trials
	turn   time.Duration // how long one of these takes
	soak   time.Duration // of one router
}

var (
	fullPace  = pace{trial: 2 * time.Second, repeat: 7, sizes: appendixB, warmUp: time.Second, rounds: 30, turns: 60, turn: 500 * time.Millisecond, soak: 24 * time.Hour}
	quickPace = pace{trial: 400 * time.Millisecond, repeat: 2, sizes: appendixB, warmUp: 200 * time.Millisecond, rounds: 8, turns: 16, turn: 200 * time.Millisecond, soak: 40 * time.Second}
)

// greatestRate measures what comes back when the tester offers all it can, as the
// papers did with pktgen: the maximum receive rate.
func (e *experiment) greatestRate(then func(t *measure.Target, found result.MRR)) measure.Method {
	return measure.Method{Name: "rate at the greatest load", Run: func(ctx context.Context, t *measure.Target) error {
		found, err := e.mrr(ctx, t, t.MaxLoad)
		if err == nil {
			then(t, found)
		}
		return err
	}}
}

// mrr measures a maximum receive rate of what the rig has loaded; a load of 0 is unpaced.
func (e *experiment) mrr(ctx context.Context, t *measure.Target, load float64) (result.MRR, error) {
	t.Rig.Timed(false)
	found, err := method.MRR(ctx, t.Tester, method.MRROptions{
		Subject: t.Subject, Load: load, Duration: e.pace.trial, Repeat: e.pace.repeat, Progress: t.Session.Progress,
	})
	if len(found.Rates) > 0 {
		t.Session.Update(func(r *result.Result) { r.MRR = append(r.MRR, found) })
	}
	return found, err
}
