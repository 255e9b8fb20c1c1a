// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"log/slog"

	"minne/internal/instance"
	"minne/internal/plan"
	"minne/internal/task"
)

// parts are the subsystems of one router, with their own types.
type parts struct {
	inst instance.Instance
}

func newParts(inst instance.Instance, log *slog.Logger) (parts, error) {
	return parts{inst: inst}, nil
}

// subsystems returns the parts in the order in which a commit puts them in place.
func (p parts) subsystems() []Subsystem {
	return nil
}

// tasks returns what runs as long as the daemon does.
func (p parts) tasks() []task.Task {
	return nil
}

func (p parts) forwarding(ctx context.Context, on bool) error {
	return nil
}

// takeDown removes what would go on without the daemon.
func (p parts) takeDown(ctx context.Context) error {
	return nil
}

// part makes a Subsystem of anything with the common verbs and a state of type D.
type part[D any] struct {
	name   string
	render func(Input) (D, error)
	verbs  interface {
		Plan(context.Context, D) ([]plan.Change, error)
		Apply(context.Context, D) error
	}
}

func (p part[D]) String() string { return p.name }

func (p part[D]) Render(in Input) (Desired, error) { return p.render(in) }

func (p part[D]) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return p.verbs.Plan(ctx, d.(D))
}

func (p part[D]) Apply(ctx context.Context, d Desired) error { return p.verbs.Apply(ctx, d.(D)) }
