// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/base/health"
	"minne/internal/base/instance"
	"minne/internal/model/rib"
	"minne/internal/subsystem/bypass"
	"minne/internal/subsystem/fastpath/bridges"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/mapped"
)

// smallTable is up to how many prefixes a family gets the small image.
const smallTable = 8000

// FastPath is the fast path of one router instance. Its methods may be called from any goroutine.
// It is a rib.Listener; until the first full account has been told, packets go to the kernel, or
// through the program of an earlier daemon, with the tables as that one left them.
type FastPath struct {
	inst instance.Instance
	log  *slog.Logger

	mu        sync.Mutex
	desired   Desired
	applied   bool // desired is the operator's word
	firewall  firewall
	prog      *program
	capturing *capture // the one that runs
	tables    *tables
	ports     map[int]*port     // by ifindex
	refused   map[string]string // why an interface that should have the fast path has none
	incapable map[string]bool   // those of them whose drivers can't
	adopted   int               // ports taken over from an earlier daemon
	broken    error             // why the program can't be loaded
	sockets   []*os.File        // sockets that hear of settings and features
	failed    error             // of ports, since the last Apply

	lostBefore uint64            // frames that found no room in the queue of their CPU, of programs that were replaced
	astray     error             // programs of an earlier daemon are on ports and can't be told to do nothing
	foreign    bool              // a port that should have the program has somebody else's
	health     *health.Book      // of what is wrong, and what was repaired
	bypass     *bypass.Follower  // hears of what else the kernel would do to packets
	held       map[string]string // what of it has been told, by what it holds
	bridges    *bridges.Follower // hears of bridges
	peers      guardPeers        // stations that the guard knows by name
	listener   flow.Listener     // hears of flows that end; may be nil
	conntrack  func() Conntrack  // opens what is asked about connections; may be nil
	choose     func() Chosen     // what `structure: auto` means; may be nil
	automatic  bool              // the program's structure is what that meant
	asking     asking            // ports, whether they send

	load func(shape, map[string]*ebpf.Map) (*program, error) // a program that takes the place of another
}

var _ rib.Listener = (*FastPath)(nil)

// New returns the fast path of an instance. It touches nothing yet.
func New(inst instance.Instance, log *slog.Logger) *FastPath {
	return &FastPath{inst: inst, log: log, ports: map[int]*port{}, refused: map[string]string{}, load: load, health: health.NewBook(log)}
}

// open loads the program and finds what an earlier daemon left. A failure is remembered: there is
// no fast path then, and the kernel forwards.
func (f *FastPath) open() error {
	if f.tables != nil || f.broken != nil {
		return f.broken
	}
	if err := f.start(); err != nil {
		f.broken = fmt.Errorf("no fast path: %w", err)
		f.log.Error("no fast path, the kernel forwards everything", "error", err)
		for _, p := range f.ports { // else the program of an earlier daemon would go on by what that one knew
			if err := p.detach(); err != nil {
				f.log.Error("cannot remove an earlier daemon's XDP program from a port", "ifindex", p.ifindex, "error", err)
			}
		}
		f.ports = map[int]*port{}
		f.astray = f.takeStraysOff()
	}
	return f.broken
}

