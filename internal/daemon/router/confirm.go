// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"time"

	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// root may decide about anybody's commit; others only about their own.
const root = "root"

// awaiting returns the running revision if it waits for its confirmation.
func (e *Engine) awaiting() *target {
	t := e.current()
	if t == nil || t.rev.State != revisions.Awaiting {
		return nil
	}
	return t
}

// refuseAwaiting fails while a revision waits for its confirmation.
func (e *Engine) refuseAwaiting() error {
	t := e.awaiting()
	if t == nil {
		return nil
	}
	return &api.Error{Kind: api.Locked, Message: fmt.Sprintf(
		"revision %d by %s awaits its confirmation for another %s: first keep it (minne confirm) or drop it (minne rollback)",
		t.rev.Number, t.rev.User, e.Left(t.rev.Deadline).Round(time.Second))}
}

// refuseForeign fails when the revision that waits belongs to somebody else.
func (e *Engine) refuseForeign(t *target, user string) error {
	if user == t.rev.User || user == root {
		return nil
	}
	return &api.Error{Kind: api.Locked, Message: fmt.Sprintf(
		"revision %d belongs to %s, who has another %s to confirm it; root can decide instead",
		t.rev.Number, t.rev.User, e.Left(t.rev.Deadline).Round(time.Second))}
}

// Confirm keeps the revision that waits for its confirmation.
func (e *Engine) Confirm(ctx context.Context, user string) (api.Result, error) {
	if err := e.take(user + " (confirm)"); err != nil {
		return api.Result{}, err
	}
	defer e.release()
	t := e.awaiting()
	if t == nil {
		return api.Result{}, e.nothingToConfirm()
	}
	if err := e.refuseForeign(t, user); err != nil {
		return api.Result{}, err
	}
	// The timer may have fired and be waiting for the claim: late is late.
	if e.Left(t.rev.Deadline) == 0 {
		e.revert(ctx, t, reasonLate)
		return api.Result{}, e.nothingToConfirm()
	}
	if err := e.fault("confirm"); err != nil {
		return api.Result{}, err
	}
	kept := t.rev
	kept.State, kept.Deadline = revisions.Confirmed, nil
	if err := e.store.Update(kept); err != nil {
		return api.Result{}, fmt.Errorf("not confirmed; the router rolls back at %s unless you confirm: %w", t.rev.Deadline.Wall.Format(time.TimeOnly), err)
	}
	e.disarm()
	confirmed := *t
	confirmed.rev = kept
	e.mu.Lock()
	e.running, e.confirmed = &confirmed, &confirmed
	e.mu.Unlock()
	e.log.Info("confirmed", "revision", kept.Number, "user", user)
	e.restored()
	return api.Result{Outcome: api.Confirmed, Revision: kept.Number}, e.fault("confirm-done")
}

// nothingToConfirm says why: the operator who comes too late must learn it.
func (e *Engine) nothingToConfirm() error {
	if newest, ok := e.store.Newest(); ok && newest.State == revisions.Reverted {
		return &api.Error{Kind: api.Reverted, Message: fmt.Sprintf(
			"nothing awaits confirmation: revision %d was reverted: %s", newest.Number, newest.Reason)}
	}
	return &api.Error{Kind: api.Failed, Message: "nothing awaits confirmation"}
}

// Rollback makes an earlier revision the running one. With number 0 that is the
// confirmed one while a revision waits for its confirmation, else the confirmed
// one before it. What comes back is a new revision, so that history only grows,
// except for dropping a revision that waits: that just reverts it.
func (e *Engine) Rollback(ctx context.Context, user string, number int) (api.Result, error) {
	if err := e.take(user + " (rollback)"); err != nil {
		return api.Result{}, err
	}
	defer e.release()
	if t := e.awaiting(); t != nil {
		if err := e.refuseForeign(t, user); err != nil {
			return api.Result{}, err
		}
		if err := e.existing(number); err != nil {
			return api.Result{}, err
		}
		if err := e.revert(ctx, t, "rolled back by "+user); err != nil {
			return api.Result{}, err
		}
		if number == 0 {
			return api.Result{Outcome: api.RolledBack, Revision: e.runningNumber()}, nil
		}
	}
	rev, err := e.earlier(number)
	if err != nil {
		return api.Result{}, err
	}
	t, err := e.prepare(api.Commit{Source: fmt.Sprintf("revision %d", rev.Number), Config: rev.Config})
	if err != nil {
		return api.Result{}, err
	}
	t.rev.User, t.rev.Comment = user, fmt.Sprintf("rollback to revision %d", rev.Number)
	result, err := e.commit(ctx, t, 0)
	if err == nil && result.Outcome == api.Applied {
		result.Outcome = api.RolledBack
	}
	return result, err
}

func (e *Engine) runningNumber() int {
	if t := e.current(); t != nil {
		return t.rev.Number
	}
	return 0
}

func (e *Engine) existing(number int) error {
	if number == 0 {
		return nil
	}
	_, err := e.earlier(number)
	return err
}

// earlier returns the revision to roll back to.
func (e *Engine) earlier(number int) (revisions.Revision, error) {
	if number != 0 {
		rev, ok := e.store.Get(number)
		if !ok {
			return rev, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("no revision %d; see minne revisions", number)}
		}
		return rev, nil
	}
	rev, ok := e.store.Confirmed(e.runningNumber())
	if !ok {
		return rev, &api.Error{Kind: api.Missing, Message: "no confirmed revision before the running one; see minne revisions"}
	}
	return rev, nil
}

const reasonLate = "not confirmed in time"

// revert drops t, which waits for its confirmation, and restores the confirmed
// configuration. It is written down first: killed in between, the next start
// restores it. The claim is held.
func (e *Engine) revert(ctx context.Context, t *target, reason string) error {
	e.disarm()
	e.log.Warn("reverting", "revision", t.rev.Number, "reason", reason)
	if err := e.fault("revert"); err != nil {
		return err
	}
	e.discard(t.rev, reason)
	e.mu.Lock()
	confirmed := e.confirmed
	e.mu.Unlock()
	before := confirmed
	if before == nil {
		before = e.nothing()
	}
	err := e.restore(ctx, before, e.steps())
	e.mu.Lock()
	e.running = confirmed
	e.mu.Unlock()
	e.note(err)
	if err != nil {
		e.log.Error("revert is incomplete", "revision", before.rev.Number, "error", err)
		return fmt.Errorf("revision %d was reverted, but restoring the one before is incomplete: %w", t.rev.Number, err)
	}
	e.log.Info("reverted", "revision", before.rev.Number)
	return nil
}

// arm starts the timer of t, which waits for its confirmation.
func (e *Engine) arm(t *target) {
	stop, err := e.clock.at(t.rev.Deadline.Boottime, func() { e.late(t) })
	if err != nil {
		// Without a timer nobody would revert it: better at once than never.
		e.log.Error("cannot start the confirm timer; rolling back now", "error", err)
		go e.late(t)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopTimer = stop
}

func (e *Engine) disarm() {
	e.mu.Lock()
	stop := e.stopTimer
	e.stopTimer = nil
	e.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// late reverts t unless it was confirmed or rolled back before the claim was had.
func (e *Engine) late(t *target) {
	ctx := context.Background()
	if err := e.wait(ctx, "the deadline of revision "+fmt.Sprint(t.rev.Number)); err != nil {
		return
	}
	defer e.release()
	if e.current() == t && t.rev.State == revisions.Awaiting {
		// What went wrong is in the log and the status; nobody waits for this answer.
		_ = e.revert(ctx, t, reasonLate)
	}
}
