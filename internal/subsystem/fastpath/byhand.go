// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
)

// An operator may take the fast path away, with a daemon or without (minne fast-path off). A daemon that
// finds its programs gone has to know whether that was meant: what is meant stays so until the next apply,
// what is not it repairs at once (watch.go). So the command leaves a note.

const offNote = "fast-path.off"

// offByHand says whether an operator has taken the fast path away since the last apply.
func (f *FastPath) offByHand() bool {
	if f.inst.RunDir == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(f.inst.RunDir, offNote))
	return err == nil
}

// forgetOff takes the note away: an operator applies.
func (f *FastPath) forgetOff() error {
	if f.inst.RunDir == "" {
		return nil
	}
	if err := removeIfThere(filepath.Join(f.inst.RunDir, offNote)); err != nil {
		return fmt.Errorf("the fast path stays off: %w", err)
	}
	return nil
}

// Off takes the fast path of an instance away by an operator's word. It needs no daemon. One that runs leaves it so until its
// next apply.
func Off(inst instance.Instance) error {
	if inst.RunDir != "" {
		if err := os.MkdirAll(inst.RunDir, 0o755); err != nil {
			return fmt.Errorf("directory for the note that the fast path is off: %w", err)
		}
		// First the note: a daemon that finds it takes the lock no more, however often it looks.
		if err := os.WriteFile(filepath.Join(inst.RunDir, offNote), nil, 0o644); err != nil {
			return fmt.Errorf("noting that the fast path is off: %w", err)
		}
		defer alone(inst, handLimit)()
	}
	return TakeAway(inst)
}

// handLimit is how long Off waits for a daemon that is looking after its programs, which takes milliseconds: one that hangs
// does not keep an operator from anything.
const handLimit = 3 * time.Second

// alone keeps the daemon from putting back what Off is just taking away: whoever looks after the programs, or takes them off,
// holds a lock. It gives up after the limit. The lock is held until done is called.
func alone(inst instance.Instance, limit time.Duration) (done func()) {
	done, _ = tryAlone(inst)
	for end := time.Now().Add(limit); done == nil; done, _ = tryAlone(inst) {
		if time.Now().After(end) {
			return func() {}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return done
}

// tryAlone takes the lock, if nobody has it.
func tryAlone(inst instance.Instance) (done func(), err error) {
	file, err := os.OpenFile(filepath.Join(inst.RunDir, offNote+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// TakeAway removes what an instance has in the kernel: programs on ports, pins, counters.
func TakeAway(inst instance.Instance) error {
	entries, err := os.ReadDir(inst.BPFDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the pinned objects: %w", err)
	}
	var failed []error
	for _, e := range entries {
		path := filepath.Join(inst.BPFDir, e.Name())
		if strings.HasPrefix(e.Name(), portPin) {
			if l, err := link.LoadPinnedLink(path, nil); err == nil { // else it is somebody else's object under our name
				if err := takeOff(l); err != nil {
					failed = append(failed, fmt.Errorf("taking off the program pinned at %s: %w", path, err))
				}
			}
		}
		failed = append(failed, removeIfThere(path))
	}
	failed = append(failed, removeIfThere(inst.BPFDir))
	return errors.Join(failed...)
}