func (f *FastPath) start() error {
	if err := ensureDir(f.inst.BPFDir); err != nil {
		return err
	}
	ports, err := adoptPorts(f.inst.BPFDir)
	if err != nil {
		f.log.Warn("cannot use a pin of an earlier daemon; searching its port in the kernel", "error", err)
	}
	if err := f.adoptUnpinned(ports); err != nil {
		return err
	}
	f.ports, f.adopted = ports, len(ports)
	s := shape{structure: f.structureFor(fib.Small), capacity4: fib.Small, capacity6: fib.Small, tells: f.listener != nil, label: f.desired.Labels}
	s.firewall = f.firewall.shape(s.firewall, f.desired.Flows)
	state, stations, err := f.followBridges()
	if err != nil {
		return err
	}
	s.bridges, s.sessions, s.bonds, s.jumbo = f.needsBridges(state), f.desired.hasSessions(), f.desired.hasBonds(), f.desired.jumbo()
	s.vrfs = f.vrfRoomFor(f.desired)
	err = f.withFlowsOrWithout(s, func(s shape) (err error) {
		f.prog, err = loadCounting(f.inst.BPFDir, s)
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(f.prog.listen(f.listener, f.log), f.prog.follow(f.conntrack, f.log)); err != nil {
		return err
	}
	f.automatic = f.desired.Auto
	f.tables = newTables(f.log, f.prog, newProcSettings())
	f.tables.desired = f.desired
	f.tables.bridging.state = state
	f.tables.takeStations(stations, true)
	if err := f.tables.putFirewall(&f.firewall); err != nil {
		return err
	}
	if err := f.heedBypassed(); err != nil {
		return err
	}
	featuresChanged := func() { f.locked(f.reconcileLogged) }
	socket, err := listen(unix.NETLINK_ROUTE, []int{groupNetconf4, groupNetconf6}, f.SettingsChanged)
	if err != nil {
		return err
	}
	f.sockets = append(f.sockets, socket)
	socket, err = listenFeatures(featuresChanged)
	if errors.Is(err, errNoFeatures) {
		f.log.Warn("cannot query drivers; assuming that all ports can transmit", "error", err)
	} else if err != nil {
		return err
	} else {
		f.sockets = append(f.sockets, socket)
	}
	return nil
}

// adoptUnpinned adds ports that have a program of an earlier daemon and no pin that leads to it: somebody has removed
// the pin, and a process still holds the link.
func (f *FastPath) adoptUnpinned(ports map[int]*port) error {
	found, err := strays(f.owns)
	for _, s := range found {
		if ports[s.ifindex] == nil {
			l, e := linkOn(s.ifindex, programID(s.program))
			if e == nil && l != nil {
				ports[s.ifindex] = &port{ifindex: s.ifindex, link: l}
			}
			err = errors.Join(err, e)
		}
		s.close()
	}
	return err
}

// SettingsChanged reads the kernel's settings of interfaces again. When it returns, packets meet them. The kernel tells of
// each change, but some time later.
func (f *FastPath) SettingsChanged() { f.locked(func() { f.tables.reread() }) }

func (f *FastPath) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables != nil {
		do()
	}
}

// Alive returns once the fast path can be asked something, or with ctx.
func (f *FastPath) Alive(ctx context.Context) error {
	for !f.mu.TryLock() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the fast path does not answer: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	f.mu.Unlock()
	return nil
}

// Close lets go of everything in this process. What is attached goes on forwarding.
func (f *FastPath) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropCapture(f.capturing, errors.New("the fast path is stopping"))
	for _, socket := range f.sockets {
		socket.Close()
	}
	if f.bypass != nil {
		f.bypass.Close()
	}
	if f.bridges != nil {
		f.bridges.Close()
	}
	for _, p := range f.ports {
		if p.link != nil {
			p.link.Close()
		}
	}
	if f.prog != nil {
		f.prog.close()
	}
	f.sockets, f.ports, f.prog, f.tables = nil, map[int]*port{}, nil, nil
	f.broken = errors.New("the fast path is closed")
}

// Apply makes the fast path as desired. Ports that an earlier daemon left are changed only once
// the tables are complete. With mode native or generic, a port that can't is an error; with mode
// auto it stays with the kernel, and show fast-path says why.
func (f *FastPath) Apply(_ context.Context, d Desired) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.desired, f.applied = d, true
	if err := f.open(); err != nil {
		if f.astray != nil {
			f.astray = f.takeStraysOff()
		}
		if f.astray != nil {
			return errors.Join(err, f.astray)
		}
		if d.Mode == "off" || d.Mode == "auto" {
			return nil // logged already; the kernel forwards
		}
		return err
	}
	if err := f.forgetOff(); err != nil {
		return err
	}
	f.forgetDetached()
	f.tables.desired = d
	if err := f.learnLinks(); err != nil {
		return err
	}
	s := f.restructured(f.prog.shape)
	s.label = f.prog.labelsFor(d)
	s.bridges, s.sessions, s.bonds, s.jumbo = f.needsBridges(f.tables.bridging.state), d.hasSessions(), d.hasBonds(), f.needsJumbo(d)
	s.vrfs = f.vrfRoomFor(d)
	if s.firewall.conntrack {
		s.firewall.flows = flowsFor(d.Flows)
	}
	if s != f.prog.shape {
		if err := f.reshape(s); err != nil {
			return err
		}
	}
	f.prog.control.store(controlTimeouts, timeoutWord(newProcSettings())) // the commit may have changed them
	f.automatic = d.Auto
	if err := f.restorePins(); err != nil {
		return err
	}
	f.prog.guard.Set(d.Guard)
	if d.Labels != nil {
		f.prog.limits.Set(d.Labels)
	}
	f.tables.reread()
	f.failed = f.reconcile()
	f.reportHeld()
	return f.failed
}

