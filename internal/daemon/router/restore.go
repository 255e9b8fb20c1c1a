// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"minne/internal/appliance/backup"
	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// Restore is Apply for a backup: with the configuration come files beside it (its
// secrets, lists that the firewall names, keys of the login), and they go with it, too,
// when it is not confirmed or can't be put in place. Once it is confirmed, the history
// that the backup holds joins this router's.
func (e *Engine) Restore(ctx context.Context, user string, q api.RestoreQuestion) (api.Result, error) {
	if err := checkConfirm(q.Confirm); err != nil {
		return api.Result{}, err
	}
	for _, f := range q.Files {
		if err := backup.CheckName(f.Name); err != nil {
			return api.Result{}, &api.Error{Kind: api.Invalid, Message: err.Error()}
		}
	}
	if err := e.take(user + " (restore)"); err != nil {
		return api.Result{}, err
	}
	defer e.release()
	if err := e.refuseAwaiting(); err != nil {
		return api.Result{}, err
	}
	history, err := json.Marshal(q.Revisions)
	if err != nil {
		return api.Result{}, err
	}
	newest, _ := e.store.Newest()
	if err := e.companions.exchange(q.Config, newest.Number, q.Files, history); err != nil {
		return api.Result{}, fmt.Errorf("nothing was changed: %w", err)
	}
	t, err := e.prepare(q.Commit)
	if err != nil {
		return api.Result{}, e.unrestored(err)
	}
	t.rev.User, t.rev.Comment = user, q.Comment
	result, err := e.commit(ctx, t, q.Confirm)
	if err != nil {
		return api.Result{}, e.unrestored(err)
	}
	if result.Outcome != api.Awaiting {
		e.restored()
	}
	return result, nil
}

// unrestored puts the files back as they were, and returns why.
func (e *Engine) unrestored(why error) error {
	if err := e.companions.back(); err != nil {
		e.log.Error("cannot restore the configuration's secrets and files", "error", err)
		return fmt.Errorf("%w\nand cannot restore the configuration's secrets and files: %w", why, err)
	}
	return why
}

// restored keeps the files of a restore, and takes its history in. That is for reading and
// for going back: none of it is ever what the router starts with.
func (e *Engine) restored() {
	history, err := e.companions.keep()
	if err != nil {
		e.log.Error("the restored files are in place, but the restore record cannot be removed", "error", err)
	}
	if history == nil {
		return
	}
	var old []api.RestoredHistory
	if err := json.Unmarshal(history, &old); err != nil {
		e.log.Error("cannot read the backup's earlier revisions", "error", err)
		return
	}
	known := make(map[string]bool)
	for _, r := range e.store.List() {
		known[r.Time.String()+r.Config] = true
	}
	for _, r := range old[max(0, len(old)-revisions.Keep/2):] {
		if known[r.Time.String()+r.Text] {
			continue
		}
		rev := revisions.Revision{Time: r.Time, User: r.User, Comment: r.Comment, State: revisions.Reverted, Source: r.Source, Config: r.Text,
			Reason: fmt.Sprintf("was revision %d, %s, in the backup", r.Number, r.State)}
		if _, err := e.store.Add(rev); err != nil {
			e.log.Error("some earlier revisions of the backup are missing", "error", err)
			return
		}
	}
}

// settleRestore decides about files of a restore that an earlier daemon left in the
// middle: they belong to the revision that came with them.
func (e *Engine) settleRestore(waiting *target) {
	text, after, ok := e.companions.pending()
	if !ok {
		return
	}
	if waiting != nil && restoredBy(waiting.rev, text, after) {
		return
	}
	for _, rev := range e.store.List() {
		if rev.State == revisions.Confirmed && restoredBy(rev, text, after) {
			e.restored()
			return
		}
	}
	e.log.Warn("a restore was interrupted; undoing it")
	if err := e.companions.back(); err != nil {
		e.log.Error("cannot restore the configuration's secrets and files", "error", err)
	}
}

// dropRestore puts the files back when the revision that they came with is dropped.
func (e *Engine) dropRestore(rev revisions.Revision) {
	if text, after, ok := e.companions.pending(); ok && restoredBy(rev, text, after) {
		if err := e.companions.back(); err != nil {
			e.log.Error("cannot restore the configuration's secrets and files", "error", err)
		}
	}
}

// restoredBy tells whether a revision is the one that a restore made.
func restoredBy(rev revisions.Revision, text string, after int) bool {
	return rev.Number > after && digest(rev.Config) == text
}

// newCompanionFiles returns the files beside the instance's configuration.
func newCompanionFiles(config, secrets, stateDir string) *companionFiles {
	return &companionFiles{
		dir:     filepath.Dir(config),
		own:     map[string]string{backup.ConfigName: config, backup.SecretsName: secrets},
		journal: filepath.Join(stateDir, "restore"),
	}
}
