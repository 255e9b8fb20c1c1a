// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"minne/internal/base/plan"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/model/revisions"
	"minne/internal/subsystem/fastpath/label"
	"minne/internal/subsystem/firewall"
)

// stepTimeout bounds one step of an apply: routing daemons take seconds to start on a small machine.
const stepTimeout = 2 * time.Minute

// Desired is what a subsystem made of a configuration: a plain value of its own type.
type Desired any

// Subsystem is one part of the system that a configuration is put in place in.
type Subsystem interface {
	// String names it in messages; it is also the name of its step.
	String() string
	// Render turns a configuration into the state to reach. It touches nothing.
	Render(Input) (Desired, error)
	// Plan says what Apply would change. It touches nothing.
	Plan(context.Context, Desired) ([]plan.Change, error)
	// Apply reaches the state from whatever the system is in. Once reached, it changes nothing.
	Apply(context.Context, Desired) error
	// Restore is Apply for when there is no way back: it reaches what can be
	// reached, and the error is what can't (a port that is not there).
	Restore(context.Context, Desired) error
}

// Input is a checked configuration with the secrets it names and the policy that
// it makes with the files it names.
type Input struct {
	Config   *config.Config
	Secrets  config.Secrets
	Firewall firewall.Desired
	Labels   *label.Sets // nil without patterns
}

// odd is what is right about the configuration, but seldom meant.
func (in Input) odd() []config.Problem {
	if in.Config == nil {
		return nil
	}
	return append(config.Warnings(in.Config), in.Firewall.Warnings...)
}

// target is a revision as the subsystems see it.
type target struct {
	rev      revisions.Revision
	warnings []string  // what is odd about it
	session  string    // why it ends the login of who asked for it
	desired  []Desired // by subsystem; nil where rendering failed
	failed   []error   // by subsystem: why it could not be rendered
}

// Engine moves the router between configurations. See the package comment.
type Engine struct {
	log        *slog.Logger
	store      *revisions.Store
	clock      clock
	subsystems []Subsystem
	forwarding func(ctx context.Context, on bool) error
	// stands says why the kernel might let pass what a state of the firewall denies; nil asks nobody.
	stands func(Desired) error
	// read turns a file's text into an Input; strict also refuses what the checks find. reach says which files it
	// may name.
	read func(source, text string, strict bool, reach policy.Reach) (Input, error)
	// fingerprint tells the secrets that a configuration uses, without showing them.
	fingerprint func(Input) map[string]string
	// fault is called at the named points of a commit, for tests (see fault_on.go).
	fault func(point string) error
	// beside are the files that a restore exchanges with the configuration; nil for none.
	companions *companionFiles
	// onDegraded is called when the running configuration is not fully in place.
	onDegraded func()
	// onOlder is called with the reason when an older revision than the newest confirmed one has to
	// do, and with "" when that is over.
	onOlder func(why string)
	// onInPlace is called when a revision is fully in place.
	onInPlace func(revision int)

	claim chan struct{} // holds a token while somebody changes the router
	touch sync.Mutex    // held while subsystems are asked or changed, see enter
	// stepSince is when the step that holds touch began, in time since boot; 0 for none.
	stepSince atomic.Int64

	mu        sync.Mutex
	holder    string  // who holds the claim, for messages
	running   *target // in use; nil before the first
	confirmed *target // what a revert goes back to
	stopTimer func()  // of the deadline of running
	degraded  []string
}

// newEngine completes an engine at rest; Start puts the stored configuration in place.
func newEngine(e *Engine) *Engine {
	e.claim = make(chan struct{}, 1)
	if e.fault == nil {
		e.fault = func(string) error { return nil }
	}
	if e.onDegraded == nil {
		e.onDegraded = func() {}
	}
	if e.onOlder == nil {
		e.onOlder = func(string) {}
	}
	if e.onInPlace == nil {
		e.onInPlace = func(int) {}
	}
	return e
}

// take claims the router for a change, or says who has it.
func (e *Engine) take(who string) error {
	select {
	case e.claim <- struct{}{}:
		e.setHolder(who)
		return nil
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		return &api.Error{Kind: api.Locked, Message: fmt.Sprintf("locked: %s is at work on this router; try again when it is done", e.holder)}
	}
}

