// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"minne/internal/base/ipnet"
)

// What providers give to interfaces is put in place here like what the
// operator wrote: it is merged into what is desired whenever the kernel is looked at. So an
// address that is leased is never foreign, comes back with its link, and goes
// when the lease does or the interface is to have it no more.

// Learned is what a provider gives: addresses by interface, and routes.
type Learned struct {
	Addresses map[string][]netip.Prefix
	Routes    []LearnedRoute
}

// LearnedRoute leads to a prefix through a neighbour on an interface, whose distance and table it has; an invalid Gateway
// means the link itself. With Unreachable, packets to the prefix that no longer one takes are answered as unreachable.
type LearnedRoute struct {
	Prefix      netip.Prefix
	Interface   string
	Gateway     netip.Addr
	Unreachable bool
}

// Learn takes what a provider gives in place of what it gave before, nil for nothing. It is put in place
// at once where a configuration with those interfaces is.
func (k *Kernel) Learn(ctx context.Context, provider string, l *Learned) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	former := k.learned[provider]
	if l == nil {
		delete(k.learned, provider)
	} else {
		k.learned[provider] = *l
	}
	if k.last == nil || k.unsettled {
		return nil
	}
	r, err := k.restore(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, f := range r.failed {
		_, was := former.Addresses[f.step.port]
		if _, is := k.learned[provider].Addresses[f.step.port]; is || was {
			failures = append(failures, f)
		}
	}
	return errors.Join(failures...)
}

// withLearned adds what was learned to what is desired. What the operator wrote goes before. The
// caller holds mu.
func (k *Kernel) withLearned(d Desired) Desired {
	d = k.withJoined(d)
	if len(k.learned) == 0 {
		return d
	}
	own := d
	d.Interfaces, d.Routes = slices.Clone(d.Interfaces), slices.Clone(d.Routes)
	for _, provider := range slices.Sorted(maps.Keys(k.learned)) {
		l := k.learned[provider]
		for n, i := range d.Interfaces {
			for _, address := range l.Addresses[i.Name] {
				if i.Learns && !i.Down && !slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == address.Addr() }) {
					d.Interfaces[n].Addresses = append(slices.Clone(d.Interfaces[n].Addresses), address)
				}
			}
		}
		for _, r := range l.Routes {
			route, ok := d.learnedRoute(own, r)
			if ok && !slices.ContainsFunc(d.Routes, func(o DesiredRoute) bool {
				return o.Prefix == route.Prefix && o.Metric == route.Metric && o.Table == route.Table
			}) {
				d.Routes = append(d.Routes, route)
			}
		}
	}
	return d
}

// learnedRoute is a route as it is put in place, if it may be; own is what the operator wrote.
func (d Desired) learnedRoute(own Desired, r LearnedRoute) (route DesiredRoute, ok bool) {
	n := slices.IndexFunc(d.Interfaces, func(i DesiredInterface) bool { return i.Name == r.Interface })
	if n < 0 || d.Interfaces[n].Distance == 0 || d.Interfaces[n].Down {
		return route, false
	}
	i := d.Interfaces[n]
	if r.Unreachable {
		return DesiredRoute{Prefix: r.Prefix, Table: i.Table, Metric: Metric(announceDistance), Unreachable: true}, true
	}
	route = DesiredRoute{Prefix: r.Prefix, Table: i.Table, Metric: Metric(i.Distance), Hops: []DesiredHop{{Gateway: r.Gateway, Interface: i.Name}}}
	link := r.Gateway.IsLinkLocalUnicast() && r.Gateway.Is6() // on every link
	route.Hops[0].OnLink = r.Gateway.IsValid() && !link && !connects(d.Interfaces[n:n+1], i.Name, r.Gateway)
	return route, !own.has(i.Table, r.Prefix, route.Metric)
}

// has says whether a prefix is a part of a network that the operator has given a place in a table: of an
// interface, or of a static route that is preferred to one of that metric. A server's route to it would
// win by its length. The DHCP client refuses such routes and says so; here they are kept out before it runs, too.
func (d Desired) has(table uint32, p netip.Prefix, metric uint32) bool {
	return p.Bits() > 0 && (slices.ContainsFunc(d.Interfaces, func(i DesiredInterface) bool {
		return i.Table == table && slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return ipnet.Within(p, a.Masked()) })
	}) || slices.ContainsFunc(d.Routes, func(r DesiredRoute) bool {
		return r.Table == table && (r.Metric <= metric || r.Metric == Metric(announceDistance)) && ipnet.Within(p, r.Prefix)
	}))
}
