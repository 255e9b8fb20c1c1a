// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"minne/internal/base/plan"
)

// Fleet is the programs of a service that runs one for each of some interfaces, or VRFs. It is safe for concurrent use.
type Fleet struct {
	runDir string
	per    string // what each is for, for the log: "interface"; "" for what the program's name says
	prefix string // of the programs' directories; that one's name follows
	log    *slog.Logger
	ready  chan struct{}
	wake   chan struct{}

	mu       sync.Mutex
	programs map[string]*supervised // by interface
	run      context.Context        // of Supervise, nil before
	group    sync.WaitGroup
}

// supervised is a program and how to end watching it.
type supervised struct {
	*Program
	end context.CancelFunc // nil before Supervise
}

// NewFleet returns the programs for each interface, or what per says, whose directories begin with prefix. Nothing runs before the
// first Apply.
func NewFleet(runDir, per, prefix string, log *slog.Logger) *Fleet {
	return &Fleet{runDir: runDir, per: per, prefix: prefix, log: log, ready: make(chan struct{}), wake: make(chan struct{}, 1), programs: map[string]*supervised{}}
}

// Of returns the program of an interface, nil where there is none.
func (f *Fleet) Of(name string) *Program {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.programs[name]; s != nil {
		return s.Program
	}
	return nil
}

// State is what the program of an interface is at, the zero value where there is none.
func (f *Fleet) State(name string) (s State) {
	if p := f.Of(name); p != nil {
		s = p.State()
	}
	return s
}

// program returns the program of an interface, made when there is none. The caller holds mu.
func (f *Fleet) program(name string) *supervised {
	s := f.programs[name]
	if s == nil {
		log := f.log
		if f.per != "" {
			log = log.With(f.per, name)
		}
		s = &supervised{Program: New(f.runDir, f.prefix+name, log)}
		f.programs[name] = s
		f.supervise(s)
	}
	return s
}

// supervise starts the program's task once Supervise was called.
func (f *Fleet) supervise(s *supervised) {
	if f.run == nil || s.end != nil {
		return
	}
	ctx, end := context.WithCancel(f.run)
	s.end = end
	f.group.Go(func() { _ = s.Run(ctx) }) // it never fails
}

// Known are the interfaces that have a program, of this daemon or of one before.
func (f *Fleet) Known() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known(nil)
}

// known are those and the interfaces of want, sorted. The caller holds mu.
func (f *Fleet) known(want map[string]Desired) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(f.programs)), maps.Keys(want))
	dirs, _ := filepath.Glob(filepath.Join(Dir(f.runDir, f.prefix+"*"), "command"))
	for _, d := range dirs {
		names = append(names, filepath.Base(filepath.Dir(d))[len(f.prefix):])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Plan says which programs would begin, change and end.
func (f *Fleet) Plan(ctx context.Context, want map[string]Desired) (changes []plan.Change, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.known(want) {
		list, err := New(f.runDir, f.prefix+name, f.log).Plan(ctx, want[name])
		if err != nil {
			return nil, err
		}
		changes = append(changes, list...)
	}
	return changes, nil
}

// Apply makes the programs those that are desired. One that is as desired goes on. Those that end go first.
func (f *Fleet) Apply(ctx context.Context, want map[string]Desired) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failures []error
	for _, name := range f.known(want) {
		if !want[name].Empty() {
			continue
		}
		s := f.program(name)
		if err := s.Stop(ctx); err != nil {
			failures = append(failures, err)
			continue
		}
		if s.end != nil {
			s.end()
		}
		delete(f.programs, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		failures = append(failures, f.program(name).Apply(ctx, want[name]))
	}
	return errors.Join(failures...)
}

// Restart ends and starts the program of an interface. Without one it does nothing.
func (f *Fleet) Restart(ctx context.Context, name string) error {
	if p := f.Of(name); p != nil {
		return p.Restart(ctx)
	}
	return nil
}

// Run supervises the programs until ctx ends. They go on.
func (f *Fleet) Run(ctx context.Context) error {
	f.Supervise(ctx)
	close(f.ready)
	<-ctx.Done()
	f.Wait()
	return nil
}

// Supervise starts programs again that have ended, until ctx ends; Wait then waits for what is under way.
func (f *Fleet) Supervise(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = ctx
	for _, s := range f.programs {
		f.supervise(s)
	}
}

// Wait returns when nothing is supervised any more.
func (f *Fleet) Wait() { f.group.Wait() }

// TrimOutput bounds what the programs have printed.
func (f *Fleet) TrimOutput() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.programs {
		p.TrimOutput()
	}
}
