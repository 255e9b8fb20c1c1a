// SPDX-License-Identifier: Apache-2.0

// Which daemon may start when, and what happens when one dies.
//
// A protocol daemon learns interfaces and addresses from zebra, and only from zebra. bgpd asks for them at its
// start; finding nobody, it asks again after 10 s, later after 60 s, and meanwhile takes sessions without knowing
// the interface below them: such a session says "Established" and refuses every IPv6 route, for good
// (bgp_zebra_nexthop_set in bgpd/bgp_zebra.c). Therefore
//
//   - a protocol daemon is started only while zebra answers,
//   - it gets its configuration, and so its sessions, only when zebra has it among its clients,
//   - one that was started in vain, without configuration, is ended when zebra comes, and started again,
//   - sessions of a bgpd that others started too early are reset once (early.go).
//
// A daemon that has its configuration and loses zebra keeps its sessions and routes, and finds the next zebra by itself.
package routing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"minne/internal/base/process"
)

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 30 * time.Second
	healthyAfter = time.Minute // a daemon that lived this long is restarted without delay again

	joinPoll  = 100 * time.Millisecond // between two looks at zebra's clients
	joinLimit = 15 * time.Second       // until a new daemon is among them; its second attempt comes after 10 s
	askLimit  = 5 * time.Second        // for zebra's answer to a small question
)

// unit is one daemon as its supervisor sees it.
type unit struct {
	proc    *process.Process
	fresh   bool // started here, without configuration so far
	settled bool // has its configuration, and zebra knows it
	resend  bool // knows routes that its zebra does not

	silent time.Time // zebra only: since when it was found not to answer, zero when it did

	delay     time.Duration // before the next attempt
	notBefore time.Time
}

// unit returns what is known of a daemon.
func (r *Routing) unit(daemon string) *unit {
	u := r.units[daemon]
	if u == nil {
		u = &unit{delay: firstBackoff}
		r.units[daemon] = u
	}
	return u
}

// healthKey is the name of a daemon's faults and repairs.
func healthKey(daemon string) string { return "routing " + daemon }

// needsZebra says whether a daemon is a client of zebra's.
func needsZebra(daemon string) bool { return daemon != zebra && daemon != mgmtd }

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
	if !r.applied {
		return 0
	}
	var next time.Duration
	for _, daemon := range r.host.daemons(r.desired) {
		if ctx.Err() != nil {
			return 0
		}
		wait := r.tend(ctx, daemon)
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		if wait > 0 && !needsZebra(daemon) {
			break // the others stand on this one
		}
	}
	return next
}

// tend brings one daemon back to what it should be. It returns when to look again, 0 when all is well.
func (r *Routing) tend(ctx context.Context, daemon string) time.Duration {
	u := r.unit(daemon)
	alive := u.proc.Alive()
	if alive && u.settled {
		return 0
	}
	if !alive && u.proc != nil && time.Since(u.proc.Since) > healthyAfter {
		u.delay, u.notBefore = firstBackoff, time.Time{}
	}
	if wait := time.Until(u.notBefore); wait > 0 {
		return wait
	}
	if alive && !u.fresh && !r.joined(ctx, daemon) {
		return joinPoll // it finds zebra by itself, in 10 s or a minute
	}
	if !alive && needsZebra(daemon) && !r.joined(ctx, zebra) {
		return r.awaitZebra() // most likely it is dying, too
	}
	u.notBefore = time.Now().Add(u.delay)
	wait := u.delay
	u.delay = min(2*u.delay, lastBackoff)
	if !alive {
		r.log.Warn("routing daemon has exited; restarting it", "daemon", daemon)
	}
	err := r.ensure(ctx, daemon, r.desired)
	if err == nil {
		err = r.place(ctx, daemon, r.desired)
	}
	if err != nil {
		r.log.Error("cannot restart the routing daemon", "daemon", daemon, "error", err, "next-attempt", wait)
		r.health.Fault(healthKey(daemon), fmt.Sprintf("%s has ended and can't be restarted: %v", daemon, err))
		return wait
	}
	if !alive {
		r.health.Repaired(healthKey(daemon), daemon+" had ended; it runs again")
	}
	r.health.Clear(healthKey(daemon))
	if needsZebra(daemon) {
		r.unit(zebra).silent = time.Time{}
	}
	if !u.settled {
		return joinPoll
	}
	return 0
}

// awaitZebra tells of a zebra that lives and does not answer, when that lasts.
func (r *Routing) awaitZebra() time.Duration {
	u := r.unit(zebra)
	switch {
	case u.silent.IsZero():
		u.silent = time.Now()
	case time.Since(u.silent) > joinLimit && u.proc.Alive():
		r.health.Fault(healthKey(zebra), fmt.Sprintf("zebra (process %d) does not answer: no routing daemon can start; end it to have it started again", u.proc.PID))
	}
	return joinPoll
}

