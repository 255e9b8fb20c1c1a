// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"minne/internal/plan"
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
}

// Kernel reconciles the namespace of the current process. Its methods may be called by several goroutines.
type Kernel struct {
	log    *slog.Logger
	own    Options
	system system
	writes atomic.Uint64

	mu   sync.Mutex // held while the kernel's state is read to be changed
	last *Desired   // what Reassert restores

	learned map[string]Learned // by interface, see learned.go
}

// New returns a Kernel that has not touched anything.
func New(log *slog.Logger, options ...Options) *Kernel {
	k := &Kernel{log: log, system: live{}, learned: map[string]Learned{}}
	for _, o := range options {
		k.own = o
	}
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

// ApplyPresent is Apply for a router that boots: what belongs to missing links is left out, all
// else is done, and the missing links are the error.
func (k *Kernel) ApplyPresent(ctx context.Context, d Desired) error {
	r := k.round(d)
	r.lenient = true
	return errors.Join(k.apply(ctx, d, r), r.absent)
}

// Reassert restores what the kernel dropped of the last applied Desired: routes that went with a
// carrier or an address, and interfaces that were unplugged and came back. It reads links, addresses
// and static routes only, and writes nothing when all is there. Called after a Watcher's Restorable.
func (k *Kernel) Reassert(ctx context.Context) error {
	k.mu.Lock()
	last := k.last
	k.mu.Unlock()
	if last == nil {
		return nil
	}
	r := k.round(*last)
	r.lenient, r.quick = true, true
	return k.apply(ctx, *last, r)
}

func (k *Kernel) round(d Desired) *round {
	return &round{system: k.system, own: k.own, desired: d, waiting: map[routeKey]bool{}}
}

func (k *Kernel) apply(ctx context.Context, d Desired, r *round) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.desired = k.withLearned(d)
	if err := k.settle(ctx, r); err != nil {
		return err // what Reassert restores stays the configuration before
	}
	k.last = &d
	return nil
}

// settle takes steps until none is left.
func (k *Kernel) settle(ctx context.Context, r *round) error {
	for range maxRounds {
		if err := r.compare(ctx); err != nil {
			return err
		}
		if len(r.steps) == 0 {
			return nil
		}
		for _, s := range r.steps {
			if err := k.do(ctx, s, r); err != nil {
				return err
			}
		}
	}
	if err := r.compare(ctx); err != nil || len(r.steps) == 0 {
		return err
	}
	var left []string
	for _, s := range r.steps {
		left = append(left, s.change.String())
	}
	return fmt.Errorf("kernel does not stay as configured, still to do after %d rounds: %s (does another program change it?)",
		maxRounds, strings.Join(left, "; "))
}

// do takes one step.
func (k *Kernel) do(ctx context.Context, s step, r *round) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.do(ctx)
	if err == nil {
		k.writes.Add(1)
		k.log.Debug("kernel changed", "change", s.words())
		return nil
	}
	if s.waits != nil && unreachable(err) {
		k.log.Warn("route waits until its next hop is reachable", "route", s.change.Object, "reason", err)
		r.waiting[*s.waits] = true
		return nil
	}
	return fmt.Errorf("kernel: %s: %w", s.words(), err)
}

// Forwarding switches IPv4 and IPv6 forwarding of the namespace and of the configured interfaces.
// The router calls it last, when filters, addresses and routes stand.
func (k *Kernel) Forwarding(ctx context.Context, on bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	value := "0"
	if on {
		value = "1"
	}
	// The two of the namespace copy themselves to every interface; an interface's own flag may
	// have been changed since.
	paths := []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"}
	if k.last != nil {
		for _, i := range k.last.Interfaces {
			paths = append(paths, "net/ipv4/conf/"+i.Name+"/forwarding", "net/ipv6/conf/"+i.Name+"/forwarding")
		}
	}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		now, ok, err := k.system.setting(path)
		if err != nil {
			return err
		}
		if !ok || now == value {
			continue
		}
		if err := k.system.setSetting(path, value); err != nil {
			return err
		}
		k.writes.Add(1)
	}
	return nil
}
