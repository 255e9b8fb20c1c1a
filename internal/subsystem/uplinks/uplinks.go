// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/health"
	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
)

// FastPath repeats what the kernel does, and knows how many routes lead where.
type FastPath interface {
	// PassOver says that an interface is in a group, before the kernel's notification comes.
	PassOver(ifindex int, group uint32)
	// RoutesBy is how many routes of table main, of IPv4 and IPv6, lead to gateways on an interface.
	RoutesBy(ifindex int) (routes [2]int, known bool)
	// RouteChanges is how many changes of routes have been told so far.
	RouteChanges() uint64
}

// Host is what uplinks need of the router around them.
type Host struct {
	Log       *slog.Logger
	Health    *health.Book
	FastPath  FastPath
	BFDSocket string                              // of FRR's bfdd
	File      string                              // what operators have switched off, for the next daemon
	Sever     func(context.Context, []netip.Addr) // ends connections that were translated to addresses
}

// Times of what has to settle.
const (
	tickTime  = time.Second
	calmTicks = 3                // ticks in a row without many changes of routes: the routing protocols are done
	calmRate  = 200              // changes in a tick that come all day with the full table
	proofTime = 30 * time.Second // for an uplink that an earlier daemon left out of use, to prove that it works
)

// Uplinks are those of one router. Its methods may be called by several goroutines.
type Uplinks struct {
	host  Host
	ready chan struct{}
	poke  chan struct{} // something outside has changed: look at the kernel

	mu      sync.Mutex
	ctx     context.Context // of Run, nil before
	desired Desired
	applied bool
	all     []*line // the preferred ones first
	off     map[string]bool
	learned map[string][]netip.Addr // gateways that providers gave, by who learned them and the interface
	seen    observed
	policy  policy
	stop    func() // of those who watch

	changes uint64 // of routes, at the last tick
	calm    int    // ticks in a row
}

// line is one uplink and what is known of it.
type line struct {
	Line
	linkState
	present  bool
	bfd      map[netip.Addr]bool // sessions that were up once: whether they are
	checks   *checks
	unproven time.Time // an earlier daemon left it out of use: not alive before then without a sign

	dead  string // why it is not used; "" when it is
	since time.Time
	moved bool // dead, and no route leads there any more
	fault bool // something was wrong with it since: its routes may not be true
}

// New returns the uplinks of a router. They touch nothing before the first Apply.
func New(h Host) *Uplinks {
	u := &Uplinks{host: h, ready: make(chan struct{}), poke: make(chan struct{}, 1), off: map[string]bool{}, learned: map[string][]netip.Addr{}, stop: func() {}}
	u.readOff()
	return u
}

// String names the task.
func (u *Uplinks) String() string { return "uplinks" }

// Ready is closed once Run follows the kernel.
func (u *Uplinks) Ready() <-chan struct{} { return u.ready }

// Learn takes in the gateways that a provider gives on an interface, by the service (dhcp, dhcpv6) that heard of them.
func (u *Uplinks) Learn(service, name string, gateways []netip.Addr) {
	u.mu.Lock()
	u.learned[service+" "+name] = gateways
	u.mu.Unlock()
	u.Poke()
}

// Poke has the kernel's state looked at again.
func (u *Uplinks) Poke() {
	select {
	case u.poke <- struct{}{}:
	default:
	}
}

