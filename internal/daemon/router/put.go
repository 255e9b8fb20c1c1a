// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The steps of a commit that are not subsystems.
const (
	stepRecord     = "record"     // the revision is written as applying
	stepFirewall   = "firewall"   // the first, a subsystem's; forwarding hangs on it
	stepForwarding = "forwarding" // the last step that changes the system
	stepCommit     = "commit"     // the revision is written as confirmed or awaiting
)

// stepError is a step of putting a configuration in place that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return fmt.Sprintf("step %s: %v", e.step, e.err) }
func (e *stepError) Unwrap() error { return e.err }

// steps returns the names of all steps that touch the system, in their order.
func (e *Engine) steps() []string {
	names := make([]string, 0, len(e.subsystems)+1)
	for _, s := range e.subsystems {
		names = append(names, s.String())
	}
	return append(names, stepForwarding)
}

// step puts one subsystem, or forwarding, in the state that t wants. The fault
// points are named after the step: before it, and with "-done" after it; those
// of going back have "back-" in front.
func (e *Engine) step(ctx context.Context, t *target, name string, back bool) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	e.beginStep()
	point := name
	if back {
		point = "back-" + name
	}
	if err := e.fault(point); err != nil {
		return err
	}
	i := slices.IndexFunc(e.subsystems, func(s Subsystem) bool { return s.String() == name })
	var err error
	switch {
	case i < 0:
		err = e.forward(ctx, t)
	case t.failed[i] != nil:
		err = t.failed[i]
	case back:
		err = e.subsystems[i].Restore(ctx, t.desired[i])
	default:
		err = e.subsystems[i].Apply(ctx, t.desired[i])
	}
	if err != nil {
		return err
	}
	return e.fault(point + "-done")
}

// forward switches forwarding on once nothing passes that the firewall denies, and else off. A
// router without configuration forwards nothing.
func (e *Engine) forward(ctx context.Context, t *target) error {
	if t.rev.Number == 0 {
		return e.forwarding(ctx, false)
	}
	if err := e.guarded(t); err != nil {
		return errors.Join(err, e.forwarding(ctx, false))
	}
	return e.forwarding(ctx, true)
}

// guarded says why the kernel might let pass what t denies. Where the firewall's step has failed, it
// shuts the way.
func (e *Engine) guarded(t *target) error {
	i := slices.IndexFunc(e.subsystems, func(s Subsystem) bool { return s.String() == stepFirewall })
	if i < 0 || e.stands == nil {
		return nil
	}
	if err := e.stands(t.desired[i]); err != nil {
		return fmt.Errorf("forwarding stays off: %w", err)
	}
	return nil
}

// put brings the system to t. On a failure it stops and returns the steps that
// were begun, the failed one last.
func (e *Engine) put(ctx context.Context, t *target) (begun []string, failure *stepError) {
	defer e.enter()()
	for _, name := range e.steps() {
		begun = append(begun, name)
		if err := e.step(ctx, t, name, false); err != nil {
			return begun, &stepError{step: name, err: err}
		}
	}
	return begun, nil
}

// restore brings the given steps to t, as far as that goes: a step that fails
// does not keep the others from being restored.
func (e *Engine) restore(ctx context.Context, t *target, steps []string) error {
	defer e.enter()()
	var failures []error
	for _, name := range e.steps() {
		if !slices.Contains(steps, name) {
			continue
		}
		err := e.step(ctx, t, name, true)
		if err == nil {
			continue
		}
		failures = append(failures, &stepError{step: name, err: err})
		if name != stepFirewall || t.rev.Number == 0 {
			continue
		}
		// At once, not when it is the turn of forwarding: it may be on.
		if err := e.guarded(t); err != nil {
			failures = append(failures, &stepError{step: name, err: errors.Join(err, e.forwarding(ctx, false))})
		}
	}
	return errors.Join(failures...)
}

// note remembers what of the running configuration is not in place.
func (e *Engine) note(err error) {
	e.mu.Lock()
	e.degraded = nil
	if err != nil {
		e.degraded = strings.Split(err.Error(), "\n")
	}
	e.mu.Unlock()
	if err != nil {
		e.onDegraded()
	}
}