// ensure adopts or starts a daemon that is not known to run.
func (r *Routing) ensure(ctx context.Context, daemon string, d Desired) error {
	u := r.unit(daemon)
	if u.proc.Alive() {
		return nil
	}
	u.settled, u.fresh = false, false
	p, err := r.host.adopt(daemon, r.wake.Ring)
	if err != nil {
		return err
	}
	if p != nil {
		u.proc, u.resend = p, r.newZebra
		return nil
	}
	stale := 0
	switch {
	case daemon == zebra:
		if err := r.host.refuseForeign(); err != nil {
			return err
		}
		if err := r.endFresh(ctx); err != nil {
			return err
		}
		stale = r.staleSeconds(ctx, d)
	case needsZebra(daemon):
		if _, err := r.clients(ctx); err != nil {
			return fmt.Errorf("%s waits for zebra: %w", daemon, err)
		}
		if err := r.holdFor(ctx, daemon, d); err != nil {
			return err
		}
	}
	if p, err = r.host.start(ctx, daemon, stale, r.wake.Ring); err != nil {
		return err
	}
	r.log.Info("routing daemon started", "daemon", daemon, "pid", p.PID)
	u.proc, u.fresh, u.resend = p, true, false
	if daemon == zebra {
		u.silent, r.newZebra = time.Time{}, true
		for name, other := range r.units {
			other.settled = other.settled && !needsZebra(name) // it has to find this one
			if other.proc.Alive() {
				other.resend = true
				if name == bgpd { // asks by itself, and was not away
					continue
				}
				if err := r.holdFor(ctx, name, d); err != nil {
					r.log.Warn("zebra will not keep the routes of a daemon that crashes", "daemon", name, "error", err)
				}
			}
		}
	}
	return nil
}

// endFresh ends the daemons that were started for a zebra that died before they had a configuration:
// started again, they ask the new one at once.
func (r *Routing) endFresh(ctx context.Context) error {
	for daemon, u := range r.units {
		if !needsZebra(daemon) || !u.fresh || !u.proc.Alive() {
			continue
		}
		if err := u.proc.Stop(ctx, stopLimit); err != nil {
			return err
		}
	}
	return nil
}

// place gives a running daemon its configuration. A new one must have found zebra before.
func (r *Routing) place(ctx context.Context, daemon string, d Desired) error {
	u := r.unit(daemon)
	if u.fresh {
		if err := r.awaitJoin(ctx, daemon); err != nil {
			return err
		}
	}
	joined := r.joined(ctx, daemon)
	if err := r.configure(ctx, daemon, d); err != nil {
		return err
	}
	u.fresh = false
	if joined && !u.settled {
		if err := r.meetZebra(ctx, daemon, d); err != nil {
			return err
		}
	}
	u.settled = joined
	return nil
}

// meetZebra does what a daemon that has found its zebra does not do by itself. bgpd, ospfd and ospf6d tell a new zebra what
// changes from then on, and zebra would take all else out of the kernel when its time to confirm is over. Another
// administrative distance makes them tell everything again. Sessions and adjacencies stay; a route of OSPF is out of the
// kernel for some milliseconds.
func (r *Routing) meetZebra(ctx context.Context, daemon string, d Desired) error {
	u := r.unit(daemon)
	want := parse(d.text[daemon])
	process, isOSPF := map[string]string{ospfd: "ospf", ospf6d: "ospf6"}[daemon]
	switch {
	case daemon == bgpd:
		for _, vrf := range vrfsOf("bgp", want) {
			if err := r.resetEarly(ctx, vrf); err != nil {
				return err
			}
		}
		process = "bgp"
	case !isOSPF:
		return nil
	}
	if !u.resend {
		return nil
	}
	commands := tellAgain(process, want)
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return err
	}
	defer v.close()
	if _, err := v.configure(ctx, commands); err != nil {
		return err
	}
	u.resend = false
	return nil
}

// tellAgain are the commands that make a daemon tell zebra all routes of all tables.
func tellAgain(process string, running *node) (commands []string) {
	for _, n := range running.sub {
		switch p, _, _ := header(n.line); {
		case p != process:
		case p == "bgp":
			commands = append(commands, n.line)
			for _, f := range bgpFamilies {
				commands = append(commands, f.header, "distance bgp 20 200 200", "no distance bgp", "exit-address-family")
			}
			commands = append(commands, "exit")
		default:
			commands = append(commands, n.line, "distance 110", "no distance 110", "exit")
		}
	}
	return commands
}

// awaitJoin waits until zebra has a daemon among its clients.
func (r *Routing) awaitJoin(ctx context.Context, daemon string) error {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	for !r.joined(ctx, daemon) {
		u := r.unit(daemon)
		if !u.proc.Alive() || !r.unit(zebra).proc.Alive() {
			return fmt.Errorf("%s or zebra exited before they connected", daemon)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not connect to zebra within %v", daemon, joinLimit)
		case <-time.After(joinPoll):
		}
	}
	return nil
}

// joined says whether a daemon has found zebra; zebra itself must answer.
func (r *Routing) joined(ctx context.Context, daemon string) bool {
	if daemon == mgmtd {
		return true
	}
	names, err := r.clients(ctx)
	return err == nil && (daemon == zebra || names[strings.TrimSuffix(daemon, "d")])
}

// clients returns the protocols that zebra serves, as it calls them: bgp, ospf, ospf6, bfd. It is also the
// question whether zebra lives: a process that is about to die does not answer.
func (r *Routing) clients(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	v, err := dialVTY(ctx, zebra, r.host.socket(zebra))
	if err != nil {
		return nil, err
	}
	defer v.close()
	text, err := v.command(ctx, "show zebra client summary")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			names[f[0]] = true
		}
	}
	return names, nil
}

// staleSeconds returns how long a new zebra should keep what it finds in the kernel. The protocols need 10 s to
// reconnect and then tell every route again; 1,000 routes/s is what a slow box under load does.
// When bgpd does not run either, its sessions must come up first.
func (r *Routing) staleSeconds(ctx context.Context, d Desired) int {
	const reconnect, noBGP, routesPerSecond = 60, 900, 1000
	nodes, speaks := uint64(0), false
	for _, vrf := range vrfsOf("bgp", parse(d.text[bgpd])) {
		s, err := r.sessions(ctx, vrf)
		if err != nil || s.ASN == 0 {
			return noBGP
		}
		nodes, speaks = nodes+s.Nodes, true
	}
	if !speaks {
		return noBGP
	}
	return reconnect + int(nodes/routesPerSecond)
}
