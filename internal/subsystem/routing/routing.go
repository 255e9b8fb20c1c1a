// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"minne/internal/base/health"
	"minne/internal/base/instance"
	"minne/internal/base/plan"
	"minne/internal/base/process"
)

// Routing is FRR for one router instance. It is safe for concurrent use.
type Routing struct {
	host   host
	log    *slog.Logger
	health *health.Book
	ready  chan struct{}
	wake   process.Bell // something for Run to look at: a daemon ended, a new desired state

	commands atomic.Uint64
	told     atomic.Pointer[Desired] // what was applied last, for show while an Apply runs

	mu      sync.Mutex // held during Apply, Stop and restarts
	desired Desired    // what was applied last
	applied bool
	units   map[string]*unit // by daemon

	newZebra bool // zebra was started here: daemons that ran before have not told it their routes
}

// New returns the routing of an instance, which tells book what is wrong. Nothing runs before the first Apply.
func New(inst instance.Instance, book *health.Book, log *slog.Logger) *Routing {
	return newRouting(host{name: inst.FRRName, netns: "/proc/self/ns/net"}, book, log)
}

func newRouting(h host, book *health.Book, log *slog.Logger) *Routing {
	return &Routing{
		host: h, log: log, health: book,
		ready: make(chan struct{}), wake: process.NewBell(),
		units: map[string]*unit{},
	}
}

// String names the task.
func (r *Routing) String() string { return "routing" }

// Ready is closed once Run supervises.
func (r *Routing) Ready() <-chan struct{} { return r.ready }

// Commands returns how many configuration commands FRR has been sent so far.
func (r *Routing) Commands() uint64 { return r.commands.Load() }

// Apply makes FRR's state the desired one. A daemon that already has it gets no command. On an error the
// daemons may be left between the two states; applying the former state again restores it.
func (r *Routing) Apply(ctx context.Context, d Desired) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := r.host.daemons(d)
	if err := r.retire(ctx, wanted); err != nil {
		return err
	}
	for _, daemon := range wanted {
		if err := r.ensure(ctx, daemon, d); err != nil {
			return err
		}
	}
	for _, daemon := range wanted {
		if err := r.place(ctx, daemon, d); err != nil {
			return err
		}
	}
	if err := r.writeConf(d); err != nil {
		return err
	}
	r.desired, r.applied = d, true
	r.told.Store(&d)
	r.wake.Ring()
	return nil
}

// configure brings one daemon to its desired configuration and checks that it got there.
func (r *Routing) configure(ctx context.Context, daemon string, d Desired) error {
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return err
	}
	defer v.close()
	have, err := v.running(ctx)
	if err != nil {
		return err
	}
	want := parse(d.text[daemon])
	if err := v.fit(ctx, have, want, r.host.keepsRoutes); err != nil {
		return err
	}
	commands := difference(have, want)
	if len(commands) == 0 {
		return nil
	}
	if err := v.supports(ctx, want); err != nil {
		return err
	}
	sent, err := v.configure(ctx, commands)
	r.commands.Add(uint64(sent))
	if err != nil {
		return err
	}
	got, err := v.running(ctx)
	if err != nil {
		return err
	}
	if diff := mismatch(got, want); len(diff) > 0 {
		return fmt.Errorf("%s refused part of its configuration; lines with + are missing, lines with - should not be there:\n  %s",
			daemon, strings.Join(diff, "\n  "))
	}
	if daemon == bgpd {
		return r.releaseStopped(ctx, have, want)
	}
	return nil
}

// retire ends the daemons that are not wanted, protocols before zebra.
func (r *Routing) retire(ctx context.Context, wanted []string) error {
	for _, daemon := range slices.Backward(startOrder) {
		if slices.Contains(wanted, daemon) {
			continue
		}
		p := r.unit(daemon).proc
		if !p.Alive() {
			var err error
			if p, err = r.host.adopt(daemon, r.wake.Ring); err != nil {
				return err
			}
		}
		delete(r.units, daemon)
		r.health.Clear(healthKey(daemon))
		if p == nil {
			continue
		}
		// Told to forget its routers first, a daemon takes leave of its neighbours and of zebra for good;
		// at a bare signal graceful restart would keep its routes.
		vrfs, err := r.forget(ctx, daemon)
		if err == nil {
			err = r.awaitWithdrawn(ctx, daemon, vrfs)
		}
		if e := p.Stop(ctx, stopLimit); e != nil {
			return e
		}
		if err != nil {
			r.log.Info("the routing daemon did not withdraw all its routes; taking them from zebra", "daemon", daemon, "cause", err)
			if err := r.letGo(ctx, daemon); err != nil {
				r.log.Warn("routes of the routing daemon may stay for up to two minutes", "daemon", daemon, "error", err)
			}
		}
		r.log.Info("routing daemon stopped", "daemon", daemon)
	}
	return nil
}

// forget takes a daemon's routers from it and returns the tables that they were in.
func (r *Routing) forget(ctx context.Context, daemon string) (vrfs []string, err error) {
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return nil, err
	}
	defer v.close()
	have, err := v.running(ctx)
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, n := range have.sub {
		if process, _, vrf := header(n.line); process != "" {
			commands = append(commands, "no "+n.line)
			vrfs = append(vrfs, vrf)
		}
	}
	if len(commands) == 0 {
		return nil, nil
	}
	sent, err := v.configure(ctx, commands)
	r.commands.Add(uint64(sent))
	return vrfs, err
}

// writeConf keeps the integrated configuration file for operators who use vtysh.
func (r *Routing) writeConf(d Desired) error {
	file := r.host.confFile()
	if d.Empty() {
		return errors.Join(os.RemoveAll(r.host.etcDir()), os.RemoveAll(r.host.runDir()))
	}
	text := d.Text()
	if old, err := os.ReadFile(file); err == nil && string(old) == text {
		return nil
	}
	_, gid, err := frrIDs()
	if err != nil {
		return err
	}
	return writeFile(file, text, gid)
}

// Stop ends the daemons of this pathspace and removes its directories.
func (r *Routing) Stop(ctx context.Context) error { return r.Apply(ctx, Desired{}) }

// Plan says what Apply of d would change against what FRR runs now. It changes nothing.
func (r *Routing) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	have := map[string]*node{}
	for _, daemon := range startOrder {
		p, err := r.host.find(daemon)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		p.Close()
		if have[daemon], err = r.running(ctx, daemon); err != nil {
			return nil, err
		}
	}
	return effects(have, d.trees(), r.known(), d), nil
}

// running returns a daemon's running configuration.
func (r *Routing) running(ctx context.Context, daemon string) (*node, error) {
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return nil, err
	}
	defer v.close()
	return v.running(ctx)
}
