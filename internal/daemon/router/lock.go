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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
)

// errHasDaemon is wrapped when an instance's lock is taken.
var errHasDaemon = errors.New("already has a daemon")

func lockFile(inst instance.Instance) string { return filepath.Join(inst.RunDir, "daemon.lock") }

// lockInstance makes sure that an instance has one daemon. The kernel drops the
// lock with the process, however that ends.
//
// Nobody else may hold it: who can open a file for reading can lock it. So the file is
// root's alone, in a directory where others can't put one. One that others could open (an
// earlier version left it so, or it was made by hand) may be held by anybody: then it is
// replaced, unless a process of our own user holds it.
func lockInstance(inst instance.Instance) (release func(), err error) {
	if err := ownDir(inst.RunDir); err != nil {
		return nil, err
	}
	f, open, err := openLock(lockFile(inst))
	if err != nil {
		return nil, err
	}
	err = claimLock(f)
	if errors.Is(err, errHasDaemon) && open && !heldByUs(f) {
		f.Close()
		if f, err = freshLock(lockFile(inst)); err != nil {
			return nil, err
		}
	}
	if err != nil {
		content, _ := os.ReadFile(lockFile(inst)) // only for the message
		pid, _, _ := strings.Cut(string(content), "\n")
		f.Close()
		return nil, fmt.Errorf("instance %s %w (pid %s)", inst.Name, err, pid)
	}
	return func() { f.Close() }, nil
}

// ownDir makes a directory that nobody else can write, and refuses one that belongs to others.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%s must be a directory, and no link to one: %w", dir, err)
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to another user: remove it, or chown root %s", dir, dir)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return d.Chmod(mode &^ 0o022)
	}
	return nil
}

// ours says whether a file is root's or of the user that runs this.
func ours(info os.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid())
}

// openLock opens the lock, which is made if there is none, and takes away what others may do with it; open tells
// that they could open it until now. Anything but an ordinary file of one name is replaced: a link could lead to
// a file that others hold, or that sign would write over.
func openLock(path string) (f *os.File, open bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		f, err = freshLock(path)
		return f, false, err
	}
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, false, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || sys.Nlink != 1 || !ours(info) {
		f.Close()
		f, err = freshLock(path)
		return f, false, err
	}
	open = info.Mode().Perm()&0o077 != 0
	if open {
		if err := f.Chmod(0o600); err != nil {
			f.Close()
			return nil, false, err
		}
	}
	return f, open, nil
}

// freshLock puts a lock that this process holds in the place of what is there.
func freshLock(path string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".lock-*") // 0600, and new
	if err != nil {
		return nil, err
	}
	err = claimLock(f)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return f, nil
}

// heldByUs says whether a process of our own user, or one that can't be told, holds a lock on a file
// (proc_locks(5)).
func heldByUs(f *os.File) bool {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return true
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return true
	}
	place := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	found := false
	for line := range strings.Lines(string(text)) { // 1: FLOCK  ADVISORY  WRITE 1 08:01:7 0 EOF
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != place {
			continue
		}
		found = true
		holder, err := os.Stat("/proc/" + words[4])
		if err != nil || ours(holder) {
			return true
		}
	}
	return !found
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
	return os.WriteFile(lockFile(inst), fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), netns), 0o600)
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
		return fmt.Errorf("instance %s is in another network namespace (%s): name it with --netns", inst.Name, its)
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
			return fmt.Errorf("the daemon does not stop: %w", err)
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
	p := newParts(inst, log, voice{})
	return p.takeDown(ctx)
}
