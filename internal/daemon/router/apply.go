// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"minne/internal/base/plan"
	"minne/internal/model/api"
	"minne/internal/model/policy"
	"minne/internal/model/revisions"
)

// Bounds of the time in which a commit can be confirmed.
const (
	minConfirm = time.Second
	maxConfirm = 24 * time.Hour
)

// Plan says what applying the configuration would change. It changes nothing. Who is not root may ask about files
// beside the configuration only: the daemon opens them as root.
func (e *Engine) Plan(ctx context.Context, q api.Commit) (api.Result, error) {
	reach := policy.Everywhere
	if p := api.PeerOf(ctx); p.UID != 0 && p.May() != api.Admin {
		reach = policy.Beside
	}
	t, err := e.prepareWithin(q, reach)
	if err != nil {
		return api.Result{}, err
	}
	changes, err := e.plan(ctx, t)
	if err != nil {
		return api.Result{}, err
	}
	result := api.Result{Outcome: api.Planned, Changes: changes, Warnings: t.warnings, Session: t.session}
	running := e.current()
	if running != nil {
		result.Revision = running.rev.Number
	}
	if len(changes) == 0 && same(t, running) {
		result.Outcome = api.Unchanged
	}
	return result, nil
}

// Apply puts a configuration in place. When a step fails, the configuration
// before is restored and the error (of kind Reverted) names the step. With
// q.Confirm, the configuration stays only if it is confirmed in that time. A
// configuration that is already in place is left alone.
func (e *Engine) Apply(ctx context.Context, user string, q api.Commit) (api.Result, error) {
	if err := checkConfirm(q.Confirm); err != nil {
		return api.Result{}, err
	}
	if err := e.take(user + " (apply)"); err != nil {
		return api.Result{}, err
	}
	defer e.release()
	if err := e.refuseAwaiting(); err != nil {
		return api.Result{}, err
	}
	t, err := e.prepare(q)
	if err != nil {
		return api.Result{}, err
	}
	t.rev.User, t.rev.Comment = user, q.Comment
	return e.commit(ctx, t, q.Confirm)
}

func checkConfirm(d time.Duration) error {
	if d != 0 && (d < minConfirm || d > maxConfirm) {
		return &api.Error{Kind: api.Failed, Message: fmt.Sprintf("time to confirm %s: expected %s to %s", d, minConfirm, maxConfirm)}
	}
	return nil
}

