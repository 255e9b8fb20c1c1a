// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"minne/internal/lab/remote"
)

// Process is a program that runs in a node until it is stopped.
type Process struct {
	name string
	log  string         // file with its output
	cmd  *exec.Cmd      // nil for one inside a machine
	far  remote.Program // nil for one of the host's kernel
	done chan struct{}  // closed once it ended
	err  error          // how; valid after done
}

// Start runs a program in the node. Its output goes to a file in the lab's directory.
// It leads a process group of its own, so that Ctrl-C reaches the lab alone.
func (n *Running) Start(name string, argv ...string) (*Process, error) {
	if n.machine != nil {
		return n.startInMachine(name, argv)
	}
	return n.startIn(n.Do, name, argv...)
}

// startInMachine starts a program in the node's machine.
func (n *Running) startInMachine(name string, argv []string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(n.Dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if p.far, err = n.machine.Start(argv, nil, out, out); err != nil {
		out.Close()
		return nil, fmt.Errorf("start %s in %s: %w", name, n.Name, err)
	}
	go func() {
		code, err := p.far.Wait()
		if p.err = err; err == nil && code != 0 {
			p.err = fmt.Errorf("exit status %d", code)
		}
		out.Close()
		close(p.done)
	}()
	n.lab.addProcess(p)
	return p, nil
}

func (n *Running) startIn(do func(func() error) error, name string, argv ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(n.Dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", name, n.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	n.lab.addProcess(p)
	return p, nil
}

// Run runs a program in the node to its end and returns what it wrote to its standard output.
func (n *Running) Run(ctx context.Context, argv ...string) (string, error) {
	if n.machine != nil {
		return n.runIn(ctx, argv)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := n.Do(cmd.Start); err != nil {
		return "", fmt.Errorf("in %s: %s: %w", n.Name, strings.Join(argv, " "), err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return stdout.String(), fmt.Errorf("in %s: %s: %w: %s", n.Name, strings.Join(argv, " "), err, lastLines(stderr.String(), 5))
	}
	return stdout.String(), nil
}

// needProgram says which package is missing.
func needProgram(program, packageName string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: install the package %s", err, packageName)
	}
	return nil
}

// Pid returns the process id, 0 for a process inside a machine.
func (p *Process) Pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process at once (SIGKILL) and waits for it. Its children live on, unless it runs inside a machine.
func (p *Process) Kill() {
	if p.far != nil {
		p.far.Signal(syscall.SIGKILL)
	} else {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
	}
	<-p.done
}

// Stop asks the process to end, and kills its whole group when it doesn't within the grace.
func (p *Process) Stop(grace time.Duration) {
	if p.far != nil {
		p.far.Signal(syscall.SIGTERM)
	} else {
		p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended by itself
	}
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	if p.far != nil {
		p.far.Signal(syscall.SIGKILL)
	} else {
		syscall.Kill(-p.Pid(), syscall.SIGKILL) //nolint:errcheck // nobody may be left
	}
	<-p.done
}

// Failed returns an error with the end of the process's output when it has ended.
func (p *Process) Failed() error {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s ended (%v): %s", p.name, p.err, lastLines(string(text), 8))
	default:
		return nil
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
