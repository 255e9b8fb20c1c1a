// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

func TestApply(t *testing.T) {
	b := newBench(t)
	r := b.apply("r1", 0)
	if r.Outcome != api.Applied || r.Revision != 1 || len(r.Changes) != 3 {
		t.Errorf("result %+v", r)
	}
	b.wantCalls("kernel r1", "routing r1", "fast-path r1", "forwarding on")
	b.wantStates(revisions.Confirmed)

	// The same again does nothing, with or without a time to confirm.
	for _, confirm := range []time.Duration{0, time.Minute} {
		if r := b.apply("r1", confirm); r.Outcome != api.Unchanged || r.Revision != 1 || r.Deadline != nil {
			t.Errorf("unchanged: result %+v", r)
		}
	}
	b.wantCalls()
	b.wantStates(revisions.Confirmed)

	// What something else changed meanwhile is put right, without a new revision.
	b.system["routing"] = "meddled"
	if r := b.apply("r1", 0); r.Outcome != api.Repaired || len(r.Changes) != 1 {
		t.Errorf("repaired: result %+v", r)
	}
	b.wantSystem("r1")
	b.wantStates(revisions.Confirmed)
}

func TestPlanChangesNothing(t *testing.T) {
	b := newBench(t)
	b.apply("r1", time.Minute)
	*b.calls = nil
	for name, want := range map[string]api.Outcome{"r1": api.Unchanged, "r2": api.Planned} {
		r, err := b.Plan(t.Context(), api.Commit{Config: name})
		if err != nil || r.Outcome != want {
			t.Errorf("plan of %s: %+v, %v; want %s", name, r, err, want)
		}
	}
	_, err := b.Plan(t.Context(), api.Commit{Config: "wrong"})
	wantKind(t, err, api.Invalid)
	b.wantCalls()
	b.wantStates(revisions.Awaiting)
}

func TestInvalidTouchesNothing(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"wrong", "unreadable", "unrenderable"} {
		_, err := b.Apply(t.Context(), "ana", api.Commit{Config: name})
		wantKind(t, err, api.Invalid)
	}
	_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r1", Confirm: 48 * time.Hour})
	wantKind(t, err, api.Failed, "48h", "24h")
	b.wantCalls()
	b.wantStates()
}

// A step that fails takes back what was begun, in the order of an apply, and no more than that.
func TestFailingStep(t *testing.T) {
	order := []string{"kernel", "routing", "fast-path", "forwarding"}
	for _, before := range []string{"r1", ""} {
		for i, step := range order {
			t.Run(step+" after "+before, func(t *testing.T) {
				b := newBench(t)
				var states []revisions.State
				if before != "" {
					b.apply(before, 0)
					states = append(states, revisions.Confirmed)
				}
				*b.calls = nil
				key := step + " r2"
				if step == "forwarding" {
					key = step
				}
				b.fails[key] = errors.New("no such device")
				_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r2"})
				if step == "forwarding" { // it fails both ways
					wantKind(t, err, api.Failed, "step forwarding", "no such device", "failed too")
				} else {
					named := "no configuration"
					if before != "" {
						named = "revision 1"
					}
					wantKind(t, err, api.Reverted, "step "+step, "no such device", named+" is in force again")
				}
				var want []string
				for _, name := range []string{"r2", before} {
					for _, s := range order[:i+1] {
						if s == "forwarding" {
							want = append(want, "forwarding "+map[bool]string{true: "on", false: "off"}[name != ""])
							continue
						}
						want = append(want, strings.TrimSpace(s+" "+name))
					}
				}
				b.wantCalls(want...)
				b.wantStates(append(states, revisions.Reverted)...)

				// The router can go on from there.
				clear(b.fails)
				b.apply("r3", 0)
				b.wantSystem("r3")
			})
		}
	}
}

