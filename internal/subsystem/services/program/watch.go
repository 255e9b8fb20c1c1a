// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch tells when a file of one of these names may have changed in the directory of some program of the fleet, by inotify(7):
// nothing is looked at meanwhile. The directories come and go, too.
func (f *Fleet) Watch(ctx context.Context, names ...string) (<-chan struct{}, error) {
	dir := filepath.Dir(Dir(f.runDir, "x"))
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	file := os.NewFile(uintptr(fd), "inotify")
	w := &watcher{file: file, fd: fd, dir: dir, prefix: f.prefix, names: names, changes: make(chan struct{}, 1)}
	if err := w.begin(); err != nil {
		file.Close()
		return nil, err
	}
	context.AfterFunc(ctx, func() { file.Close() })
	go func() {
		if err := w.read(); !errors.Is(err, os.ErrClosed) {
			f.log.Error("what the programs write down is no longer followed", "files", names, "error", err)
		}
	}()
	return w.changes, nil
}

type watcher struct {
	file    *os.File
	fd      int
	dir     string
	prefix  string
	names   []string
	changes chan struct{}
}

// begin watches the directory of the programs' directories, and what is in it.
func (w *watcher) begin() error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(w.fd, w.dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE_SELF|unix.IN_ONLYDIR); err != nil {
		return fmt.Errorf("watch %s: %w", w.dir, err)
	}
	w.programs()
	return nil
}

// programs watches the directories of all programs; one that is watched already stays so.
func (w *watcher) programs() {
	dirs, _ := filepath.Glob(filepath.Join(w.dir, w.prefix+"*"))
	for _, d := range dirs {
		if !strings.HasSuffix(d, ".check") {
			_, _ = unix.InotifyAddWatch(w.fd, d, unix.IN_MOVED_TO|unix.IN_DELETE|unix.IN_ONLYDIR) // one that is gone again needs none
		}
	}
}

// read reads until it fails, at the latest when the file is closed.
func (w *watcher) read() error {
	buffer := make([]byte, 16*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return err
		}
		made, gone, changed := false, false, false
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buffer[at]))
			name := unix.ByteSliceToString(buffer[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+int(e.Len)])
			at += unix.SizeofInotifyEvent + int(e.Len)
			made = made || e.Mask&unix.IN_CREATE != 0
			gone = gone || e.Mask&unix.IN_DELETE_SELF != 0 // somebody removed the run directory
			changed = changed || slices.Contains(w.names, name) || e.Mask&unix.IN_Q_OVERFLOW != 0
		}
		if gone {
			if err := w.begin(); err != nil {
				return err
			}
			changed = true
		}
		if made {
			w.programs()
			changed = true // it may have written before it was watched
		}
		if changed {
			select {
			case w.changes <- struct{}{}:
			default:
			}
		}
	}
}
