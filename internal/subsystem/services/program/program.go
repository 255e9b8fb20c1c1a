// SPDX-License-Identifier: Apache-2.0

// Package program runs one program beside the daemon: a DHCP client, dnsmasq,
// chronyd, sshd. Each service renders the program's files and command; this
// package puts the files in place, starts the program, starts it again when it
// ends, and takes it away.
//
// Like the routing daemons, a program outlives the daemon: a new one finds it by
// its pid file, or where that is gone by its command, and goes on with it. A pid from a file is believed only when /proc
// shows that the process's command names the program's own directory and that it lives
// in our network namespace; from then on a pidfd stands for it. What it was
// started with is its directory's content, so a comparison with what is desired
// says whether it has to be started anew.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"minne/internal/base/atomicfile"
	"minne/internal/base/invrf"
	"minne/internal/base/plan"
	"minne/internal/base/process"
)

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 30 * time.Second
	healthyAfter = time.Minute      // one that lived this long is started again without delay
	startLimit   = 20 * time.Second // until the program has written its pid file
	stopLimit    = 10 * time.Second // until it has ended after SIGTERM
)

// What a program prints lies in memory (the run directory is a tmpfs), and some never stop: beyond
// mostOutput bytes only the last keptOutput are kept.
const (
	mostOutput = 128 << 10
	keptOutput = 32 << 10
)

// Desired is what a program shall run with. The zero value is: not at all.
type Desired struct {
	Object string   // what it is to an operator, as "DHCP and DNS server"
	Facts  []string // what it serves, a line each, for previews and views

	// Argv is the command, in the foreground; it names files in Dir(…) and makes the program write its pid
	// to the file "pid" there once it serves. A program that can't has Serves, the name of a file that
	// it makes there instead, as its socket; then this package writes the pid down.
	Argv   []string
	Serves string
	Files  map[string]string // name → text, in its directory
	Modes  map[string]fs.FileMode
	Check  []string // command that says whether the files are right, before anything is stopped; nil for none
	VRF    string   // in which it runs: its sockets are bound to it; "" for the main table
	Owner  string   // user of the program, who gets the directory "var" in it to write in; "" for none

	Needs       func() error                // what the host must have; told before anything is changed; nil for nothing
	Directories []Directory                 // that the program asks for outside its own
	Prepare     func(context.Context) error // makes what outlives the program, as a key; nil for nothing
}

// Empty says whether the program shall not run.
func (d Desired) Empty() bool { return len(d.Argv) == 0 }

// command is the text of the file that says what the program was started with.
func (d Desired) command() string {
	text := strings.Join(d.Argv, "\n") + "\n"
	if d.VRF != "" {
		text += "in VRF " + d.VRF + "\n"
	}
	return text
}