func TestFailingRollback(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	b.fails["routing r2"] = errors.New("refused")
	b.fails["kernel r1"] = errors.New("device is gone")
	_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r2"})
	wantKind(t, err, api.Failed, "step routing: refused", "step kernel: device is gone", "minne rollback 1")
	if b.system["routing"] != "r1" {
		t.Error("a step that can't be restored kept another from being restored")
	}
	if s := b.State(); len(s.Degraded) != 1 || !strings.Contains(s.Degraded[0], "device is gone") {
		t.Errorf("degraded: %q", s.Degraded)
	}
	if b.woken != 1 {
		t.Errorf("mender woken %d times, want 1", b.woken)
	}
	clear(b.fails)
	if err := b.Reapply(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantSystem("r1")
	if s := b.State(); s.Degraded != nil {
		t.Errorf("still degraded: %q", s.Degraded)
	}
}

// Whatever point of a commit fails, the router is at one configuration, and
// still is after a restart.
func TestFaultAtEveryPoint(t *testing.T) {
	trace := newBench(t)
	trace.apply("r1", 0)
	var points []string
	trace.fault = func(p string) error { points = append(points, p); return nil }
	trace.apply("r2", 0)
	if len(points) < 14 || !slices.Contains(points, "commit-done") || !slices.Contains(points, "store-temp") {
		t.Fatalf("points: %q", points)
	}
	for i, point := range points {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d %s first=%t", i, point, first), func(t *testing.T) {
				b := newBench(t)
				before := ""
				if !first {
					b.apply("r1", 0)
					before = "r1"
				}
				n := -1
				b.fault = func(string) error {
					if n++; n == i {
						return errors.New("injected")
					}
					return nil
				}
				_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r2"})
				if err == nil {
					t.Fatal("the fault went unnoticed")
				}
				b.fault = nil
				want := before
				if first && i <= 3 { // nothing was touched yet
					want = "-"
				}
				if b.system["kernel"] != want && b.system["kernel"] != before {
					t.Errorf("kernel is at %q, want %q", b.system["kernel"], want)
				}
				b.restart()
				if err := b.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if before != "" {
					b.wantSystem(before)
				}
				for _, r := range b.store.List() {
					if r.Config == "r2" && r.State != revisions.Reverted {
						t.Errorf("the failed revision is %s", r.State)
					}
				}
			})
		}
	}
}

func TestConfirm(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	r := b.apply("r2", 10*time.Minute)
	if r.Outcome != api.Awaiting || !r.Deadline.Equal(b.clock.wall.Add(10*time.Minute)) {
		t.Errorf("result %+v", r)
	}
	b.wantStates(revisions.Confirmed, revisions.Awaiting)
	b.clock.advance(9 * time.Minute)

	_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r3"})
	wantKind(t, err, api.Locked, "revision 2 by ana", "1m0s", "minne confirm")
	_, err = b.Confirm(t.Context(), "ben")
	wantKind(t, err, api.Locked, "belongs to ana")
	_, err = b.Rollback(t.Context(), "ben", 0)
	wantKind(t, err, api.Locked, "belongs to ana")

	if r, err := b.Confirm(t.Context(), "ana"); err != nil || r.Revision != 2 {
		t.Fatalf("confirm: %+v, %v", r, err)
	}
	b.clock.advance(time.Hour)
	b.wantSystem("r2")
	b.wantStates(revisions.Confirmed, revisions.Confirmed)
	_, err = b.Confirm(t.Context(), "ana")
	wantKind(t, err, api.Failed, "nothing awaits")
}

