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
	"time"

	"minne/internal/instance"
	"minne/internal/plan"
	"minne/internal/process"
)

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 30 * time.Second
	healthyAfter = time.Minute // a daemon that lived this long is restarted without delay again
)

// Routing is FRR for one router instance. It is safe for concurrent use.
type Routing struct {
	host  host
	log   *slog.Logger
	ready chan struct{}
	wake  process.Bell // something for Run to look at: a daemon ended, a new desired state

	commands atomic.Uint64
	names    atomic.Pointer[map[string]string] // name of the BGP peer by address, for show while an Apply runs

	mu      sync.Mutex // held during Apply, Stop and restarts
	desired Desired    // what was applied last
	applied bool
	procs   map[string]*process.Process
	backoff map[string]*backoff
}

type backoff struct {
	delay     time.Duration
	notBefore time.Time
}

// New returns the routing of an instance. Nothing runs before the first Apply.
func New(inst instance.Instance, log *slog.Logger) *Routing {
	return newRouting(host{name: inst.FRRName, netns: "/proc/self/ns/net"}, log)
}

func newRouting(h host, log *slog.Logger) *Routing {
	return &Routing{
		host: h, log: log,
		ready: make(chan struct{}), wake: process.NewBell(),
		procs: map[string]*process.Process{}, backoff: map[string]*backoff{},
	}
}

// String names the task.
func (r *Routing) String() string { return "routing" }

// Ready is closed once Run supervises.
func (r *Routing) Ready() <-chan struct{} { return r.ready }

// Commands returns how many configuration commands FRR has been sent so far.
func (r *Routing) Commands() uint64 { return r.commands.Load() }

// Run restarts daemons that end, and gives them their configuration. The daemons keep running when it returns.
func (r *Routing) Run(ctx context.Context) error {
	close(r.ready)
	process.Supervise(ctx, r.wake, r.revive)
	return nil
}

// revive restarts what should run and doesn't. It returns when to try again, 0 for not before notified.
func (r *Routing) revive(ctx context.Context) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.applied || ctx.Err() != nil {
		return 0
	}
	var next time.Duration
	for _, daemon := range r.host.daemons(r.desired) {
		p := r.procs[daemon]
		if p.Alive() {
			continue
		}
		b := r.backoff[daemon]
		if b == nil || p != nil && time.Since(p.Since) > healthyAfter {
			b = &backoff{delay: firstBackoff}
			r.backoff[daemon] = b
		}
		wait := time.Until(b.notBefore)
		if wait <= 0 {
			b.notBefore = time.Now().Add(b.delay)
			wait, b.delay = b.delay, min(2*b.delay, lastBackoff)
			r.log.Warn("routing daemon has ended, starting it again", "daemon", daemon)
			err := r.startAndConfigure(ctx, daemon)
			if err == nil {
				continue
			}
			r.log.Error("routing daemon can't be restarted", "daemon", daemon, "error", err, "next-attempt", wait)
		}
		if next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

func (r *Routing) startAndConfigure(ctx context.Context, daemon string) error {
	if err := r.ensure(ctx, daemon); err != nil {
		return err
	}
	return r.configure(ctx, daemon, r.desired)
}

// ensure adopts or starts a daemon that is not known to run.
func (r *Routing) ensure(ctx context.Context, daemon string) error {
	if r.procs[daemon].Alive() {
		return nil
	}
	p, err := r.host.adopt(daemon, r.wake.Ring)
	if err == nil && p == nil {
		stale := 0
		if daemon == zebra {
			if err := r.host.refuseForeign(); err != nil {
				return err
			}
			stale = r.staleSeconds(ctx)
		}
		p, err = r.host.start(ctx, daemon, stale, r.wake.Ring)
		if err == nil {
			r.log.Info("routing daemon started", "daemon", daemon, "pid", p.PID)
		}
	}
	if err != nil {
		return err
	}
	r.procs[daemon] = p
	return nil
}

// staleSeconds returns how long a new zebra should keep what it finds in the kernel. The protocols need 10 s to
// reconnect and then tell every route again; 1,000 routes/s is what a slow box under load does.
// When bgpd does not run either, its sessions must come up first.
func (r *Routing) staleSeconds(ctx context.Context) int {
	const reconnect, noBGP, routesPerSecond = 60, 900, 1000
	summary, err := r.BGPSummary(ctx)
	if err != nil || summary.ASN == 0 {
		return noBGP
	}
	n := uint64(0)
	for _, routes := range summary.Tables {
		n += routes
	}
	return reconnect + int(n/routesPerSecond)
}

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
		if err := r.ensure(ctx, daemon); err != nil {
			return err
		}
	}
	for _, daemon := range wanted {
		if err := r.configure(ctx, daemon, d); err != nil {
			return err
		}
	}
	if err := r.writeConf(d); err != nil {
		return err
	}
	r.desired, r.applied = d, true
	r.names.Store(&d.peers)
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
	if err := v.fit(ctx, want); err != nil {
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
	have, err = v.running(ctx)
	if err != nil {
		return err
	}
	if diff := mismatch(have, want); len(diff) > 0 {
		return fmt.Errorf("%s did not take its configuration; it lacks the lines with + and has those with - too many:\n  %s",
			daemon, strings.Join(diff, "\n  "))
	}
	return nil
}

// retire ends the daemons that are not wanted, protocols before zebra.
func (r *Routing) retire(ctx context.Context, wanted []string) error {
	for _, daemon := range slices.Backward(startOrder) {
		if slices.Contains(wanted, daemon) {
			continue
		}
		p := r.procs[daemon]
		if !p.Alive() {
			var err error
			if p, err = r.host.adopt(daemon, r.wake.Ring); err != nil {
				return err
			}
		}
		delete(r.procs, daemon)
		delete(r.backoff, daemon)
		if p == nil {
			continue
		}
		// Told to forget its routers first, a daemon takes leave of its neighbours and of zebra for good;
		// at a bare signal graceful restart would keep its routes.
		if err := r.forget(ctx, daemon); err != nil {
			r.log.Warn("routing daemon ends without leave-taking", "daemon", daemon, "error", err)
		}
		if err := p.Stop(ctx, stopLimit); err != nil {
			return err
		}
		r.log.Info("routing daemon stopped", "daemon", daemon)
	}
	return nil
}

func (r *Routing) forget(ctx context.Context, daemon string) error {
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return err
	}
	defer v.close()
	have, err := v.running(ctx)
	if err != nil {
		return err
	}
	var commands []string
	for _, n := range have.sub {
		if strings.HasPrefix(n.line, "router ") {
			commands = append(commands, "no "+n.line)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	sent, err := v.configure(ctx, commands)
	r.commands.Add(uint64(sent))
	return err
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
	return effects(have, d.trees(), r.peerNames(), d.peers), nil
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
