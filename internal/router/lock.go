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

func lockFile(inst instance.Instance) string { return filepath.Join(inst.RunDir, "daemon.lock") }

// lockInstance makes sure that an instance has one daemon. The kernel drops the
// lock with the process, however that ends.
func lockInstance(inst instance.Instance) (release func(), err error) {
	if err := os.MkdirAll(inst.RunDir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(lockFile(inst), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := claimLock(f); err != nil {
		content, _ := os.ReadFile(lockFile(inst)) // only for the message
		pid, _, _ := strings.Cut(string(content), "\n")
		f.Close()
		return nil, fmt.Errorf("instance %s %w (pid %s)", inst.Name, err, pid)
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
	return nil
}

// sign writes into the lock who holds it: the pid, and the network namespace that
// the router is in, which outlives the daemon there.
func sign(inst instance.Instance) error {
	netns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	return os.WriteFile(lockFile(inst), fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), netns), 0o644)
}

// sameNetns fails when the daemon that last held the lock was in another network
// namespace than this process.
func sameNetns(inst instance.Instance) error {
	content, err := os.ReadFile(lockFile(inst))
	if err != nil {
		return err
	}
	netns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	if _, its, _ := strings.Cut(strings.TrimSpace(string(content)), "\n"); its != "" && its != netns {
		return fmt.Errorf("instance %s is in another network namespace (%s): say which with --netns", inst.Name, its)
	}
	return nil
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
	if err := sameNetns(inst); err != nil {
		return err
	}
	p := newParts(inst, log)
	return p.takeDown(ctx)
}
