// SPDX-License-Identifier: Apache-2.0

package remotehands

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Key is the key to hold, t for tech-support. Keyboards and terminals repeat a key
// that is held, so it is seen as a row of them.
const Key = 't'

// How a key looks that is held. A keyboard begins to repeat after up to a second.
const (
	holdTime = 2 * time.Second
	maxGap   = 1100 * time.Millisecond
	minCount = 5
)

// Watcher looks for the key on consoles until it is asked whether it was held.
type Watcher struct {
	consoles []*console
	done     sync.WaitGroup
}

// console is one of them, without echo and line editing as long as it is watched.
type console struct {
	file   *os.File
	before *unix.Termios

	mu     sync.Mutex
	row    row
	closed bool
}

// row is a row of keys.
type row struct {
	first, last time.Time
	count       int
	held        bool
}

// press adds a key.
func (r *row) press(key byte, now time.Time) {
	if key|0x20 != Key { // either case
		r.count = 0
		return
	}
	if r.count == 0 || now.Sub(r.last) > maxGap {
		r.first, r.count = now, 0
	}
	r.last = now
	r.count++
	r.held = r.held || r.count >= minCount && now.Sub(r.first) >= holdTime
}

// begun tells whether a key may be being held, and it is too early to say.
func (r *row) begun(now time.Time) bool {
	return !r.held && r.count > 0 && now.Sub(r.last) <= maxGap
}

// Watch begins to watch terminals, as "/dev/ttyS0", and says so on them. One that is
// not there is left out: no PC has all of them.
func Watch(terminals ...string) *Watcher {
	w := &Watcher{}
	for _, path := range terminals {
		c, err := open(path)
		if err != nil {
			continue
		}
		w.consoles = append(w.consoles, c)
		fmt.Fprintf(c.file, "minne: hold %c to write a tech-support archive to the stick\r\n", Key)
		w.done.Go(c.watch)
	}
	return w
}

func open(path string) (*console, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // non-blocking: reads end with a deadline
	if err != nil {
		return nil, err
	}
	c := &console{file: f}
	err = control(f, func(fd int) error {
		if c.before, err = unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			return err
		}
		raw := *c.before
		raw.Lflag &^= unix.ICANON | unix.ECHO
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("console %s: %w", path, err)
	}
	return c, nil
}

// control calls f with the file's descriptor, which stays in non-blocking mode.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// watch takes keys until the console is left.
func (c *console) watch() {
	buffer := make([]byte, 64)
	for {
		n, err := c.file.Read(buffer)
		c.mu.Lock()
		for _, key := range buffer[:n] {
			c.row.press(key, time.Now())
		}
		closed := c.closed
		c.mu.Unlock()
		if err != nil || closed {
			return
		}
	}
}

// Held ends the watch and says whether the key was held. When it is down at this
// moment, that takes as long as it takes to tell.
func (w *Watcher) Held() bool {
	held := false
	for waiting := true; waiting && !held; {
		waiting = false
		for _, c := range w.consoles {
			c.mu.Lock()
			held = held || c.row.held
			waiting = waiting || c.row.begun(time.Now())
			c.mu.Unlock()
		}
		if waiting && !held {
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, c := range w.consoles {
		c.leave(held)
	}
	w.done.Wait()
	for _, c := range w.consoles {
		c.file.Close()
	}
	w.consoles = nil
	return held
}

// leave gives the console back as it was. What was typed is thrown away when it was the
// held key: the login behind it shall not get a row of them.
func (c *console) leave(held bool) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if held {
		fmt.Fprint(c.file, "minne: writing the archive, which takes a minute; its name will appear here\r\n")
	}
	_ = c.file.SetReadDeadline(time.Now())
	request := uint(unix.TCSETS)
	if held {
		request = unix.TCSETSF
	}
	_ = control(c.file, func(fd int) error { return unix.IoctlSetTermios(fd, request, c.before) })
}