func (e *Engine) current() *target {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// same tells whether two targets are the same text with the same secrets.
func same(t, running *target) bool {
	return running != nil && t.rev.Config == running.rev.Config && maps.Equal(t.rev.Secrets, running.rev.Secrets)
}

// commit puts t in place as a new revision. The claim is held.
func (e *Engine) commit(ctx context.Context, t *target, confirm time.Duration) (api.Result, error) {
	changes, err := e.plan(ctx, t)
	if err != nil {
		return api.Result{}, fmt.Errorf("nothing was changed: %w", err)
	}
	previous := e.current()
	if same(t, previous) {
		return e.again(ctx, previous, api.Result{Changes: changes, Warnings: t.warnings, Session: t.session})
	}
	t.rev.Time, t.rev.State = e.clock.now(), revisions.Applying
	if err := e.record(t); err != nil {
		return api.Result{}, fmt.Errorf("nothing was changed: %w", err)
	}
	log := e.log.With("revision", t.rev.Number, "user", t.rev.User)
	log.Info("applying", "changes", len(changes), "confirm", confirm)
	begun, failure := e.put(ctx, t)
	if failure == nil {
		failure = e.seal(t, confirm)
	}
	if failure != nil {
		return api.Result{}, e.takeBack(ctx, t, previous, begun, failure)
	}
	e.note(nil)
	log.Info("applied", "state", t.rev.State)
	return e.settled(t, changes), nil
}

// again puts what runs in place once more, for what something else has changed
// since. Without such changes it does nothing at all.
func (e *Engine) again(ctx context.Context, running *target, result api.Result) (api.Result, error) {
	result.Revision = running.rev.Number
	if len(result.Changes) == 0 && len(e.State().Degraded) == 0 {
		result.Outcome = api.Unchanged
		return result, nil
	}
	e.log.Info("applying the running revision again", "revision", running.rev.Number, "changes", len(result.Changes))
	if _, failure := e.put(ctx, running); failure != nil {
		e.note(failure)
		return api.Result{}, &api.Error{Kind: api.Failed, Step: failure.step,
			Message: fmt.Sprintf("revision %d is in force but could not be repaired: %v", running.rev.Number, failure)}
	}
	e.note(nil)
	result.Outcome = api.Repaired
	return result, nil
}

func (e *Engine) deadline(confirm time.Duration) *revisions.Deadline {
	if confirm == 0 {
		return nil
	}
	return &revisions.Deadline{
		Wall:     e.clock.now().Add(confirm),
		BootID:   e.clock.bootID(),
		Boottime: e.clock.sinceBoot() + confirm,
	}
}

// record writes the revision down before anything is touched.
func (e *Engine) record(t *target) error {
	if err := e.fault(stepRecord); err != nil {
		return &stepError{step: stepRecord, err: err}
	}
	rev, err := e.store.Add(t.rev)
	if err != nil {
		return &stepError{step: stepRecord, err: err}
	}
	t.rev = rev
	// The disk has it from here on: a failure now is one of the step after.
	return nil
}

// seal writes down that all of t is in place, from now on or until it was not
// confirmed in time.
func (e *Engine) seal(t *target, confirm time.Duration) *stepError {
	if err := e.fault(stepCommit); err != nil {
		return &stepError{step: stepCommit, err: err}
	}
	sealed := t.rev
	sealed.State, sealed.Deadline = revisions.Confirmed, e.deadline(confirm)
	if sealed.Deadline != nil {
		sealed.State = revisions.Awaiting
	}
	if err := e.store.Update(sealed); err != nil {
		return &stepError{step: stepCommit, err: err}
	}
	if err := e.fault(stepCommit + "-done"); err != nil {
		return &stepError{step: stepCommit, err: err}
	}
	t.rev = sealed
	return nil
}

// settled makes t what runs, and arms its deadline if it has one.
func (e *Engine) settled(t *target, changes []plan.Change) api.Result {
	e.mu.Lock()
	e.running = t
	if t.rev.State == revisions.Confirmed {
		e.confirmed = t
	}
	e.mu.Unlock()
	e.onInPlace(t.rev.Number)
	e.onOlder("")
	result := api.Result{Outcome: api.Applied, Revision: t.rev.Number, Changes: changes, Warnings: t.warnings, Session: t.session}
	if t.rev.State == revisions.Awaiting {
		result.Outcome = api.Awaiting
		result.Deadline = &t.rev.Deadline.Wall
		e.arm(t)
	}
	return result
}

// takeBack restores what ran before, after a step of t failed.
func (e *Engine) takeBack(ctx context.Context, t, previous *target, begun []string, failure *stepError) error {
	e.log.Error("apply failed, rolling back", "revision", t.rev.Number, "step", failure.step, "error", failure.err)
	before, name := previous, ""
	if before == nil {
		before, name = e.nothing(), "no configuration"
	} else {
		name = fmt.Sprintf("revision %d", before.rev.Number)
	}
	err := e.restore(ctx, before, begun)
	e.discard(t.rev, fmt.Sprintf("apply failed at %v", failure))
	if err != nil {
		e.note(err)
		e.log.Error("rollback failed too", "error", err)
		return &api.Error{Kind: api.Failed, Step: failure.step, Message: fmt.Sprintf(
			"%v\nrestoring %s failed too: %v\nthe router is between the two; remove the cause, then: minne rollback %d",
			failure, name, err, before.rev.Number)}
	}
	return &api.Error{Kind: api.Reverted, Step: failure.step, Message: fmt.Sprintf(
		"%v\nrolled back: %s; %s is in force again", failure, strings.Join(begun, ", "), name)}
}

// discard writes down that a revision is no longer in use. Should that fail, the
// next start discards it again, from the state it has on disk.
func (e *Engine) discard(rev revisions.Revision, reason string) {
	e.dropRestore(rev)
	rev.State, rev.Reason, rev.Deadline = revisions.Reverted, reason, nil
	if err := e.store.Update(rev); err != nil {
		e.log.Error("cannot record the rollback of a revision; the next start detects it", "revision", rev.Number, "error", err)
	}
}