func TestRootConfirmsForAnybody(t *testing.T) {
	b := newBench(t)
	b.apply("r1", time.Minute)
	if _, err := b.Confirm(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	b.wantStates(revisions.Confirmed)
}

func TestNotConfirmed(t *testing.T) {
	for _, before := range []string{"r1", ""} {
		b := newBench(t)
		if before != "" {
			b.apply(before, 0)
		}
		b.apply("r2", time.Minute)
		*b.calls = nil
		b.clock.advance(time.Minute)
		b.wantSystem(before)
		_, err := b.Confirm(t.Context(), "ana")
		wantKind(t, err, api.Reverted, "not confirmed in time")
		b.apply("r3", 0)
		b.wantSystem("r3")
	}
}

// The deadline has passed, but its timer did not get the claim yet.
func TestConfirmTooLate(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	b.apply("r2", time.Minute)
	b.clock.since += time.Minute
	_, err := b.Confirm(t.Context(), "ana")
	wantKind(t, err, api.Reverted, "not confirmed in time")
	b.wantSystem("r1")
	b.wantStates(revisions.Confirmed, revisions.Reverted)
}

func TestConfirmWithFullDisk(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	b.apply("r2", time.Minute)
	b.fault = func(p string) error {
		if p == "store-write" {
			return errors.New("no space left on device")
		}
		return nil
	}
	_, err := b.Confirm(t.Context(), "ana")
	wantKind(t, err, api.Failed, "not confirmed", "no space left")
	b.clock.advance(time.Minute) // the revert works without the disk
	b.wantSystem("r1")
	b.fault = nil
	b.restart()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantSystem("r1")
	b.wantStates(revisions.Confirmed, revisions.Reverted)
}

func TestRollback(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"r1", "r2", "r3"} {
		b.apply(name, 0)
	}
	steps := []struct {
		number   int
		system   string
		revision int
	}{
		{0, "r2", 4}, // the confirmed one before
		{0, "r3", 5}, // and back
		{1, "r1", 6},
		{1, "r1", 6}, // already there
	}
	for _, s := range steps {
		r, err := b.Rollback(t.Context(), "ana", s.number)
		if err != nil || r.Revision != s.revision {
			t.Fatalf("rollback %d: %+v, %v; want revision %d", s.number, r, err, s.revision)
		}
		b.wantSystem(s.system)
	}
	if r, _ := b.store.Get(6); r.Comment != "rollback to revision 1" {
		t.Errorf("comment %q", r.Comment)
	}
	_, err := b.Rollback(t.Context(), "ana", 77)
	wantKind(t, err, api.Missing, "77")
}

func TestRollbackWhileAwaiting(t *testing.T) {
	for _, test := range []struct {
		number int
		want   string
		states []revisions.State
	}{
		{0, "r2", []revisions.State{revisions.Confirmed, revisions.Confirmed, revisions.Reverted}},
		{2, "r2", []revisions.State{revisions.Confirmed, revisions.Confirmed, revisions.Reverted}},
		{1, "r1", []revisions.State{revisions.Confirmed, revisions.Confirmed, revisions.Reverted, revisions.Confirmed}},
	} {
		b := newBench(t)
		b.apply("r1", 0)
		b.apply("r2", 0)
		b.apply("r3", time.Minute)
		if _, err := b.Rollback(t.Context(), "ana", 9); api.KindOf(err) != api.Missing {
			t.Errorf("rollback to an unknown revision: %v", err)
		}
		b.wantSystem("r3")
		if _, err := b.Rollback(t.Context(), "ana", test.number); err != nil {
			t.Fatal(err)
		}
		b.clock.advance(time.Hour)
		b.wantSystem(test.want)
		b.wantStates(test.states...)
	}
}

// Whatever the daemon finds on disk, it ends in the last confirmed configuration
// or goes on waiting.
func TestStart(t *testing.T) {
	revert := func(b *bench, t *testing.T) {}
	tests := []struct {
		name   string
		newest revisions.State
		before func(*bench, *testing.T) // between the end of one daemon and the start of the next
		want   string
		states []revisions.State
	}{
		{"confirmed", revisions.Confirmed, revert, "r2", []revisions.State{revisions.Confirmed, revisions.Confirmed}},
		{"reverted", revisions.Reverted, revert, "r1", []revisions.State{revisions.Confirmed, revisions.Reverted}},
		{"in the middle of an apply", revisions.Applying, revert, "r1", []revisions.State{revisions.Confirmed, revisions.Reverted}},
		{"waiting, same boot", revisions.Awaiting, revert, "r2", []revisions.State{revisions.Confirmed, revisions.Awaiting}},
		{"waiting, too late", revisions.Awaiting, func(b *bench, _ *testing.T) { b.clock.advance(10 * time.Minute) }, "r1", []revisions.State{revisions.Confirmed, revisions.Reverted}},
		{"waiting, rebooted", revisions.Awaiting, func(b *bench, _ *testing.T) { b.clock.reboot("second boot") }, "r1", []revisions.State{revisions.Confirmed, revisions.Reverted}},
		{"waiting, wall clock jumped", revisions.Awaiting, func(b *bench, _ *testing.T) { b.clock.wall = b.clock.wall.Add(1000 * time.Hour) }, "r2", []revisions.State{revisions.Confirmed, revisions.Awaiting}},
		{"damaged", revisions.Confirmed, func(b *bench, t *testing.T) {
			if err := os.Truncate(filepath.Join(b.dir, "000002.rev"), 100); err != nil {
				t.Fatal(err)
			}
		}, "r1", []revisions.State{revisions.Confirmed}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.apply("r1", 0)
			b.apply("r2", 10*time.Minute)
			r, _ := b.store.Get(2)
			if r.State = test.newest; r.State != revisions.Awaiting {
				r.Deadline = nil
			}
			if err := b.store.Update(r); err != nil {
				t.Fatal(err)
			}
			b.clock.forget()
			test.before(b, t)
			b.restart()
			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantSystem(test.want)
			b.wantStates(test.states...)
			if test.states[len(test.states)-1] == revisions.Awaiting {
				b.clock.advance(9*time.Minute + 59*time.Second)
				b.wantSystem("r2")
				b.clock.advance(time.Second)
				b.wantSystem("r1")
			}
		})
	}
}

