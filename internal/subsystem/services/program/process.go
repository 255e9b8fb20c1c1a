// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"minne/internal/base/invrf"
	"minne/internal/base/process"
)

// adopt takes over the program if it runs and is not known.
func (p *Program) adopt(d Desired) error {
	if p.proc.Alive() {
		return nil
	}
	found, err := p.find(d)
	if err != nil || found == nil {
		return err
	}
	p.proc = found
	go found.Watch(p.wake.Ring)
	return nil
}

// find returns the process that the pid file names, or nil when that is none of this program. When
// the file is gone with the run directory, the process that runs the program of d for our directory
// is it: else a second one would find its ports taken.
func (p *Program) find(d Desired) (*process.Process, error) {
	found, err := process.Find(p.name, filepath.Join(p.dir, "pid"), p.isOurs)
	if found != nil || err != nil || d.Empty() {
		return found, err
	}
	path, err := exec.LookPath(d.Argv[0])
	if err != nil {
		return nil, nil // not installed: the start says so
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, nil
	}
	runs := func(pid int) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		exe = strings.TrimSuffix(exe, " (deleted)") // its package was upgraded
		return err == nil && filepath.Base(exe) == filepath.Base(path) && p.isOurs(pid)
	}
	dirs, _ := filepath.Glob("/proc/[1-9]*")
	var pids []int
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && runs(pid) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		if !slices.Contains(pids, process.Parent(pid)) { // the others are its children
			return process.Open(p.name, pid, runs)
		}
	}
	return nil, nil
}

// isOurs says whether a process's command names our directory, or that is where it works (some write
// over their command), and it lives in our network namespace.
func (p *Program) isOurs(pid int) bool {
	at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	named := strings.Contains(process.Command(pid), p.dir+"/") || strings.TrimSuffix(at, " (deleted)") == p.dir
	return named && process.InNetwork(pid, "/proc/self/ns/net")
}

// start runs the program and waits until it serves: until it has made the file that says so.
func (p *Program) start(ctx context.Context) error {
	d := p.desired
	if err := p.write(d); err != nil {
		return err
	}
	pidFile := filepath.Join(p.dir, "pid")
	serves := filepath.Join(p.dir, cmp.Or(d.Serves, "pid"))
	for _, file := range []string{pidFile, serves} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
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
	if d.VRF != "" {
		group, err := invrf.Open(p.group(), d.VRF)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Object, err)
		}
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", d.Object, missing(err))
	}
	p.starts++
	proc, err := process.Open(p.name, cmd.Process.Pid, p.isOurs)
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // our child, which nobody else can bury
		close(ended)
	}()
	if err != nil {
		_ = cmd.Process.Kill()
		return err
	}
	err = p.await(ctx, serves, ended)
	if err == nil && d.Serves != "" {
		err = Replace(pidFile, fmt.Sprintln(cmd.Process.Pid), 0o644)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		<-ended
		if proc != nil {
			proc.Close()
		}
		return fmt.Errorf("%s: %s %w%s", d.Object, filepath.Base(d.Argv[0]), err, process.Said(out))
	}
	if proc == nil { // it was too young to show its command
		if proc, err = process.Open(p.name, cmd.Process.Pid, p.isOurs); err != nil || proc == nil {
			return errors.Join(fmt.Errorf("%s: it exited at once%s", d.Object, process.Said(out)), err)
		}
	}
	p.proc = proc
	go proc.Watch(p.wake.Ring)
	p.log.Info("service started", "pid", proc.PID)
	return nil
}

// await waits until a started program has made the file; a pid file also has its pid then.
func (p *Program) await(ctx context.Context, file string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if st, err := os.Stat(file); err == nil && (st.Size() > 0 || !st.Mode().IsRegular()) {
			return nil
		}
		select {
		case <-ended:
			return errors.New("exited at once")
		case <-ctx.Done():
			return fmt.Errorf("does not serve: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