// State is what a program is at.
type State struct {
	Name    string    `json:"name"`
	Object  string    `json:"object"`
	Facts   []string  `json:"facts,omitempty"`
	Running bool      `json:"running"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Starts  int       `json:"starts"` // by this daemon
	Error   string    `json:"error,omitempty"`
}

// Program is one program of a router instance. It is safe for concurrent use.
type Program struct {
	name string
	dir  string
	log  *slog.Logger

	ready chan struct{}
	wake  process.Bell

	mu        sync.Mutex
	desired   Desired
	applied   bool
	proc      *process.Process
	delay     time.Duration
	notBefore time.Time
	starts    int
	failure   error
}

// Dir is where a program of an instance keeps its files; runDir is the instance's.
func Dir(runDir, name string) string { return filepath.Join(runDir, "services", name) }

// New returns the program of that name. Nothing runs before the first Apply.
func New(runDir, name string, log *slog.Logger) *Program {
	return &Program{name: name, dir: Dir(runDir, name), log: log.With("program", name),
		ready: make(chan struct{}), wake: process.NewBell()}
}

// String names the task.
func (p *Program) String() string { return p.name }

// Ready is closed once Run supervises.
func (p *Program) Ready() <-chan struct{} { return p.ready }

// Dir is where the program keeps its files.
func (p *Program) Dir() string { return p.dir }

// Plan says what Apply would change. It changes nothing.
func (p *Program) Plan(_ context.Context, d Desired) ([]plan.Change, error) {
	if d.Needs != nil {
		if err := d.Needs(); err != nil {
			return nil, err
		}
	}
	old, err := p.find(d)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.Close()
	}
	c := plan.Change{Subsystem: "services", Object: d.Object, Details: d.Facts}
	switch {
	case d.Empty() && old == nil:
		return nil, nil
	case d.Empty():
		c.Action, c.Object, c.Details = plan.Remove, p.formerObject(), nil
	case old == nil:
		c.Action = plan.Add
	case !p.inPlace(d):
		c.Action = plan.Modify
	default:
		return nil, nil
	}
	return []plan.Change{c}, nil
}

// formerObject is what the program that runs is to an operator.
func (p *Program) formerObject() string {
	if b, err := os.ReadFile(filepath.Join(p.dir, "object")); err == nil {
		return strings.TrimSpace(string(b))
	}
	return p.name
}

// inPlace says whether the directory has what is desired.
func (p *Program) inPlace(d Desired) bool {
	for name, text := range p.files(d) {
		b, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil || string(b) != text {
			return false
		}
	}
	return true
}

// files are all files of the directory that say what runs.
func (p *Program) files(d Desired) map[string]string {
	all := map[string]string{"command": d.command(), "object": d.Object + "\n"}
	maps.Copy(all, d.Files)
	return all
}

// Apply makes the program run as desired, or not at all. One that does already is left alone.
func (p *Program) Apply(ctx context.Context, d Desired) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.adopt(d); err != nil {
		return err
	}
	if d.Empty() {
		p.desired, p.applied, p.failure = d, true, nil
		return p.remove(ctx)
	}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.Object, err)
	}
	if p.proc.Alive() && p.inPlace(d) {
		p.desired, p.applied = d, true
		p.wake.Ring()
		return nil
	}
	if err := p.check(ctx, d); err != nil {
		return err
	}
	if err := p.end(ctx); err != nil {
		return err
	}
	p.desired, p.applied, p.delay, p.notBefore = d, true, 0, time.Time{}
	p.failure = p.start(ctx)
	p.wake.Ring()
	return p.failure
}

// check asks the program about its files before the one that runs is stopped.
func (p *Program) check(ctx context.Context, d Desired) error {
	if d.Check == nil {
		return nil
	}
	trial := p.dir + ".check"
	if err := os.RemoveAll(trial); err != nil {
		return err
	}
	defer os.RemoveAll(trial)
	if err := writeFiles(trial, d, d.Files); err != nil {
		return err
	}
	var argv []string
	for _, word := range d.Check {
		argv = append(argv, strings.ReplaceAll(word, p.dir+"/", trial+"/"))
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s refuses its configuration: %w: %s", d.Object, filepath.Base(argv[0]), missing(err), strings.TrimSpace(string(out)))
	}
	return nil
}

// missing says what to do about a program that is not installed.
func missing(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (is its package installed?)", err)
	}
	return err
}

func (p *Program) write(d Desired) error { return writeFiles(p.dir, d, p.files(d)) }

// writeFiles writes files each as a whole: what reads them sees the old or the new.
func writeFiles(dir string, d Desired, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("%s: %w", d.Object, err)
	}
	if d.Owner != "" {
		if err := own(filepath.Join(dir, "var"), 0o750, d.Owner); err != nil {
			return fmt.Errorf("%s: %w", d.Object, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := fs.FileMode(0o644)
		if m, ok := d.Modes[name]; ok {
			mode = m
		}
		if err := Replace(filepath.Join(dir, name), files[name], mode); err != nil {
			return fmt.Errorf("%s: %w", d.Object, err)
		}
	}
	return nil
}

// Replace writes a file as a whole, so that a reader sees the former text or the new one. A file that
// has the text already is left alone.
func Replace(path, text string, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return os.Chmod(path, mode)
	}
	return atomicfile.Write(path, []byte(text), mode, atomicfile.Fleeting)
}

// Restart ends the program that runs and starts it anew, as it is desired.
func (p *Program) Restart(ctx context.Context) error {
	return p.Between(ctx, func() error { return nil })
}

// Between ends the program, calls do, and starts the program anew, also when do failed. Without a program
// that shall run it does nothing.
func (p *Program) Between(ctx context.Context, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.applied || p.desired.Empty() {
		return nil
	}
	if err := p.end(ctx); err != nil {
		return err
	}
	failed := do()
	p.delay, p.notBefore = 0, time.Time{}
	p.failure = p.start(ctx)
	p.wake.Ring()
	return errors.Join(failed, p.failure)
}

// Stop ends the program and forgets what it should run with.
func (p *Program) Stop(ctx context.Context) error { return p.Apply(ctx, Desired{}) }

// remove ends the program and takes its directory away.
func (p *Program) remove(ctx context.Context) error {
	if err := p.end(ctx); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "command"))
	if err == nil && bytes.Contains(text, []byte("\nin VRF ")) {
		if err := invrf.Remove(p.group()); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.dir)
}

// group is the control group of the program where it runs in a VRF.
func (p *Program) group() string {
	return fmt.Sprintf("%s-%08x", p.name, crc32.ChecksumIEEE([]byte(p.dir)))
}

// end stops the process if there is one.
func (p *Program) end(ctx context.Context) error {
	if !p.proc.Alive() {
		return nil
	}
	if err := p.proc.Stop(ctx, stopLimit); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.log.Info("service stopped", "pid", p.proc.PID)
	p.proc = nil
	return nil
}

// TrimOutput bounds what the program has printed. It is called now and then.
func (p *Program) TrimOutput() {
	if err := trim(filepath.Join(p.dir, "output")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Error("cannot truncate the program's output", "error", err)
	}
}

// trim keeps the last lines of a file that has become too big. Who writes it appends (O_APPEND), and so
// goes on behind them; what is written in between may be lost.
func trim(path string) error {
	st, err := os.Stat(path)
	if err != nil || st.Size() <= mostOutput {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	last := make([]byte, keptOutput)
	n, err := f.ReadAt(last, max(0, st.Size()-keptOutput))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, whole, _ := bytes.Cut(last[:n], []byte("\n"))
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(whole)
	return err
}

// Signal sends a signal to the program if it runs.
func (p *Program) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.proc.Alive() {
		return nil
	}
	return p.proc.Signal(s)
}

// Run starts the program again when it has ended. The program goes on when Run returns.
func (p *Program) Run(ctx context.Context) error {
	close(p.ready)
	process.Supervise(ctx, p.wake, p.revive)
	return nil
}

// revive starts what should run and doesn't. It returns when to look again, 0 for not before notified.
func (p *Program) revive(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.applied || p.desired.Empty() || ctx.Err() != nil || p.proc.Alive() {
		return 0
	}
	if p.delay == 0 || p.proc != nil && time.Since(p.proc.Since) > healthyAfter {
		p.delay = firstBackoff
	}
	if wait := time.Until(p.notBefore); wait > 0 {
		return wait
	}
	wait := p.delay
	p.notBefore = time.Now().Add(wait)
	p.delay = min(2*wait, lastBackoff)
	p.log.Warn("service has exited; restarting it")
	if p.failure = p.start(ctx); p.failure == nil {
		return 0
	}
	p.log.Error("cannot start the service", "error", p.failure, "next-attempt", wait)
	return wait
}

// States is the state of the program if the configuration asks for it.
func (p *Program) States() []State {
	if s := p.State(); s.Object != "" {
		return []State{s}
	}
	return nil
}

// State says what the program is at.
func (p *Program) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Name: p.name, Object: p.desired.Object, Facts: p.desired.Facts, Running: p.proc.Alive(), Starts: p.starts}
	if s.Running {
		s.PID, s.Since = p.proc.PID, p.proc.Since
	} else if p.failure != nil {
		s.Error = p.failure.Error()
	}
	return s
}
