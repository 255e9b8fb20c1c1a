// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running program, by its pidfd.
type process struct {
	pid   int
	fd    *os.File
	dead  chan struct{} // closed when it has ended
	since time.Time     // when it was started, or found
}

func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

func (p *process) close() { p.fd.Close() }

// adopt takes over the program if it runs and is not known.
func (p *Program) adopt() error {
	if p.proc.alive() {
		return nil
	}
	found, err := p.find()
	if err != nil || found == nil {
		return err
	}
	p.proc = found
	go found.watch(p.notify)
	return nil
}

// find returns the process that the pid file names, or nil when that is none of this program.
func (p *Program) find() (*process, error) {
	b, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return nil, nil
	}
	return p.open(pid)
}

// open returns the process of a pid if it is this program's.
func (p *Program) open(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: watch process %d: %w", p.name, pid, err)
	}
	file := os.NewFile(uintptr(fd), p.name)
	if !p.isOurs(pid) {
		file.Close()
		return nil, nil
	}
	return &process{pid: pid, fd: file, dead: make(chan struct{}), since: time.Now()}, nil
}

// isOurs says whether a process's command names our directory and it lives in our network namespace.
func (p *Program) isOurs(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(cmdline, []byte(p.dir+"/")) {
		return false
	}
	theirs, err1 := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	ours, err2 := os.Stat("/proc/self/ns/net")
	return err1 == nil && err2 == nil && os.SameFile(theirs, ours)
}

// watch waits for the end of the process: a pidfd becomes readable then.
func (p *process) watch(ended func()) {
	if conn, err := p.fd.SyscallConn(); err == nil {
		// Called at once and again whenever the poller calls the pidfd readable.
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

// stop ends the process: SIGTERM, and SIGKILL when that takes too long.
func (p *process) stop(ctx context.Context) error {
	for _, step := range []struct {
		sig   unix.Signal
		limit time.Duration
	}{{unix.SIGTERM, stopLimit}, {unix.SIGKILL, 5 * time.Second}} {
		if err := p.signal(step.sig); err != nil && p.alive() {
			return fmt.Errorf("end process %d: %w", p.pid, err)
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
	return fmt.Errorf("process %d does not end", p.pid)
}

func (p *process) signal(s os.Signal) error {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: unknown", s)
	}
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// start runs the program and waits until it has written its pid file: all of those used here do
// so once they serve.
func (p *Program) start(ctx context.Context) error {
	d := p.desired
	if err := p.write(d); err != nil {
		return err
	}
	pidFile := filepath.Join(p.dir, "pid")
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A file, not a pipe: the program keeps it open for life. Readable by root alone.
	out, err := os.OpenFile(filepath.Join(p.dir, "output"), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Object, err)
	}
	defer out.Close()
	cmd := exec.Command(d.Argv[0], d.Argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of our terminal are not for it
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", d.Object, missing(err))
	}
	p.starts++
	proc, err := p.open(cmd.Process.Pid)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // our child, which nobody else can bury
		close(ended)
	}()
	if err != nil {
		_ = cmd.Process.Kill()
		return err
	}
	if err := p.awaitPID(ctx, pidFile, ended); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		if proc != nil {
			proc.close()
		}
		return fmt.Errorf("%s: %s %w%s", d.Object, filepath.Base(d.Argv[0]), err, said(out))
	}
	if proc == nil { // it was too young to show its command
		if proc, err = p.open(cmd.Process.Pid); err != nil || proc == nil {
			return errors.Join(fmt.Errorf("%s: it ended at once%s", d.Object, said(out)), err)
		}
	}
	p.proc = proc
	go proc.watch(p.notify)
	p.log.Info("service started", "pid", proc.pid)
	return nil
}

// awaitPID waits until a started program has written its pid file.
func (p *Program) awaitPID(ctx context.Context, file string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(b)) > 0 {
			return nil
		}
		select {
		case <-ended:
			return errors.New("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("does not serve: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// said returns the end of what a program printed.
func said(out *os.File) string {
	st, err := out.Stat()
	if err != nil {
		return ""
	}
	const most = 2048
	b, err := io.ReadAll(io.NewSectionReader(out, max(0, st.Size()-most), most))
	if text := strings.TrimSpace(string(b)); err == nil && text != "" {
		return ": " + text
	}
	return ""
}

// own makes a directory of a user's.
func own(dir, name string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("%w (is its package installed?)", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}
