// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"minne/internal/base/plan"
)

// protocolStatic is RTPROT_STATIC: who sees it in `ip route` knows that an operator wrote the route.
// Routes of this protocol in the main table belong to Minne.
const protocolStatic = 4

// maxRounds bounds how often an apply looks again. A change may undo another (an address that goes
// takes routes with it), so one round more than that chain is needed: link, address, route, done.
const maxRounds = 5

// Options of a Kernel.
type Options struct {
	// OwnHost lets an apply set the host's name. Only the default instance owns the host:
	// the name is not part of a network namespace.
	OwnHost bool
	// Former is a file for what there was before the configuration, "" to forget that with the process.
	Former string
}

// Kernel reconciles the namespace of the current process. Its methods may be called by several goroutines.
type Kernel struct {
	log    *slog.Logger
	own    Options
	system system
	writes atomic.Uint64

	mu        sync.Mutex // held while the kernel's state is read to be changed
	last      *Desired   // what Reassert restores
	unsettled bool       // an apply stopped in the middle: whoever called it goes back first
	forward   *bool      // what Forwarding set last
	unchecked error      // why source address checks that are configured could not be loaded
	checks    string     // source checks that were last found or put in place
	seen      seen       // of the last look, see reassert.go
	cursor    int        // of Drifted

	learned  map[string]Learned  // by provider, see learned.go
	joined   []DesiredSubscriber // see joined.go
	former   *former
	refusals map[refusal]string // rules that cards do not take, and why
	sorting  sorting
	port     int // of Drifted: whose hardware was looked at
}

// New returns a Kernel that has not touched anything.
func New(log *slog.Logger, options ...Options) *Kernel {
	k := &Kernel{log: log, system: live{}, seen: newSeen(), learned: map[string]Learned{}, refusals: map[refusal]string{},
		sorting: sorting{lacks: map[string]bool{}}}
	for _, o := range options {
		k.own = o
	}
	k.former = readFormer(k.own.Former)
	return k
}

// Writes is how many changes the kernel has taken so far, over netlink, settings and nftables.
func (k *Kernel) Writes() uint64 { return k.writes.Load() }

// Plan says what Apply would change. It only reads.
func (k *Kernel) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.round(k.withLearned(d))
	if err := r.compare(ctx); err != nil {
		return nil, err
	}
	var changes []plan.Change
	for _, s := range r.steps {
		if s.change.Object != "" {
			changes = append(changes, s.change)
		}
	}
	return changes, nil
}

// Apply makes the kernel as desired. A link that is missing fails it before the first change; any
// other failure stops it, leaving what was changed until then. Nothing is written that is already so.
// A route whose next hops can't be reached yet (no carrier, link down) is no failure: it waits for Reassert.
func (k *Kernel) Apply(ctx context.Context, d Desired) error {
	return k.apply(ctx, d, k.round(d))
}

// ApplyPresent is Apply for a router that boots: what belongs to links that are missing or can't be
// told apart is left out, a step that fails does not keep the others from being done, and what was
// left out is the error.
func (k *Kernel) ApplyPresent(ctx context.Context, d Desired) error {
	r := k.round(d)
	r.lenient = true
	return k.apply(ctx, d, r)
}

func (k *Kernel) round(d Desired) *round {
	return &round{system: k.system, own: k.own, desired: d, waiting: map[routeKey]bool{},
		forward: k.forward, had: k.seen.at, noLocal: k.seen.noLocal, former: k.former, refusals: k.refusals, sorting: &k.sorting}
}

func (k *Kernel) apply(ctx context.Context, d Desired, r *round) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.desired, r.forward, r.had = k.withLearned(d), k.forward, k.seen.at
	if k.last != nil && !reflect.DeepEqual(k.last.CPUs, d.CPUs) {
		clear(k.refusals) // another try
	}
	clear(k.sorting.lacks) // there may be a module by now
	if err := k.settle(ctx, r); err != nil {
		k.unsettled = k.unsettled || !r.lenient
		return err // what Reassert restores stays the configuration before
	}
	k.last, k.unsettled, k.unchecked = &d, false, nil
	k.seen.remember(r)
	if !r.lenient {
		k.seen.forgive()
	}
	if d.AntiSpoof != "" {
		k.unchecked = r.uncheckedSources()
	}
	return errors.Join(r.failures(), r.forgetFormer())
}

// settle takes steps until none is left. A lenient round only fails where nothing can be read.
func (k *Kernel) settle(ctx context.Context, r *round) error {
	for range maxRounds {
		if err := r.compare(ctx); err != nil {
			return err
		}
		if len(r.steps) == 0 {
			return nil
		}
		for _, s := range r.steps {
			if r.lenient && r.leftOut(s) {
				continue // it follows from one that failed
			}
			err := k.do(ctx, s, r)
			if err != nil && r.hungUp(s) {
				continue // the next round does without the session
			}
			if err != nil && (!r.lenient || ctx.Err() != nil) {
				return fmt.Errorf("kernel: %s: %w", s.words(), err)
			}
			if err != nil {
				r.fail(s, err)
			}
		}
	}
	if err := r.compare(ctx); err != nil || len(r.steps) == 0 {
		return err
	}
	var left []string
	for _, s := range r.steps {
		left = append(left, s.change.String())
		r.fail(s, fmt.Errorf("it was changed back after each of %d tries (does another program change it?)", maxRounds))
	}
	if r.lenient {
		return nil
	}
	return fmt.Errorf("the kernel does not keep the configuration; still different after %d rounds: %s (does another program change it?)",
		maxRounds, strings.Join(left, "; "))
}

// hungUp says whether the link of a step's interface is one that a service took away meanwhile, as a session that ended.
func (r *round) hungUp(s step) bool {
	n := slices.IndexFunc(r.bound, func(b *bound) bool { return b.Name == s.port && b.Kind.Brought && b.link != nil })
	if n < 0 {
		return false
	}
	links, err := r.system.links()
	return err == nil && !slices.ContainsFunc(links, func(l link) bool { return l.Name == s.port && l.Index == r.bound[n].link.Index })
}

// do takes one step.
func (k *Kernel) do(ctx context.Context, s step, r *round) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.do(ctx)
	if err == nil {
		k.writes.Add(1)
		r.did = append(r.did, s)
		k.log.Debug("kernel changed", "change", s.words())
		return nil
	}
	if s.waits != nil && unreachable(err) {
		level := slog.LevelWarn
		if r.brought(s.port) { // it waits for the link
			level = slog.LevelDebug
		}
		k.log.Log(ctx, level, "route waits until its next hop is reachable", "route", s.change.Object, "reason", err)
		r.waiting[*s.waits] = true
		return nil
	}
	return err
}
