// SPDX-License-Identifier: Apache-2.0

// Package process knows running programs that outlive who started them: routing
// daemons and services, which go on while Minne's daemon restarts.
//
// A pid from a file is believed only when the caller recognises the process behind
// it; from then on a pidfd stands for it (pidfd_open(2)), so that a reused pid can't
// be mistaken for it.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killLimit is how long a process may take to end after SIGKILL.
const killLimit = 5 * time.Second

// Process is a running program.
type Process struct {
	Name  string
	PID   int
	Since time.Time // when it was started, or found

	fd   *os.File      // pidfd
	dead chan struct{} // closed when it has ended
}

// Find returns the process that a pid file names, or nil when there is none, or another than ours.
func Find(name, pidFile string, ours func(pid int) bool) (*Process, error) {
	b, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: read pid file: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return nil, nil // empty: it died before it wrote
	}
	return Open(name, pid, ours)
}

// Open returns the process of a pid, or nil when there is none, or another than ours.
func Open(name string, pid int, ours func(pid int) bool) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: watch process %d: %w", name, pid, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if !ours(pid) { // asked when the pid can't become another's any more
		file.Close()
		return nil, nil
	}
	return &Process{Name: name, PID: pid, Since: time.Now(), fd: file, dead: make(chan struct{})}, nil
}

// Command returns a process's command line, its words each followed by a NUL; nothing when there is none.
func Command(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(b)
}

// Parent returns the pid of a process's parent, 0 when there is no such process.
func Parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// proc_pid_stat(5): the name stands in parentheses and may hold some itself.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return 0
	}
	return parent
}

// InNetwork says whether a process lives in the network namespace of a file such as /proc/self/ns/net.
func InNetwork(pid int, netns string) bool {
	theirs, err1 := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	ours, err2 := os.Stat(netns)
	return err1 == nil && err2 == nil && os.SameFile(theirs, ours)
}

// Alive says whether the process has not ended, whether or not Watch has seen it. A nil process is not alive.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return false
	}
	ended := true // the file is closed: Watch has seen the end
	_ = conn.Control(func(fd uintptr) { ended = exited(int(fd)) })
	return !ended
}

// Watch waits for the end of the process, then calls ended. It is called once for each process.
func (p *Process) Watch(ended func()) {
	if conn, err := p.fd.SyscallConn(); err == nil {
		// A pidfd becomes readable then. Called at once and again whenever the poller calls it readable.
		_ = conn.Read(func(fd uintptr) bool { return exited(int(fd)) })
	}
	close(p.dead)
	p.fd.Close()
	ended()
}

// exited says whether the process behind a pidfd has ended, without waiting.
func exited(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// Close forgets a process that nobody watches.
func (p *Process) Close() { p.fd.Close() }

// Stop ends a watched process: SIGTERM, and SIGKILL when that takes longer than the limit.
func (p *Process) Stop(ctx context.Context, limit time.Duration) error {
	for _, step := range []struct {
		signal unix.Signal
		limit  time.Duration
	}{{unix.SIGTERM, limit}, {unix.SIGKILL, killLimit}} {
		if err := p.Signal(step.signal); err != nil && p.Alive() {
			return fmt.Errorf("%s: end process %d: %w", p.Name, p.PID, err)
		}
		timer := time.NewTimer(step.limit)
		select {
		case <-p.dead:
			timer.Stop()
			return nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: process %d does not stop", p.Name, p.PID)
}

// Signal sends a signal to the process, and to no other that has its pid by now.
func (p *Process) Signal(s unix.Signal) error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// Said returns the end of what a program printed into a file, behind a colon, for an error message.
func Said(out *os.File) string {
	const most = 2048
	st, err := out.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(out, max(0, st.Size()-most), most))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return ": " + text
	}
	return ""
}
