// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/model/rib"
)

// The comparison of what is desired with what is there, as a list of steps.
//
// The order keeps an operator's session alive: names and links to be made, settings,
// source checks, what belongs to bonds, bridges and VRFs, sizes, new addresses, links up, shaping, new routes; only then what is
// too much goes: routes, addresses, links that Minne made, links down.

// step is one change: in words, and how to make it.
type step struct {
	change plan.Change
	do     func(ctx context.Context) error
	waits  *routeKey // a route that may wait for its next hop

	port  string // the interface that it is about, "" for none
	was   string // what something else must have done, should the step be a repair
	vital bool   // the port's other steps follow from this one
}

// of says which interface a step is about, and what must have happened if it had been right before.
func (s *step) of(port, was string) *step {
	s.port, s.was = port, was
	return s
}

// words names a step in logs and errors.
func (s step) words() string {
	if s.change.Object == "" {
		return "make room for a name"
	}
	return s.change.String()
}

// round is one look at the kernel and the steps that follow from it.
type round struct {
	system   system
	own      Options
	desired  Desired
	forward  *bool                    // what forwarding shall be; nil leaves it alone
	had      map[string]int           // links that the interfaces had before
	noLocal  map[int]bool             // links that the kernel gives no link-local address
	former   *former                  // what there was before what the configuration asked for
	refusals map[refusal]string       // rules that cards do not take, and why
	sorting  *sorting                 // of subscribers
	held     func(object string) bool // steps that are not taken now, see fights
	lenient  bool                     // what can't be done is left out, and does not keep the rest from being done
	quick    bool                     // source checks are not looked at

	waiting map[routeKey]bool // routes that the kernel would not take yet
	absent  error             // interfaces left out in a lenient round
	failed  []failure         // what else could not be done in a lenient round
	links   []link
	bound   []*bound
	live    []address
	steps   []step
	last    []step // steps that take something away: done at the end
	did     []step // that were taken
}

// compare reads the kernel's state and fills in the steps.
func (r *round) compare(ctx context.Context) error {
	r.steps, r.last, r.absent = nil, nil, nil
	var err error
	if r.quick { // it comes in the middle of what others do
		if err := r.system.barrier(); err != nil {
			return err
		}
	}
	if r.links, err = r.system.links(); err != nil {
		return err
	}
	if r.live, err = r.system.addresses(); err != nil {
		return err
	}
	r.bound, r.absent = bind(r.desired.Interfaces, r.links, r.hadBefore)
	r.absent = errors.Join(r.absent, r.freeNames())
	if r.absent != nil && !r.lenient {
		return r.absent
	}
	r.renames()
	r.makeLinks()
	r.releases()
	for _, look := range []struct {
		at   string
		look func() error
	}{
		{"settings", r.settings},
		{sourceChecksObject, func() error { return r.sourceChecks(ctx) }},
		{"host name", r.host},
		{"rules", r.rules},
		{"bridges", func() error {
			r.enslaves()
			return r.bridges()
		}},
		{"far ends", r.farEnds},
		{"hardware settings", r.hardware},
		{"links", func() error {
			r.sizes()
			r.descriptions()
			r.addAddresses()
			r.up()
			r.loopbackUp()
			return nil
		}},
		{"shaping", func() error { return r.shaping(ctx) }},
		{"CPUs", r.cpus}, // behind up: some drivers ask for their interrupts then
		{"IPv6 link-local addresses", r.linkLocals},
		{"connected routes", func() error { return r.connected(ctx) }},
		{"answers for others", func() error { return r.proxies(ctx) }},
		{"static routes", func() error { return r.routes(ctx) }},
		{"forwarding", r.forwarding},
	} {
		if err := look.look(); err != nil {
			if !r.lenient || ctx.Err() != nil {
				return err
			}
			r.fail(step{change: plan.Change{Object: look.at}}, err)
		}
	}
	r.removeAddresses()
	r.removeLinks()
	r.down()
	r.steps = append(r.steps, r.last...)
	if r.lenient {
		r.steps = slices.DeleteFunc(r.steps, r.leftOut)
	}
	return nil
}

// hadBefore says whether a link was an interface's before: of this Kernel, or of one before, which
// left its mark on the addresses.
func (r *round) hadBefore(name string, index int) bool {
	return r.had[name] == index || r.had[name] == 0 && slices.ContainsFunc(r.live, func(a address) bool { return a.Index == index && a.Ours })
}

func (r *round) add(c plan.Change, do func(ctx context.Context) error) *step {
	c.Subsystem = "kernel"
	r.steps = append(r.steps, step{change: c, do: do})
	return &r.steps[len(r.steps)-1]
}

