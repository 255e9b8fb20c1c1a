// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"log/slog"

	"minne/internal/base/instance"
	"minne/internal/base/plan"
	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// Preview says what applying the configuration would change, without a daemon:
// for a machine that only prepares files, and for users that may not ask the
// daemon. What it can't see it says in the warnings.
func Preview(ctx context.Context, inst instance.Instance, log *slog.Logger, q api.Commit) (api.Result, error) {
	p := newParts(inst, log, voice{})
	in, err := reader{inst, log, q.Source}.preview(q.Source, q.Config, true)
	if err != nil {
		return api.Result{}, err
	}
	result := api.Result{Outcome: api.Planned, Changes: []plan.Change{}, Warnings: []string{
		"without the daemon: compared with the network namespace of this command"}}
	result.Session = cutSession(in, q)
	for _, w := range in.odd() {
		result.Warnings = append(result.Warnings, w.String())
	}
	for _, s := range p.subsystems() {
		changes, err := previewOne(ctx, s, in)
		if err != nil {
			result.Warnings = append(result.Warnings, fmt.Sprintf("%s: cannot show what would change: %v", s, err))
			continue
		}
		result.Changes = append(result.Changes, changes...)
	}
	return result, nil
}

func previewOne(ctx context.Context, s Subsystem, in Input) ([]plan.Change, error) {
	d, err := s.Render(in)
	if err != nil {
		return nil, err
	}
	return s.Plan(ctx, d)
}

// Stored returns the running revision (number 0) or the one of that number from
// the instance's directory, without a daemon.
func Stored(inst instance.Instance, number int) (revisions.Revision, error) {
	store, err := revisions.Read(inst.RevisionsDir())
	if err != nil {
		return revisions.Revision{}, err
	}
	rev, ok := store.Confirmed(0)
	if number != 0 {
		rev, ok = store.Get(number)
	}
	if !ok {
		return rev, &api.Error{Kind: api.Missing, Message: "no such revision is stored"}
	}
	return rev, nil
}
