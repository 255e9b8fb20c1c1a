// SPDX-License-Identifier: Apache-2.0

// Package medium makes files on the router's medium writable for as long as one
// write takes.
//
// On the router's image the file system of the configuration is mounted read-only:
// what is not being written can't be torn by a power cut, and a router that only
// routes never wears its medium out. Who writes there asks for Writable first. On
// any other machine, and for files elsewhere, that does nothing.
package medium

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mount is where the image mounts the partition of the configuration.
const Mount = "/config"

// lockFile is held shared by each process that writes, and alone by the last one
// while it makes the medium read-only again.
const lockFile = "/run/minne-medium.lock"

// ErrReadOnly is wrapped by the error for a medium that can't be written: worn out,
// with its switch on "lock", or damaged.
var ErrReadOnly = errors.New("cannot write the boot medium")

// retries bounds how long a file that somebody has open for writing may keep the
// medium writable: the last one that ends makes it read-only again.
const (
	retries    = 20
	retryPause = 50 * time.Millisecond
)

var writing struct {
	sync.Mutex
	count int
	lock  *os.File
}

// Writable makes the medium writable if path is on it. The function it returns ends
// that: what was written is then on the medium, and the medium read-only again.
// Several may write at a time, in one process or in many.
func Writable(path string) (done func() error, err error) {
	if !On(path) {
		return func() error { return nil }, nil
	}
	writing.Lock()
	defer writing.Unlock()
	if writing.count == 0 {
		if err := open(); err != nil {
			return nil, err
		}
	}
	writing.count++
	return sync.OnceValue(release), nil
}

func release() error {
	writing.Lock()
	defer writing.Unlock()
	writing.count--
	if writing.count > 0 {
		return nil
	}
	lock := writing.lock
	writing.lock = nil
	defer lock.Close() // and with it the lock
	if err := syncAll(); err != nil {
		return err
	}
	Note()
	// One that fails has lost its share: the medium is the others', of whom the last shuts it.
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	return shut()
}

// open makes the medium writable. It waits only while another process shuts it.
func open() error {
	lock, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("medium: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		lock.Close()
		return fmt.Errorf("medium: lock: %w", err)
	}
	if err := remount(false); err != nil {
		lock.Close()
		if !Alive() {
			return ErrGone
		}
		return fmt.Errorf("%w: make %s writable: %w", ErrReadOnly, Mount, err)
	}
	writing.lock = lock
	return nil
}

// shut makes the medium read-only.
func shut() error {
	var err error
	for range retries {
		if err = remount(true); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(retryPause) // somebody else has a file open for writing
	}
	if err != nil {
		return fmt.Errorf("medium: make %s read-only again: %w", Mount, err)
	}
	return nil
}

func syncAll() error {
	d, err := os.Open(Mount)
	if err != nil {
		return fmt.Errorf("medium: %w", err)
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("medium: %w", err)
	}
	return nil
}

func remount(readOnly bool) error {
	flags := uintptr(unix.MS_REMOUNT | Flags)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", Mount, "", flags, "")
}

// Flags are those of the mount, beside read-only.
const Flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME

// On tells whether path, or where it will be, is in the image's file system of
// the configuration.
func On(path string) bool {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return (real == Mount || strings.HasPrefix(real, Mount+"/")) && mounted()
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// mounted tells whether Mount is the medium and not a directory in memory.
func mounted() bool {
	var fs unix.Statfs_t
	return unix.Statfs(Mount, &fs) == nil && fs.Type == unix.EXT4_SUPER_MAGIC && mountPoint()
}

func mountPoint() bool {
	var here, above unix.Stat_t
	return unix.Stat(Mount, &here) == nil && unix.Stat(filepath.Dir(Mount), &above) == nil && here.Dev != above.Dev
}