// learnLinks asks for the links that nobody has told of yet: those of the configuration may have
// been made or renamed a moment ago.
func (f *FastPath) learnLinks() error {
	if f.tables.telling {
		return nil
	}
	links, err := currentLinks()
	if err != nil {
		return err
	}
	if f.tables.bridging.state, err = bridges.Read(); err != nil {
		return err
	}
	f.tables.Links(links)
	return nil
}

// rebuild loads another program with tables of another shape, fills them, and puts it in the place
// of the old one, port by port, each in one step. When that fails, all ports run the old one as before.
func (f *FastPath) rebuild(s shape) error {
	f.forgetDetached() // an operator's off, or somebody's hand: there is no port to exchange it on
	f.dropCapture(f.capturing, errors.New("the fast path's program was replaced because its tables changed their size: restart the capture"))
	next, err := f.loadNext(s)
	if err != nil {
		return err
	}
	if err := errors.Join(next.listen(f.listener, f.log), next.follow(f.conntrack, f.log), f.prepareSpread(next)); err != nil {
		next.close()
		return err
	}
	old, place, counted, carried := f.prog, f.tables.place(), f.firewall.counted, maps.Clone(f.firewall.carried)
	f.prog = next
	f.tables.moveTo(next)
	if err := f.exchange(next); err != nil {
		f.firewall.counted, f.firewall.carried = counted, carried
		f.prog = old
		f.tables.moveBack(place)
		f.giveBack(old)
		next.close()
		return fmt.Errorf("resize the tables (the old ones stay in force): %w", err)
	}
	f.automatic = f.desired.Auto
	old.emptySpread()
	if old.spread != nil {
		f.lostBefore += old.spread.lost.Lost()
	}
	mapped.WaitForReaders() // now no packet counts there any more
	old.leaveFlows()
	flags, _ := splitPair(old.control.load(controlPolicy))
	err = f.firewall.carry(old, flags, counted)
	old.close()
	return err
}

