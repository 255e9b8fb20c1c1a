// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the router's system on a medium with two slots, so
// that a power cut at any moment leaves a router that boots, and a new system
// that does not work is left again without anybody being there.
//
// Install checks the signature before it touches anything and writes the slot
// that is not in use. The boot state then says to try that slot once; whatever
// resets the machine during the trial (power, panic, watchdog) boots the old one.
// In the trial, FinishTrial compares what works with what worked before (a Promise made
// by the old system): interfaces, routing sessions, hosts that answered. Only when
// all of it is there does the new slot become the good one.
//
//	        medium's slot b   state slot   state try   a reset boots
//	before  old or nothing    a            -           a
//	write   incomplete        a            -           a
//	ready   new               a            b           b, once
//	trial   new               a            -           a
//	good    new               b            -           b
package upgrade

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/slot"
	"minne/internal/base/medium"
)

// Device is a partition, or a file in place of one.
type Device interface {
	io.ReaderAt
	slot.Durable
	Size() (int64, error) // in bytes
	Close() error
}

// Medium is what the running system was booted from.
type Medium struct {
	Booted string                            // slot of the running system, "a" or "b"
	Trial  bool                              // it was booted to be tried
	State  string                            // path of the boot state's partition
	Slots  map[string]string                 // path of each slot's partition
	Open   func(path string) (Device, error) // for reading and writing; nil opens device files
}

// Find returns the medium of the running system; its error wraps slot.ErrNoMedium
// on a machine that runs another system than the router's image.
func Find() (Medium, error) {
	m := Medium{Slots: map[string]string{}}
	var err error
	if m.Booted, m.Trial, err = slot.Booted(); err != nil {
		return m, err
	}
	if m.State, err = slot.Device(slot.PartState); err != nil {
		return m, err
	}
	for _, name := range []string{"a", "b"} {
		if m.Slots[name], err = slot.Device(slot.Partition(name)); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m Medium) open(path string) (Device, error) {
	if m.Open != nil {
		return m.Open(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	var locked error
	if errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrPermission) {
		locked = fmt.Errorf("%w: %w", medium.ErrReadOnly, err)
		f, err = os.Open(path) // a worn-out medium can still be looked at
	}
	if err != nil {
		return nil, err
	}
	return partition{f, locked}, nil
}

// partition is a Device that the kernel has.
type partition struct {
	*os.File
	locked error // why it can't be written
}

func (p partition) WriteAt(b []byte, off int64) (int, error) {
	if p.locked != nil {
		return 0, p.locked
	}
	return p.File.WriteAt(b, off)
}

// Size returns where the partition ends, and leaves out of the page cache what
// was read of it before: what is read next comes from the medium.
func (p partition) Size() (int64, error) {
	if err := unix.Fadvise(int(p.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name(), err)
	}
	return p.Seek(0, io.SeekEnd)
}

// state reads the boot state. One that can't be read is as good as none: GRUB
// then boots slot a, or b when a is damaged.
func (m Medium) state() (slot.State, error) {
	d, err := m.open(m.State)
	if err != nil {
		return slot.State{}, fmt.Errorf("boot state: %w", err)
	}
	defer d.Close()
	return slot.LoadState(d)
}

func (m Medium) setState(s slot.State) error {
	d, err := m.open(m.State)
	if err != nil {
		return fmt.Errorf("boot state: %w", err)
	}
	return errors.Join(slot.StoreState(d, s), d.Close())
}

// Well notes that the running system is well: GRUB begins to count its starts anew.
func (m Medium) Well() error {
	s, err := m.state()
	if err != nil || s.Starts == "" {
		return err
	}
	s.Starts = ""
	return m.setState(s)
}

// Holds returns what a slot holds. With whole, the payload is read and compared too.
func (m Medium) Holds(name string, whole bool) (slot.Trailer, error) {
	d, err := m.open(m.Slots[name])
	if err != nil {
		return slot.Trailer{}, fmt.Errorf("slot %s: %w", name, err)
	}
	defer d.Close()
	t, err := read(d, whole)
	if err != nil {
		return t, fmt.Errorf("slot %s: %w", name, err)
	}
	return t, nil
}

func read(d Device, whole bool) (slot.Trailer, error) {
	size, err := d.Size()
	if err != nil {
		return slot.Trailer{}, err
	}
	t, err := slot.Read(d, size)
	if err == nil && whole {
		err = t.CheckPayload(io.NewSectionReader(d, 0, t.Size))
	}
	return t, err
}
