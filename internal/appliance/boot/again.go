// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/slot"
	"minne/internal/base/medium"
)

// lookDir is where a medium that has come is looked at.
const lookDir = "/run/minne/look"

// MediumChanged is called when a partition of a configuration came or went. A router that has lost its medium goes on
// from memory and says so; it takes the medium again when it is back, and nothing else.
func MediumChanged() error {
	if !OnImage() || !medium.Noted() || medium.Alive() {
		return nil
	}
	devices, err := slot.Devices(slot.PartConfig)
	if err != nil {
		return err
	}
	if len(devices) == 0 {
		Say("the medium was pulled out: the router goes on, and takes no commits until it is back")
		return nil
	}
	var failed []error
	for _, device := range devices {
		same, err := isOurs(device)
		if err == nil && same {
			return takeAgain(device)
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	Say("this is not the medium that was pulled out, or it was changed elsewhere: it is left alone.\nTo use it, restart the router.")
	return nil
}

// isOurs tells whether a partition holds what this router's configuration was when it was last seen. Nothing is
// written to it, not even what its journal may hold: it may be somebody else's.
func isOurs(device string) (same bool, err error) {
	if err := os.MkdirAll(lookDir, 0o700); err != nil {
		return false, err
	}
	if err := unix.Mount(device, lookDir, "ext4", medium.Flags|unix.MS_RDONLY, "noload"); err != nil {
		return false, fmt.Errorf("look at %s: %w", device, err)
	}
	same, err = medium.Same(lookDir)
	return same, errors.Join(err, unix.Unmount(lookDir, 0))
}

// takeAgain puts the partition in the place of the one that is gone, which stays until this one is mounted.
func takeAgain(device string) error {
	if err := mountExt4(device, lookDir); err != nil {
		return err
	}
	if err := unix.Unmount(medium.Mount, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the removed medium: %w", err)
	}
	if err := unix.Mount(lookDir, medium.Mount, "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("mount %s in its place: %w", device, err)
	}
	if err := slot.Moved(device); err != nil {
		return err
	}
	Say("the medium is back: commits are taken again")
	return nil
}
