// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/slot"
	"minne/internal/base/instance"
	"minne/internal/model/revisions"
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

// exchangeDir is where the FAT partition is mounted while it is read.
const exchangeDir = "/run/minne/exchange"

// Exchange calls look with the directory of the FAT partition that people put files
// on from any PC. It is mounted read-only, and no longer than that.
func Exchange(look func(dir string) error) error {
	device, err := slot.Device(slot.PartESP)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(exchangeDir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(device, exchangeDir, "vfat", quiet|unix.MS_RDONLY, "fmask=0077,dmask=0077"); err != nil {
		return fmt.Errorf("mount the FAT partition: %w", err)
	}
	return errors.Join(look(exchangeDir), unix.Unmount(exchangeDir, 0))
}

// configured tells whether there is something for the daemon to start with.
func configured(inst instance.Instance) bool {
	if _, err := os.Stat(inst.Config); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, ok := confirmed(inst)
	return ok
}

// confirmed is the last revision that the router had confirmed.
func confirmed(inst instance.Instance) (revisions.Revision, bool) {
	store, err := revisions.Read(inst.RevisionsDir())
	if err != nil {
		return revisions.Revision{}, false
	}
	return store.Confirmed(0)
}