// removal adds a step that takes something away.
func (r *round) removal(c plan.Change, do func(ctx context.Context) error) *step {
	c.Subsystem = "kernel"
	r.last = append(r.last, step{change: c, do: do})
	return &r.last[len(r.last)-1]
}

// index is an interface's link when the step runs: one made by an earlier step has one only then.
func (r *round) index(b *bound) (int, error) {
	if b.link != nil {
		return b.link.Index, nil
	}
	links, err := r.system.links()
	if err != nil {
		return 0, err
	}
	for _, l := range links {
		if l.Name == b.Name {
			return l.Index, nil
		}
	}
	return 0, fmt.Errorf("link %s no longer exists", b.Name)
}

// on wraps a write that needs an interface's index.
func (r *round) on(b *bound, write func(index int) error) func(context.Context) error {
	return func(context.Context) error {
		index, err := r.index(b)
		if err != nil {
			return err
		}
		return write(index)
	}
}

// settings compares sysctls; those of one interface are one change.
func (r *round) settings() error {
	byName := map[string]*bound{}
	for _, b := range r.bound {
		byName[b.Name] = b
	}
	groups := []string{}
	differences := map[string][]Sysctl{}
	words, was := map[string][]string{}, map[string][]string{}
	for _, s := range r.desired.Sysctls {
		b := byName[s.Interface]
		if b == nil && s.Interface != "" || b != nil && b.missing || s.Machine && !r.own.OwnHost {
			continue
		}
		path := s.Path
		if b != nil {
			for _, kind := range []string{"/conf/", "/neigh/"} {
				path = strings.Replace(path, kind+s.Interface+"/", kind+b.sysctlName()+"/", 1)
			}
		}
		now, ok, err := r.system.setting(path)
		if err != nil {
			return err
		}
		s.Value = r.former.wanted(s, now)
		if unmade := b != nil && b.link == nil; !ok && !unmade || ok && now == s.Value {
			continue
		}
		if differences[s.Interface] == nil {
			groups = append(groups, s.Interface)
		}
		differences[s.Interface] = append(differences[s.Interface], s)
		words[s.Interface] = append(words[s.Interface], fmt.Sprintf("%s %s → %s", s.words(), now, s.Value))
		was[s.Interface] = append(was[s.Interface], changedTo(s.words(), s.Interface, now))
	}
	for _, g := range groups {
		change := plan.Change{Action: plan.Modify, Object: settingsOf(g), Details: words[g]}
		r.add(change, func(context.Context) error { return r.write(differences[g]) }).of(g, strings.Join(was[g], "; "))
	}
	r.formerSettings()
	return nil
}

// settingsOf names the settings of an interface, "" for the namespace's own.
func settingsOf(name string) string { return "settings of " + cmp.Or(name, "the kernel") }

// changedTo says that something else gave a setting another value.
func changedTo(words, of, value string) string {
	if of != "" {
		words += " of " + of
	}
	return words + " was changed to " + value
}

