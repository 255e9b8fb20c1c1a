// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/instance"
)

// errHasDaemon is wrapped when an instance's lock is taken.
var errHasDaemon = errors.New("already has a daemon")

// lockInstance makes sure that an instance has one daemon. The kernel drops the
// lock with the process, however that ends.
func lockInstance(inst instance.Instance) (release func(), err error) {
	if err := os.MkdirAll(inst.RunDir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(inst.RunDir, "daemon.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := claimLock(f); err != nil {
		pid, _ := os.ReadFile(path) // only for the message
		f.Close()
		return nil, fmt.Errorf("instance %s %w (pid %s)", inst.Name, err, strings.TrimSpace(string(pid)))
	}
	return func() { f.Close() }, nil
}

func claimLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHasDaemon
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

// WaitStopped returns once the instance has no daemon.
func WaitStopped(ctx context.Context, inst instance.Instance) error {
	for {
		release, err := lockInstance(inst)
		if err == nil {
			release()
			return nil
		}
		if !errors.Is(err, errHasDaemon) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not end: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TakeDown removes what a daemon left in place, when there is none any more.
func TakeDown(ctx context.Context, inst instance.Instance, log *slog.Logger) error {
	release, err := lockInstance(inst)
	if err != nil {
		return err
	}
	defer release()
	p, err := newParts(inst, log)
	if err != nil {
		return err
	}
	return p.takeDown(ctx)
}