// exchange gives a program whose routes are complete the firewall, and all ports.
func (f *FastPath) exchange(next *program) error {
	if err := f.tables.putFirewall(&f.firewall); err != nil {
		return err
	}
	for ifindex := range f.tables.transmits { // all of them before any packet meets the program
		if err := next.objects.Ports.Put(uint32(ifindex), uint32(ifindex)); err != nil {
			return fmt.Errorf("telling the new program of port %d: %w", ifindex, err)
		}
	}
	for _, p := range f.ports {
		if p.link != nil && p.current {
			if err := p.take(next.onPort(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveBack puts the old program on all ports again. A port that can't take it is the kernel's.
func (f *FastPath) giveBack(old *program) {
	for ifindex, p := range f.ports {
		if p.link == nil || !p.current {
			continue
		}
		if err := p.take(old.onPort(p)); err != nil {
			f.log.Error("the kernel forwards this port's packets until the next apply", "interface", p.name, "error", errors.Join(err, p.detach()))
			delete(f.ports, ifindex)
			f.tables.forgetPort(ifindex)
			f.tables.renderLinks()
		}
	}
}

// grow gives a family that outgrew its small image the full one.
func (f *FastPath) grow() {
	t, s := f.tables, f.prog.shape
	if t.full[0] != nil || t.v4.prefixes() > smallTable {
		s.capacity4 = fib.Full
	}
	if t.full[1] != nil || t.v6.prefixes() > smallTable {
		s.capacity6 = fib.Full
	}
	if t.vrfsFull() {
		s.vrfs = fullVRFs
	}
	if s == f.prog.shape {
		return
	}
	if err := f.rebuild(s); err != nil {
		f.log.Error("cannot enlarge the fast path's tables", "error", err)
	}
}

// Begin starts a full account of the kernel's state.
func (f *FastPath) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open() == nil {
		f.tables.Begin()
	}
}

// End finishes the account. After the first one the fast path takes over from the kernel, or from
// the program of the daemon before.
func (f *FastPath) End() {
	f.locked(func() {
		first := !f.tables.complete
		if first {
			f.grow()
		}
		f.tables.End()
		f.grow()
		f.reconcileLogged()
		f.reportHeld()
		if first {
			f.log.Info("fast path synchronised with the kernel", "tables", f.tables.describe(), "sync", f.tables.times.Sync, "fill", f.tables.times.Fill)
		}
	})
}

// Links takes in links.
func (f *FastPath) Links(links []rib.Link) {
	f.locked(func() {
		f.tables.Links(links)
		if !f.tables.telling {
			if f.tables.vrfsFull() {
				f.grow()
			}
			f.reconcileLogged()
			f.reportHeld()
		}
	})
}

// Addresses takes in addresses of the router. Connections that were translated to one that is gone
// are gone from conntrack: flows are asked for again.
func (f *FastPath) Addresses(a []rib.LinkAddress) {
	f.locked(func() {
		f.tables.Addresses(a)
		if slices.ContainsFunc(a, func(one rib.LinkAddress) bool { return one.Deleted }) {
			f.prog.firewall.flows.Invalidate()
		}
	})
}

// Rules takes in policy-routing rules.
func (f *FastPath) Rules(r []rib.Rule) {
	f.locked(func() {
		f.tables.Rules(r)
		if !f.tables.telling {
			f.reportHeld()
		}
	})
}

// Neighbours takes in neighbours.
func (f *FastPath) Neighbours(n []rib.Neighbour) { f.locked(func() { f.tables.Neighbours(n) }) }

// NextHops takes in kernel next-hop objects.
func (f *FastPath) NextHops(n []rib.NextHopGroup) { f.locked(func() { f.tables.NextHops(n) }) }

// Routes takes in routes. When it returns, packets meet them.
func (f *FastPath) Routes(r []rib.RouteChange) {
	f.locked(func() {
		f.tables.Routes(r)
		if f.tables.full != [2]error{} || f.tables.vrfsFull() {
			f.grow()
		}
	})
}

// reconcileLogged is reconcile for changes that no operator waits for.
func (f *FastPath) reconcileLogged() {
	before := f.failed
	if f.failed = f.reconcile(); f.failed != nil && (before == nil || before.Error() != f.failed.Error()) {
		f.log.Error("cannot set up the fast path as configured", "error", f.failed)
	}
}

// reconcile makes the set of ports as desired. It changes nothing before an operator's word is
// known, and no adopted port before the tables are complete.
func (f *FastPath) reconcile() error {
	if !f.applied || f.adopted > 0 && !f.tables.complete || f.offByHand() {
		return nil
	}
	if err := errors.Join(f.growBridges(), f.growVRFs()); err != nil {
		return err
	}
	if err := errors.Join(f.putPeers(), f.prepareSpread(f.prog)); err != nil {
		return err
	}
	wanted := f.wantedPorts()
	attached, transmits, unsummed := maps.Clone(f.tables.attached), maps.Clone(f.tables.transmits), maps.Clone(f.tables.unsummed)
	scatters := maps.Clone(f.tables.scatters)
	f.openAdopted(wanted)
	// First, because a bond takes no program while one of its ports has its own.
	failed := []error{f.dropPorts(wanted)}
	refusedBefore := f.refused
	f.refused, f.incapable, f.foreign = map[string]string{}, map[string]bool{}, false
	for ifindex, name := range wanted {
		if err := f.keepPort(ifindex, name); err != nil {
			f.refused[name] = err.Error()
			f.incapable[name] = errors.As(err, new(errIncapable))
			if errors.As(err, new(errForeign)) {
				f.foreign = true
			}
			if f.desired.Mode != "auto" {
				failed = append(failed, fmt.Errorf("fast path on %s: %w", name, err))
			} else if refusedBefore[name] != err.Error() {
				f.log.Warn("the kernel forwards this interface's packets", "interface", name, "reason", err)
			}
		}
	}
	for _, p := range f.ports {
		if p.current {
			f.openPort(p)
		}
	}
	f.askedAll()
	if !maps.Equal(attached, f.tables.attached) || !maps.Equal(transmits, f.tables.transmits) || !maps.Equal(unsummed, f.tables.unsummed) ||
		!maps.Equal(scatters, f.tables.scatters) {
		f.tables.renderLinks()
	}
	return errors.Join(failed...)
}

// restorePins puts back pins that somebody has taken away behind the daemon's back.
func (f *FastPath) restorePins() error {
	_, err := f.mendPins()
	return err
}

// wantedPorts are the links that should have the program, by ifindex: interfaces with the fast
// path on, and those that carry a VLAN with it.
func (f *FastPath) wantedPorts() map[int]string {
	wanted := map[int]string{}
	for _, l := range f.tables.links {
		d, ok := f.desired.Interfaces[l.Name]
		if !ok || !d.FastPath || l.Loopback || d.Evaluated && f.firewall.policy == nil {
			continue
		}
		bottom := l
		for bottom = range f.tables.down(l.Index) {
		}
		if b := f.tables.bridging.state.Bridges[bottom.Index]; b != nil || bottom.Kind == "bridge" {
			f.wantedBridgePorts(b, wanted)
			continue
		}
		if _, ethernet := macOf(bottom.MAC); ethernet && bottom.VLANID == 0 && (bottom.Master == 0 || f.tables.vrfOf(bottom) != nil) && bottom.Index < maxIfindex {
			wanted[bottom.Index] = bottom.Name
		}
	}
	return wanted
}

// openAdopted makes the tables ready for all adopted ports before the first packet meets the new
// program.
func (f *FastPath) openAdopted(wanted map[int]string) {
	opened := false
	for ifindex, name := range wanted {
		if p := f.ports[ifindex]; p != nil && p.link != nil && !p.current {
			p.name, p.unsummed = name, true // until its driver is asked
			if generic, err := runsGeneric(ifindex); err == nil {
				p.generic = generic
			}
			f.tables.attached[ifindex] = true
			f.openPort(p)
			opened = true
		}
	}
	if opened {
		f.tables.renderLinks()
	}
}

// keepPort sees to it that a port has this daemon's program in the desired mode.
func (f *FastPath) keepPort(ifindex int, name string) error {
	p := f.ports[ifindex]
	if p == nil {
		p = &port{ifindex: ifindex}
		f.ports[ifindex] = p
	}
	p.name = name
	if devices := f.tables.devices(ifindex); !slices.Equal(devices, p.devices) {
		p.devices = devices
		if p.link != nil && p.current && !p.generic {
			if err := p.bare(); err != nil {
				return err
			}
			p.unsummed = p.sums()
		}
	}
	if p.link != nil && !p.current {
		generic, err := runsGeneric(ifindex)
		if err != nil {
			return err
		}
		p.generic = generic
	}
	if p.link != nil && p.generic != (f.desired.Mode == "generic") {
		if err := p.detach(); err != nil {
			return fmt.Errorf("changing its mode: %w", err)
		}
	}
	switch {
	case p.link == nil:
		p.spread = f.spreads(p)
		if err := p.attach(f.onPort(p), f.desired.Mode, f.inst.BPFDir); err != nil {
			delete(f.ports, ifindex)
			return err
		}
		f.tables.attached[ifindex] = true
		f.log.Info("fast path on", "interface", name, "generic", p.generic)
	case !p.current:
		p.spread = f.spreads(p)
		if err := p.take(f.onPort(p)); err != nil {
			return err
		}
		p.unsummed = p.sums()
		f.log.Info("fast path adopted", "interface", name, "generic", p.generic)
	case p.spread != f.spreads(p):
		p.spread = !p.spread
		if err := p.take(f.onPort(p)); err != nil {
			return err
		}
		f.log.Info("packets are spread over CPUs", "interface", name, "on", p.spread)
	}
	return nil
}

// dropPorts takes the program off ports that should not have it.
func (f *FastPath) dropPorts(wanted map[int]string) error {
	var going []*port
	for ifindex, p := range f.ports {
		if _, ok := wanted[ifindex]; ok {
			continue
		}
		delete(f.ports, ifindex)
		f.tables.forgetPort(ifindex)
		going = append(going, p)
	}
	if going == nil {
		return nil
	}
	f.tables.renderLinks()
	mapped.WaitForReaders() // now nobody sends there any more
	var failed []error
	for _, p := range going {
		if err := p.detach(); err != nil {
			failed = append(failed, fmt.Errorf("taking the fast path off %s: %w", p.name, err))
			continue
		}
		_ = f.prog.objects.Ports.Delete(uint32(p.ifindex)) // gone by itself if the device is
		f.log.Info("fast path off", "interface", p.name)
	}
	return errors.Join(failed...)
}

// openPort lets packets leave by a port if it can transmit now, and not otherwise.
func (f *FastPath) openPort(p *port) {
	ok, why := p.transmits()
	if ok {
		ok, why = f.proves(p)
	}
	if ok && !f.tables.transmits[p.ifindex] {
		if err := f.prog.objects.Ports.Put(uint32(p.ifindex), uint32(p.ifindex)); err != nil {
			ok, why = false, fmt.Sprintf("receives only: %v", err)
		}
	}
	if why != p.why && why != "" {
		f.log.Warn("fast path can't send on an interface", "interface", p.name, "reason", why)
	}
	p.why = why
	if p.unsummed {
		f.tables.unsummed[p.ifindex] = true
	} else {
		delete(f.tables.unsummed, p.ifindex)
	}
	if ok {
		f.tables.transmits[p.ifindex] = true
	} else {
		delete(f.tables.transmits, p.ifindex)
	}
	if ok && p.scatters() {
		f.tables.scatters[p.ifindex] = true
	} else {
		delete(f.tables.scatters, p.ifindex)
	}
}