// Plan says what Apply would change.
func (u *Uplinks) Plan(_ context.Context, d Desired) (list []plan.Change, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	had := map[string]Line{}
	for _, l := range u.desired.Lines {
		had[l.Name] = l
	}
	for _, l := range d.Lines {
		old, was := had[l.Name]
		delete(had, l.Name)
		switch {
		case !was:
			list = append(list, plan.Change{Action: plan.Add, Object: "uplink " + l.Name})
		case !reflect.DeepEqual(old, l):
			list = append(list, plan.Change{Action: plan.Modify, Object: "uplink " + l.Name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		list = append(list, plan.Change{Action: plan.Remove, Object: "uplink " + name})
	}
	return append(list, planPolicy(u.desired.Policy, d.Policy)...), nil
}

// Apply puts the rules in place and begins to watch the uplinks.
func (u *Uplinks) Apply(ctx context.Context, d Desired) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.applied && reflect.DeepEqual(d, u.desired) {
		return u.reconcile(ctx)
	}
	u.stop()
	u.stop = func() {}
	old := map[string]*line{}
	for _, l := range u.all {
		old[l.Name] = l
	}
	u.all = nil
	for _, one := range d.Lines {
		l := &line{Line: one, bfd: map[netip.Addr]bool{}}
		if was := old[one.Name]; was != nil {
			l.dead, l.since, l.moved, l.linkState = was.dead, was.since, was.moved, was.linkState
			for _, p := range one.BFD {
				if up, known := was.bfd[p]; known {
					l.bfd[p] = up
				}
			}
			l.unproven = was.unproven
		} else if !u.applied {
			l.unproven = time.Now().Add(proofTime)
		}
		u.all = append(u.all, l)
	}
	for name := range old {
		if !slices.ContainsFunc(u.all, func(l *line) bool { return l.Name == name }) {
			u.host.Health.Clear("uplink " + name)
		}
	}
	u.replacePolicy(u.desired.Policy, d.Policy)
	u.desired, u.applied = d, true
	err := u.reconcile(ctx)
	u.watch()
	return err
}

// watch begins to listen to BFD and to ping, as long as Run runs. The caller holds mu.
func (u *Uplinks) watch() {
	if u.ctx == nil || len(u.all) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(u.ctx)
	var running sync.WaitGroup
	u.stop = cancel // what it tells afterwards is about lines that nobody looks at
	if u.desired.BFD {
		running.Go(func() { followBFD(ctx, u.host.BFDSocket, u.heardBFD, func() {}) })
	}
	for _, l := range u.all {
		if l.Health == nil {
			continue
		}
		l.checks = newChecks(l.Name, *l.Health, func() { u.changed("health check") })
		running.Go(func() { l.checks.run(ctx, u.host.Log) })
	}
}

// heardBFD takes in what bfdd says.
func (u *Uplinks) heardBFD(s session) {
	u.mu.Lock()
	hit := false
	for _, l := range u.all {
		if !slices.Contains(l.BFD, s.Peer) {
			continue
		}
		up, known := l.bfd[s.Peer]
		switch {
		case s.Op == "delete":
			delete(l.bfd, s.Peer)
		case s.State == "up":
			l.bfd[s.Peer], l.unproven = true, time.Time{}
		case known && s.State == "down":
			l.bfd[s.Peer] = false
		}
		now, still := l.bfd[s.Peer]
		hit = hit || up != now || known != still
	}
	u.mu.Unlock()
	if hit {
		u.changed("BFD")
	}
}

// changed looks at the uplinks again, in a hurry: the kernel is not asked first.
func (u *Uplinks) changed(why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.applied {
		return
	}
	if err := u.settle(context.Background()); err != nil {
		u.host.Log.Error("cannot switch between uplinks", "after", why, "error", err)
	}
}

// Run follows links and rules until ctx ends.
func (u *Uplinks) Run(ctx context.Context) error {
	events, err := nlmsg.Listen(unix.NETLINK_ROUTE, 1<<20, nil, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("uplinks: %w", err)
	}
	u.mu.Lock()
	u.ctx = ctx
	u.watch()
	u.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() {
		<-ctx.Done()
		events.Close()
	})
	running.Go(func() { u.hear(ctx, events) })
	close(u.ready)
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			running.Wait()
			return nil
		case <-u.poke:
			u.look(ctx)
		case <-tick.C:
			u.ticked(ctx)
		}
	}
}

// hear looks at links at once when the kernel tells of one: a link that goes down is the quickest of signs.
func (u *Uplinks) hear(ctx context.Context, events *os.File) {
	buffer := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := events.Read(buffer)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		if err == nil && u.linkDown(buffer[:n]) {
			u.changed("link down")
		}
		u.Poke()
	}
}

// linkDown takes in links that went down, and says whether one of them is an uplink's.
func (u *Uplinks) linkDown(b []byte) (hit bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(b) > 0 {
		m, rest, err := nlmsg.Next(b)
		if err != nil {
			return hit
		}
		b = rest
		if m.Type != unix.RTM_NEWLINK && m.Type != unix.RTM_DELLINK || len(m.Body) < unix.SizeofIfInfomsg || m.Body[0] != unix.AF_UNSPEC {
			continue
		}
		index, flags := int(int32(native.Uint32(m.Body[4:]))), native.Uint32(m.Body[8:])
		up := m.Type == unix.RTM_NEWLINK && flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP != 0
		for _, l := range u.all {
			if l.present && l.index == index && l.up && !up {
				l.up, hit = false, true
			}
		}
	}
	return hit
}

// look reads the kernel's state and puts it right.
func (u *Uplinks) look(ctx context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.applied || len(u.all) == 0 {
		return
	}
	err := u.reconcile(ctx)
	words := ""
	if err != nil && ctx.Err() == nil {
		words = err.Error()
	}
	u.host.Health.Fault("uplinks", words)
}