func TestStartWithoutConfirmed(t *testing.T) {
	b := newBench(t)
	b.restart()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantCalls() // a router that never had a configuration is not touched

	b.apply("r1", time.Minute)
	b.clock.reboot("second boot")
	b.restart()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantSystem("")
	if err := b.FirstStart(t.Context(), "minne.yaml", "r9"); err != nil {
		t.Fatal(err)
	}
	b.wantStates(revisions.Reverted) // the file is not tried on a router with a history
}

func TestFirstStart(t *testing.T) {
	b := newBench(t)
	if err := b.FirstStart(t.Context(), "minne.yaml", "wrong"); api.KindOf(err) != api.Invalid {
		t.Errorf("first start with a wrong file: %v", err)
	}
	if err := b.FirstStart(t.Context(), "minne.yaml", "r1"); err != nil {
		t.Fatal(err)
	}
	b.wantSystem("r1")
	b.wantStates(revisions.Confirmed)
}

// At start no system to fall back to: every part gets as far as it can.
func TestStartGoesAsFarAsItCan(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	b.fails["kernel r1"] = errors.New("no such port yet")
	b.restart()
	err := b.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such port yet") || b.woken != 1 {
		t.Fatalf("start: %v, mender woken %d times", err, b.woken)
	}
	if b.system["fast-path"] != "r1" || b.system["forwarding"] != "on" {
		t.Errorf("system: %v", b.system)
	}
	// An apply of the same file completes it.
	clear(b.fails)
	if r := b.apply("r1", 0); r.Outcome != api.Repaired {
		t.Errorf("result %+v", r)
	}
	b.wantSystem("r1")
}

// A configuration that this version can't read any more is worse than an older one, and one
// whose secrets are gone still brings up all parts that need none.
func TestStartWithUnusableConfirmed(t *testing.T) {
	b := newBench(t)
	b.apply("r1", 0)
	for _, text := range []string{"unrenderable", "unreadable"} {
		if _, err := b.store.Add(revisions.Revision{State: revisions.Confirmed, Config: text}); err != nil {
			t.Fatal(err)
		}
	}
	b.restart()
	if err := b.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such secret") {
		t.Fatalf("start: %v", err)
	}
	if b.system["kernel"] != "unrenderable" || b.system["routing"] != "r1" || b.system["forwarding"] != "on" {
		t.Errorf("system: %v", b.system)
	}
}

func TestLocked(t *testing.T) {
	b := newBench(t)
	b.block = make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := b.Apply(t.Context(), "ana", api.Commit{Config: "r1"})
		done <- err
	}()
	<-b.block // ana's apply is in its kernel step
	_, err := b.Apply(t.Context(), "ben", api.Commit{Config: "r2"})
	wantKind(t, err, api.Locked, "ana (apply)")
	_, err = b.Rollback(t.Context(), "ana", 0)
	wantKind(t, err, api.Locked, "ana (apply)")
	_, err = b.Confirm(t.Context(), "ana")
	wantKind(t, err, api.Locked, "ana (apply)")
	b.block <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.wantSystem("r1")
	b.wantStates(revisions.Confirmed)
}
