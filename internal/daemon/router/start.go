// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"

	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// Start puts the stored configuration in place: the revision that waits for its
// confirmation if its deadline still lies ahead on this boot, else the newest
// confirmed one. What was left in the middle of an apply is discarded.
//
// Unlike an apply there is nothing to go back to, so each subsystem gets as far
// as it can. The error says what is missing; the router runs nevertheless, and
// Reapply may be tried later.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.wait(ctx, "the start of the daemon"); err != nil {
		return err
	}
	defer e.release()
	waiting, dropped := e.settleHistory()
	e.settleRestore(waiting)
	confirmed := e.recallConfirmed()
	running := confirmed
	if waiting != nil {
		running = waiting
	}
	if running == nil {
		if dropped {
			return e.reapply(ctx, e.nothing())
		}
		return nil
	}
	e.mu.Lock()
	e.running, e.confirmed = running, confirmed
	e.mu.Unlock()
	e.log.Info("starting", "revision", running.rev.Number, "state", running.rev.State)
	if waiting != nil {
		e.arm(waiting)
	}
	return e.reapply(ctx, running)
}

// Reapply puts the running configuration, or none where there is none, in place
// again as far as that goes: for when something of it was missing.
func (e *Engine) Reapply(ctx context.Context) error {
	if err := e.wait(ctx, "the daemon"); err != nil {
		return err
	}
	defer e.release()
	running := e.current()
	if running == nil {
		running = e.nothing()
	}
	return e.reapply(ctx, running)
}

func (e *Engine) reapply(ctx context.Context, t *target) error {
	err := e.restore(ctx, t, e.steps())
	e.note(err)
	if err == nil && t.rev.Number != 0 {
		e.onInPlace(t.rev.Number)
	}
	return err
}

// settleHistory discards revisions that an earlier daemon left unfinished, and
// returns the one that may go on waiting for its confirmation.
func (e *Engine) settleHistory() (waiting *target, dropped bool) {
	all := e.store.List()
	for i, rev := range all {
		if rev.State != revisions.Applying && rev.State != revisions.Awaiting {
			continue
		}
		dropped = true
		switch {
		case rev.State == revisions.Applying:
			e.log.Warn("the daemon stopped in the middle of an apply; rolling it back", "revision", rev.Number)
			e.discard(rev, "the daemon was stopped during the apply")
		case rev.State == revisions.Awaiting && i == len(all)-1 && e.Left(rev.Deadline) > 0:
			t, err := e.recall(rev)
			if err == nil {
				waiting = t
				continue
			}
			e.log.Error("cannot apply the unconfirmed revision", "revision", rev.Number, "error", err)
			e.discard(rev, err.Error())
		default:
			e.log.Warn("reverting", "revision", rev.Number, "reason", e.missed(rev.Deadline))
			e.discard(rev, e.missed(rev.Deadline))
		}
	}
	return waiting, dropped
}

// missed says how a deadline was missed while no daemon ran.
func (e *Engine) missed(d *revisions.Deadline) string {
	if d != nil && d.BootID != e.clock.bootID() {
		return "the machine was rebooted before it was confirmed"
	}
	return reasonLate
}

// recallConfirmed returns the newest confirmed revision that this version can
// read. A router that starts with an older configuration can be reached; one
// that starts with none can't.
func (e *Engine) recallConfirmed() *target {
	before, why := 0, ""
	for {
		rev, ok := e.store.Confirmed(before)
		if !ok {
			if damaged := e.store.Damaged(); why == "" && len(damaged) > 0 {
				why = fmt.Sprintf("the file of revision %d is damaged", damaged[len(damaged)-1])
			}
			if why != "" {
				e.onOlder(why + " and there is none before it: no configuration is in force; apply one")
			}
			return nil
		}
		for _, number := range e.store.Damaged() {
			if number > max(rev.Number, before) {
				why = fmt.Sprintf("the file of revision %d is damaged", number)
			}
		}
		t, err := e.recall(rev)
		if err == nil {
			if why != "" {
				e.onOlder(fmt.Sprintf("%s: the older revision %d is in force; apply the intended configuration", why, rev.Number))
			}
			return t
		}
		e.log.Error("cannot apply a confirmed revision; trying the one before", "revision", rev.Number, "error", err)
		before, why = rev.Number, fmt.Sprintf("revision %d can't be used (%v)", rev.Number, err)
	}
}

// FirstStart applies the operator's file on a router that has no revision yet.
func (e *Engine) FirstStart(ctx context.Context, source, text string) error {
	if _, ok := e.store.Newest(); ok {
		return nil
	}
	_, err := e.Apply(ctx, root, api.Commit{Config: text, Source: source, Comment: "first start"})
	var wrong *api.Error
	if errors.As(err, &wrong) && wrong.Kind == api.Invalid {
		return fmt.Errorf("the router has no configuration; apply one: %w", err)
	}
	return err
}
