// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/diskid"
	"minne/internal/appliance/slot"
	"minne/internal/base/boottime"
)

// slots tells of a slot that was given up, and gives the disk its own identifiers, which the copies of an image do not have.
func slots(_ context.Context, r *Report) error {
	return errors.Join(givenUp(r), ownIdentifiers())
}

// givenUp notes which slot did not get well.
func givenUp(r *Report) error {
	device, err := slot.Device(slot.PartState)
	if err != nil {
		return err
	}
	f, err := os.Open(device)
	if err != nil {
		return fmt.Errorf("boot state: %w", err)
	}
	defer f.Close()
	state, err := slot.LoadState(f)
	if err == nil && state.Why == slot.NeverWell && !r.Help {
		r.Failed = state.Failed
		r.warn("%s", NeverWell(r.Failed))
	}
	return err
}

// NeverWell says what became of a slot that did not get well.
func NeverWell(name string) string {
	return fmt.Sprintf("the system in slot %s did not get well in three starts, so slot %s is used; minne upgrade FILE replaces it, minne upgrade --undo tries it again",
		name, slot.Other(name))
}

// ownIdentifiers changes those of the disk, once. A disk that can't be written keeps them.
func ownIdentifiers() error {
	partition, err := slot.Device(slot.PartState)
	if err != nil {
		return err
	}
	disk, err := slot.DiskOf(partition)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(diskid.Own(f), f.Close())
}

// Help opens a login on a router none of whose systems gets well. It runs in the daemon's place, so no configuration and no rules
// stand in the way of whoever comes to help.
func Help(ctx context.Context) error {
	r, err := ReadReport()
	if err != nil {
		return err
	}
	err = help(ctx, "neither of the two systems got well in three starts; this is the one in slot "+r.Slot+".\nA restart tries it again.")
	return errors.Join(err, noteDaemon(boottime.Now()))
}