// ticked looks whether routing protocols have moved their routes.
func (u *Uplinks) ticked(ctx context.Context) {
	u.mu.Lock()
	defer u.mu.Unlock()
	waiting := false
	for _, l := range u.all {
		waiting = waiting || l.grouped || l.dead != "" || !l.unproven.IsZero()
	}
	if u.policy.ticks++; len(u.desired.Policy) > 0 && u.policy.ticks >= policyTicks {
		u.policy.ticks = 0
		u.Poke()
	}
	if !waiting {
		return
	}
	now := u.host.FastPath.RouteChanges()
	if now-u.changes < calmRate {
		u.calm++
	} else {
		u.calm = 0
	}
	u.changes = now
	if err := u.settle(ctx); err != nil {
		u.host.Log.Error("cannot switch between uplinks", "error", err)
	}
}

// reconcile reads what stands in the kernel, and puts it right. The caller holds mu.
func (u *Uplinks) reconcile(ctx context.Context) error {
	names := map[string]bool{}
	for _, l := range u.all {
		names[l.Name] = true
	}
	o, err := look(ctx, names, u.desired.Policy)
	if err != nil {
		return err
	}
	u.seen = o
	for _, l := range u.all {
		l.linkState, l.present = o.links[l.Name], false
		if _, ok := o.links[l.Name]; ok {
			l.present = true
		}
		if !l.grouped {
			l.unproven = time.Time{} // nobody has left it out of use
		}
	}
	return u.settle(ctx)
}

// settle decides which uplinks are used, and writes what follows. The caller holds mu.
func (u *Uplinks) settle(ctx context.Context) error {
	var sever []netip.Addr
	for _, l := range u.all {
		if u.judge(l) {
			sever = append(sever, l.own...)
		}
	}
	grouped := map[string]bool{}
	for _, l := range u.all {
		grouped[l.Name] = u.passes(l)
	}
	var m messages
	u.writeRules(&m)
	backups := u.backups(grouped)
	var want [2]map[route]bool
	for which := range families {
		want[which] = u.networks(which)
		if b := backups[which]; b.Index != 0 {
			want[which][b] = true
		}
		for r := range want[which] {
			if !u.seen.routes[which][r] {
				m.route(true, which, r)
			}
		}
	}
	u.steer(&m)
	turned := u.turn(&m, grouped)
	for which := range families { // behind the groups: nothing is passed over then that has no other way
		for r := range u.seen.routes[which] {
			if !want[which][r] && !replaced(want[which], r) {
				m.route(false, which, r)
			}
		}
		u.seen.routes[which] = want[which]
	}
	if m.count == 0 {
		return nil
	}
	err := m.write()
	for _, l := range turned {
		u.host.FastPath.PassOver(l.index, groupOf(l.grouped))
	}
	if err != nil {
		u.Poke()
	}
	if len(sever) > 0 && u.host.Sever != nil {
		go u.host.Sever(context.WithoutCancel(ctx), sever)
	}
	return err
}

// judge says whether an uplink has just fallen out of use.
func (u *Uplinks) judge(l *line) (fell bool) {
	fault, dead := u.fault(l), ""
	if dead = fault; u.off[l.Name] {
		dead = "switched off: minne uplink " + l.Name + " on switches it on"
	}
	if (dead == "") != (l.dead == "") {
		l.since, l.moved, u.calm = time.Now(), false, 0
		if dead != "" {
			fell, l.fault = true, false
			u.host.Log.Warn("uplink is out of use", "uplink", l.Name, "reason", dead)
		} else {
			u.host.Log.Info("uplink works again", "uplink", l.Name)
		}
	}
	u.host.Health.Fault("uplink "+l.Name, fault) // not what an operator wants so
	l.dead = dead
	l.fault = l.fault || fault != ""
	if dead != "" && !l.moved && u.calm >= calmTicks && u.abandoned(l) {
		l.moved = true
		u.host.Log.Info("no route leads to the uplink any more", "uplink", l.Name)
	}
	return fell
}

func groupOf(passed bool) uint32 {
	if passed {
		return Group
	}
	return 0
}

// turn puts interfaces into the group, or out of it.
func (u *Uplinks) turn(m *messages, grouped map[string]bool) (turned []*line) {
	for _, l := range u.all {
		if l.present && l.grouped != grouped[l.Name] {
			l.grouped = grouped[l.Name]
			m.group(l.index, groupOf(l.grouped))
			turned = append(turned, l)
		}
	}
	for name, state := range u.seen.links { // of an uplink that is none any more
		if state.grouped && !slices.ContainsFunc(u.all, func(l *line) bool { return l.Name == name }) {
			m.group(state.index, 0)
			u.host.FastPath.PassOver(state.index, 0)
			delete(u.seen.links, name)
		}
	}
	return turned
}

// replaced says whether another default route takes the place of one.
func replaced(want map[route]bool, r route) bool {
	for w := range want {
		if w.Prefix == r.Prefix {
			return true
		}
	}
	return false
}

