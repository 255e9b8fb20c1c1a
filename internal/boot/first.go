// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"minne/internal/instance"
	"minne/internal/revisions"
)

// first lets the setup make a configuration, on a router that has neither a
// revision nor a file.
func first(ctx context.Context, console io.Writer, setup Setup) error {
	inst, err := instance.New(instance.Default)
	if err != nil {
		return err
	}
	if configured(inst) || setup == nil {
		return nil
	}
	return setup(ctx, console)
}

// configured tells whether there is something for the daemon to start with.
func configured(inst instance.Instance) bool {
	if _, err := os.Stat(inst.Config); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	store, err := revisions.Read(inst.StateDir + "/revisions")
	if err != nil {
		return false
	}
	_, ok := store.Confirmed(0)
	return ok
}