// wait claims the router once it is free.
func (e *Engine) wait(ctx context.Context, who string) error {
	select {
	case e.claim <- struct{}{}:
		e.setHolder(who)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) setHolder(who string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder = who
}

func (e *Engine) release() { <-e.claim }

// settle waits for a change that is being made, and lets no other begin.
func (e *Engine) settle(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	if err := e.wait(ctx, "the end of the daemon"); err != nil {
		e.log.Error("a commit is still running; the next start rolls it back")
	}
	e.disarm()
}

// State is what the engine is at.
type State struct {
	Running   *revisions.Revision // nil before the first
	Confirmed *revisions.Revision
	Degraded  []string // what of Running is not in place, and why
}

// State returns the revisions in use.
func (e *Engine) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := State{Degraded: append([]string(nil), e.degraded...)}
	if e.running != nil {
		r := e.running.rev
		s.Running = &r
	}
	if e.confirmed != nil {
		r := e.confirmed.rev
		s.Confirmed = &r
	}
	return s
}

// Left is how long a revision that waits for its confirmation still has.
func (e *Engine) Left(d *revisions.Deadline) time.Duration {
	if d == nil || d.BootID != e.clock.bootID() {
		return 0
	}
	return max(0, d.Boottime-e.clock.sinceBoot())
}

// prepare reads, checks and renders a configuration.
func (e *Engine) prepare(q api.Commit) (*target, error) { return e.prepareWithin(q, policy.Everywhere) }

func (e *Engine) prepareWithin(q api.Commit, reach policy.Reach) (*target, error) {
	source, text := q.Source, q.Config
	in, err := e.read(source, text, true, reach)
	if err != nil {
		return nil, invalid(err)
	}
	t := e.render(in)
	if err := errors.Join(t.failed...); err != nil {
		return nil, &api.Error{Kind: api.Invalid, Message: fmt.Sprintf("%s: %v", source, err)}
	}
	for _, w := range in.odd() {
		t.warnings = append(t.warnings, w.String())
	}
	t.session = cutSession(in, q)
	t.rev = revisions.Revision{Source: source, Config: text, Secrets: e.fingerprint(in)}
	return t, nil
}

// invalid keeps what is wrong with a file apart from what is wrong with the system.
func invalid(err error) error {
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return &api.Error{Kind: api.Invalid, Message: wrong.Error()}
	}
	return err
}

// recall makes a stored revision ready to be put in place again. What the checks
// of today say about it is not asked: it ran before.
func (e *Engine) recall(rev revisions.Revision) (*target, error) {
	in, err := e.read(fmt.Sprintf("revision %d", rev.Number), rev.Config, false, policy.Everywhere)
	if err != nil {
		return nil, err
	}
	t := e.render(in)
	t.rev = rev
	if now := e.fingerprint(in); !maps.Equal(now, rev.Secrets) {
		e.log.Warn("secrets or firewall files have changed since this revision was applied; the current ones are used", "revision", rev.Number)
	}
	return t, nil
}

// nothing is the target of a router that has no configuration.
func (e *Engine) nothing() *target {
	return e.render(Input{Config: config.Normalize(&config.Config{Version: config.Version})})
}

func (e *Engine) render(in Input) *target {
	t := &target{desired: make([]Desired, len(e.subsystems)), failed: make([]error, len(e.subsystems))}
	for i, s := range e.subsystems {
		d, err := s.Render(in)
		if err != nil {
			t.failed[i] = fmt.Errorf("%s: %w", s, err)
			continue
		}
		t.desired[i] = d
	}
	return t
}

// plan asks every subsystem what putting t in place would change.
func (e *Engine) plan(ctx context.Context, t *target) ([]plan.Change, error) {
	defer e.enter()()
	changes := []plan.Change{}
	for i, s := range e.subsystems {
		c, err := s.Plan(ctx, t.desired[i])
		if err != nil {
			return nil, fmt.Errorf("preview of %s: %w", s, err)
		}
		changes = append(changes, c...)
	}
	return changes, nil
}