// writeRules adds what is missing of the rules, or takes away what is there without uplinks.
func (u *Uplinks) writeRules(m *messages) {
	for which, family := range families {
		have := &u.seen.rules[which]
		switch {
		case len(u.all) > 0:
			// The one for main first: the other alone would take everything.
			if !have[0] && have[1] {
				m.rule(false, family, false)
				have[1] = false
			}
			if !have[0] {
				m.rule(true, family, true)
			}
			if !have[1] {
				m.rule(true, family, false)
			}
			*have = [2]bool{true, true}
		default:
			if have[1] {
				m.rule(false, family, false)
			}
			if have[0] {
				m.rule(false, family, true)
			}
			*have = [2]bool{}
		}
	}
}

// fault is what is wrong with an uplink, whether it is switched off or not; "" when nothing is.
func (u *Uplinks) fault(l *line) string {
	switch {
	case !l.present:
		return "there is no such link"
	case !l.up:
		return "its link is down"
	}
	for _, p := range l.BFD {
		if up, known := l.bfd[p]; known && !up {
			return fmt.Sprintf("BFD: %s does not answer", p)
		}
	}
	if l.checks != nil {
		if why := l.checks.failed(); why != "" {
			return why
		}
		if l.checks.proven() {
			l.unproven = time.Time{}
		}
	}
	if !l.unproven.IsZero() && time.Now().Before(l.unproven) {
		return "it was out of use when the daemon started"
	}
	l.unproven = time.Time{}
	return ""
}

// abandoned says whether no route leads to a dead uplink any more, and none is to come. An uplink without routing protocols
// keeps its routes.
func (u *Uplinks) abandoned(l *line) bool {
	if len(l.Peers) == 0 || !l.present || u.off[l.Name] {
		return false
	}
	routes, known := u.host.FastPath.RoutesBy(l.index)
	if !known {
		return false
	}
	for which := range families {
		if routes[which] > 0 && !u.familyLives(l, which) {
			return false
		}
	}
	return true
}

// familyLives says whether BFD of a family is up on an uplink that is dead for the other family.
func (u *Uplinks) familyLives(l *line, which int) bool {
	lives := false
	for _, p := range l.BFD {
		if whichOf(p) == which {
			if !l.bfd[p] {
				return false
			}
			lives = true
		}
	}
	return lives && l.up
}

// passes says whether the routes by an uplink are to be passed over.
func (u *Uplinks) passes(l *line) bool {
	other := slices.ContainsFunc(u.all, func(o *line) bool { return o != l && o.dead == "" })
	switch {
	case !l.present || !other:
		return false
	case l.dead != "":
		return !l.moved
	case !l.grouped || !l.fault || len(l.Peers) == 0:
		return false
	}
	// It works again, and has failed meanwhile: its routes are true once the routing protocols are done with them.
	return u.calm < calmTicks
}

// backups are the default routes of Table: by the best uplink that works, while routes are passed over.
func (u *Uplinks) backups(grouped map[string]bool) (list [2]route) {
	passing := false
	for _, on := range grouped {
		passing = passing || on
	}
	if !passing {
		return list
	}
	for which := range families {
		for _, l := range u.all {
			if l.dead != "" || grouped[l.Name] || !l.present {
				continue
			}
			if gateway, ok := u.gateway(l, which); ok {
				list[which] = route{Gateway: gateway, Index: l.index}
				break
			}
		}
	}
	return list
}

// gateway is that of an uplink in a family; ok is false when it has none.
func (u *Uplinks) gateway(l *line, which int) (gateway netip.Addr, ok bool) {
	if l.Routed {
		return netip.Addr{}, slices.ContainsFunc(l.own, func(a netip.Addr) bool { return whichOf(a) == which })
	}
	list := slices.Clone(l.Gateways)
	for _, service := range []string{"dhcp", "dhcpv6"} {
		list = append(list, u.learned[service+" "+l.Name]...)
	}
	for _, g := range list {
		if g.IsValid() && whichOf(g) == which {
			return g, true
		}
	}
	return netip.Addr{}, false
}

// networks are the routes of Table that stand all the time: to the uplinks' own networks.
func (u *Uplinks) networks(which int) map[route]bool {
	list := map[route]bool{}
	for _, l := range u.all {
		if !l.present || l.Routed || !l.up {
			continue
		}
		for _, n := range l.networks {
			if whichOf(n.Addr()) == which {
				list[route{Prefix: n, Index: l.index}] = true
			}
		}
	}
	return list
}

// Stop takes everything out of the kernel.
func (u *Uplinks) Stop(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stop()
	if !u.applied {
		return nil
	}
	u.all, u.desired, u.applied = nil, Desired{}, false
	return u.reconcile(ctx)
}