func (r *round) write(list []Sysctl) error {
	var failures []error
	for _, s := range list {
		now, ok, err := r.system.setting(s.Path)
		if err == nil && ok && s.Lent {
			once(r.former.Settings, s.Path, now)
			err = r.former.write()
		}
		if err == nil && ok { // a new link's settings are known to exist only now
			err = r.system.setSetting(s.Path, s.Value)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// sourceChecksObject begins the words for the table in steps.
const sourceChecksObject = "source address checks"

// sourceChecks compares the nftables table of antispoof.go.
func (r *round) sourceChecks(ctx context.Context) error {
	if r.quick {
		return nil
	}
	now, err := r.system.antiSpoof(ctx)
	if err != nil {
		return err
	}
	if text := r.desired.AntiSpoof; now != text {
		action := plan.Modify
		switch {
		case now == "":
			action = plan.Add
		case text == "":
			action = plan.Remove
		}
		r.add(plan.Change{Action: action, Object: sourceChecksObject + " (nftables table inet " + antiSpoofTable + ")"},
			func(ctx context.Context) error { return r.system.loadAntiSpoof(ctx, text) })
	}
	return nil
}

// host compares the host's name.
func (r *round) host() error {
	name := r.desired.Hostname
	if !r.own.OwnHost || name == "" {
		return nil
	}
	old, err := r.system.hostname()
	if err != nil {
		return err
	}
	if old != name {
		r.add(plan.Change{Action: plan.Modify, Object: "host name", From: old, To: name},
			func(context.Context) error { return r.system.setHostname(name) }).of("", "the host name was changed to "+old)
	}
	return nil
}

// addAddresses adds what is missing. An IPv6 address can't be there twice with
// two prefix lengths, so a changed length takes the old one away first.
func (r *round) addAddresses() {
	for _, b := range r.bound {
		if b.missing {
			continue
		}
		for _, a := range b.Addresses {
			var old netip.Prefix
			present := false
			for _, l := range r.live {
				if b.link == nil || l.Index != b.link.Index {
					continue
				}
				present = present || l.Prefix == a
				if a.Addr().Is6() && l.Prefix.Addr() == a.Addr() && l.Prefix != a {
					old = l.Prefix
				}
			}
			if present {
				continue
			}
			r.add(plan.Change{Action: plan.Add, Object: fmt.Sprintf("address %s on %s", a, b.Name)},
				r.on(b, func(index int) error {
					if old.IsValid() {
						if err := r.system.removeAddress(index, old); err != nil {
							return err
						}
					}
					return r.system.addAddress(index, a)
				})).of(b.Name, fmt.Sprintf("address %s on %s was removed", a, b.Name))
		}
	}
}

// removeAddresses takes away what a configured interface has too much, except what the kernel gives it.
func (r *round) removeAddresses() {
	for _, b := range r.bound {
		if b.link == nil {
			continue
		}
		for _, l := range r.live {
			if l.Index != b.link.Index || l.Auto || l.Prefix.Addr().IsLoopback() || slices.Contains(b.Addresses, l.Prefix) {
				continue
			}
			if b.Kind.Dialed && l.Prefix.Addr().Is4() {
				continue // the provider's, put there by the program that dials
			}
			if slices.ContainsFunc(b.Addresses, func(a netip.Prefix) bool {
				return a.Addr().Is6() && a.Addr() == l.Prefix.Addr()
			}) {
				continue // addAddresses changes its length
			}
			r.removal(plan.Change{Action: plan.Remove, Object: fmt.Sprintf("address %s on %s", l.Prefix, b.Name)},
				r.on(b, func(index int) error {
					err := r.system.removeAddress(index, l.Prefix)
					if errors.Is(err, unix.EADDRNOTAVAIL) {
						return nil // it went with the one before
					}
					return err
				})).of(b.Name, fmt.Sprintf("address %s on %s was added, which is not configured", l.Prefix, b.Name))
		}
	}
	if !r.lenient || r.absent == nil { // else it may be one that can't be told for certain now
		r.removeStranded()
	}
}

// removeStranded takes away what Minne once added to links that no configured interface stands for
// any more. Links that Minne made go as a whole.
func (r *round) removeStranded() {
	for _, a := range r.live {
		n := slices.IndexFunc(r.links, func(l link) bool { return l.Index == a.Index })
		if !a.Ours || n < 0 || slices.ContainsFunc(r.bound, func(b *bound) bool { return b.link != nil && b.link.Index == a.Index }) {
			continue
		}
		if on := r.links[n]; on.made() == nil {
			r.removal(plan.Change{Action: plan.Remove, Object: fmt.Sprintf("address %s on %s", a.Prefix, on.Name)},
				func(context.Context) error {
					err := r.system.removeAddress(a.Index, a.Prefix)
					if errors.Is(err, unix.EADDRNOTAVAIL) {
						return nil // it went with the one before
					}
					return err
				})
		}
	}
}

// usable returns the index of an interface that takes routes, now or after the steps before.
func (r *round) usable(live bool) func(name string) (int, bool) {
	return func(name string) (int, bool) {
		if name == loopback {
			return loopbackIndex, true
		}
		for _, b := range r.bound {
			if b.Name != name || b.missing || b.Down {
				continue
			}
			if b.link != nil {
				return b.link.Index, true
			}
			if !live {
				return -1, true // still to be made: no route has this index yet
			}
			index, err := r.index(b)
			return index, err == nil
		}
		return 0, false
	}
}

// routes compares the static routes of the main table.
func (r *round) routes(ctx context.Context) error {
	found, err := r.system.staticRoutes(ctx, r.tables())
	if err != nil {
		return err
	}
	live := map[routeKey][]rib.Route{}
	for _, f := range found {
		k := routeKey{f.Table, f.Prefix, f.Metric}
		live[k] = append(live[k], f)
	}
	for _, want := range r.desired.Routes {
		key := routeKey{want.table(), want.Prefix, want.Metric}
		route, waits := want.rib(r.usable(false))
		if waits || r.waiting[key] {
			continue
		}
		now := live[key]
		delete(live, key)
		if len(now) == 1 && sameRoute(route, now[0]) {
			continue
		}
		r.steps = append(r.steps, r.routeStep(want, key, now))
	}
	for _, gone := range found {
		if _, ok := live[routeKey{gone.Table, gone.Prefix, gone.Metric}]; ok {
			r.removal(plan.Change{Action: plan.Remove, Object: "route " + r.routeWords(gone)}, func(context.Context) error {
				err := r.system.removeRoute(identity(gone))
				if errors.Is(err, unix.ESRCH) {
					return nil // it went with a link or an address
				}
				return err
			}).of(r.portOf(gone), fmt.Sprintf("route %s was added, which is not configured", r.routeWords(gone)))
		}
	}
	return nil
}

// routeStep puts a route in place of those with its prefix and metric.
func (r *round) routeStep(want DesiredRoute, key routeKey, now []rib.Route) step {
	change := plan.Change{Subsystem: "kernel", Action: plan.Add,
		Object: fmt.Sprintf("route %s %s%s", want.Prefix, want.words(), distanceWords(want.Metric)+r.inTable(want.table()))}
	port := ""
	if len(want.Hops) > 0 {
		port = want.Hops[0].Interface
	}
	was := change.Object + " was removed"
	if len(now) > 0 {
		was = fmt.Sprintf("route %s%s was changed to lead %s", want.Prefix, distanceWords(want.Metric), r.leadsTo(now[0]))
		change = plan.Change{Subsystem: "kernel", Action: plan.Modify,
			Object: fmt.Sprintf("route %s%s", want.Prefix, distanceWords(want.Metric)+r.inTable(want.table())),
			From:   r.leadsTo(now[0]), To: want.words()}
	}
	return step{change: change, port: port, was: was, waits: &key, do: func(context.Context) error {
		route, waits := want.rib(r.usable(true))
		if waits {
			return unix.ENETDOWN
		}
		// IPv6 replaces a route only by one of its kind (rejecting or not), and one of several.
		if len(now) > 1 || len(now) == 1 && want.Prefix.Addr().Is6() && now[0].Type != route.Type {
			for _, old := range now {
				if err := r.system.removeRoute(identity(old)); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
		}
		return r.system.replaceRoute(route)
	}}
}

// identity strips a route to what finds it for removal.
func identity(route rib.Route) rib.Route {
	route.Hops, route.MTU, route.NextHopID = nil, 0, 0
	return route
}

// sameRoute says whether the kernel's route is the one wanted. A hop wanted without an interface
// takes the one that the kernel chose.
func sameRoute(want, now rib.Route) bool {
	if want.Type != now.Type || now.NextHopID != 0 || len(want.Hops) != len(now.Hops) || now.MTU != 0 {
		return false
	}
	for _, w := range want.Hops {
		if !slices.ContainsFunc(now.Hops, func(n rib.Hop) bool {
			return n.Gateway == w.Gateway && n.Weight == w.Weight && (w.Interface == 0 || w.Interface == n.Interface) &&
				n.Flags&rib.HopOnLink == w.Flags&rib.HopOnLink
		}) {
			return false
		}
	}
	return true
}

// unreachable says whether the kernel refused a route because its next hop is not there now.
func unreachable(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETDOWN)
}

func distanceWords(metric uint32) string {
	distance := metric
	if metric >= 1<<24 {
		distance = metric >> 24
	}
	if distance == 1 {
		return ""
	}
	return fmt.Sprintf(" distance %d", distance)
}

// portOf is the interface that a kernel route leads out by, "" for none of the configured ones.
func (r *round) portOf(route rib.Route) string {
	for _, b := range r.bound {
		if b.link != nil && len(route.Hops) > 0 && route.Hops[0].Interface == b.link.Index {
			return b.Name
		}
	}
	return ""
}

func (r *round) routeWords(route rib.Route) string {
	return route.Prefix.String() + " " + r.leadsTo(route) + distanceWords(route.Metric) + r.inTable(route.Table)
}

// leadsTo says where a kernel route leads, in the words of DesiredRoute.
func (r *round) leadsTo(route rib.Route) string {
	if route.Type == rib.Blackhole {
		return "blackhole"
	}
	if route.Type == rib.Unreachable {
		return "unreachable"
	}
	var hops []DesiredHop
	for _, h := range route.Hops {
		hop := DesiredHop{Gateway: h.Gateway, OnLink: h.Flags&rib.HopOnLink != 0}
		for _, l := range r.links {
			if l.Index == h.Interface {
				hop.Interface = l.Name
			}
		}
		hops = append(hops, hop)
	}
	return hopWords(hops)
}
