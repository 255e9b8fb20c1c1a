// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"

	"minne/internal/model/api"
)

// door is the control socket, which is made again when somebody has removed it with the run directory:
// a daemon that nobody can speak to any more looks dead.
type door struct {
	path string

	mu  sync.Mutex
	now net.Listener
}

func openDoor(path string) (*door, error) {
	l, err := api.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &door{path: path, now: l}, nil
}

func (d *door) current() net.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Accept waits for who speaks to the socket, and goes on with the next one when it was made again.
func (d *door) Accept() (net.Conn, error) {
	for {
		l := d.current()
		c, err := l.Accept()
		if err == nil || d.current() == l {
			return c, err
		}
	}
}

func (d *door) Close() error   { return d.current().Close() }
func (d *door) Addr() net.Addr { return d.current().Addr() }

// gone says whether the socket's file is no longer there.
func (d *door) gone() bool {
	_, err := os.Lstat(d.path)
	return errors.Is(err, fs.ErrNotExist)
}

// again makes the socket anew.
func (d *door) again() error {
	next, err := api.Listen(d.path)
	if err != nil {
		return err
	}
	d.mu.Lock()
	former := d.now
	d.now = next
	d.mu.Unlock()
	if u, ok := former.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the file is the new one's
	}
	return former.Close()
}

const runDirKey = "run directory"

// watchRunDir makes the run directory again when it is gone: the socket and the lock at once, and
// with the running configuration the files of the programs, which are started anew with them.
func (d *Daemon) watchRunDir(ctx context.Context, socket *door) {
	if ctx.Err() != nil || !socket.gone() {
		return
	}
	err := socket.again()
	if err == nil {
		if _, err = lockInstance(d.inst); err == nil { // held until the process ends
			err = sign(d.inst)
		}
	}
	if err != nil {
		d.parts.health.Fault(runDirKey, fmt.Sprintf("%s is gone and can't be made again: %v", d.inst.RunDir, err))
		return
	}
	d.parts.health.Clear(runDirKey)
	d.parts.health.Repaired(runDirKey, d.inst.RunDir+" was removed; it is made again, and the programs with files in it are started anew")
	go func() { // a commit may be at work: it takes its time
		if err := d.engine.Reapply(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("after the run directory was removed", "error", err)
		}
	}()
}
