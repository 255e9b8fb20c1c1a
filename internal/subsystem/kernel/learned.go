// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"minne/internal/base/ipnet"
)

// What a DHCP server gives to an interface is put in place here like what the
// operator wrote: it is merged into what is desired whenever the kernel is looked at. So an
// address that is leased is never foreign, comes back with its link, and goes
// when the lease does or the interface is to have it no more.

// Learned is an address that an interface was leased, with the routes told beside it.
type Learned struct {
	Address netip.Prefix // the zero Prefix for none
	Routes  []LearnedRoute
}

// LearnedRoute leads to a prefix through a neighbour on the interface; an invalid Gateway means the link itself.
type LearnedRoute struct {
	Prefix  netip.Prefix
	Gateway netip.Addr
}

// Learn takes what an interface was leased in place of what it was leased before. It is put in place
// at once where a configuration with that interface is.
func (k *Kernel) Learn(ctx context.Context, name string, l Learned) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !l.Address.IsValid() {
		delete(k.learned, name)
	} else {
		k.learned[name] = l
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
		if f.step.port == name {
			failures = append(failures, f)
		}
	}
	return errors.Join(failures...)
}

// withLearned adds what was learned to what is desired. What the operator wrote goes before. The
// caller holds mu.
func (k *Kernel) withLearned(d Desired) Desired {
	if len(k.learned) == 0 {
		return d
	}
	own := d
	d.Interfaces, d.Routes = slices.Clone(d.Interfaces), slices.Clone(d.Routes)
	for n, i := range d.Interfaces {
		l, ok := k.learned[i.Name]
		if !ok || i.Distance == 0 || i.Down {
			continue
		}
		if !slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == l.Address.Addr() }) {
			d.Interfaces[n].Addresses = append(slices.Clone(i.Addresses), l.Address)
		}
		for _, r := range l.Routes {
			if own.has(r.Prefix, Metric(i.Distance)) {
				continue
			}
			route := DesiredRoute{Prefix: r.Prefix, Table: i.Table, Metric: Metric(i.Distance), Hops: []DesiredHop{{Gateway: r.Gateway, Interface: i.Name}}}
			route.Hops[0].OnLink = r.Gateway.IsValid() && !connects(d.Interfaces[n:n+1], i.Name, r.Gateway)
			if !slices.ContainsFunc(d.Routes, func(o DesiredRoute) bool {
				return o.Prefix == route.Prefix && o.Metric == route.Metric && o.Table == route.Table
			}) {
				d.Routes = append(d.Routes, route)
			}
		}
	}
	return d
}

// has says whether a prefix is a part of a network that the operator has given a place: of an
// interface, or of a static route that is preferred to one of that metric. A server's route to it would
// win by its length. The DHCP client refuses such routes and says so; here they are kept out before it runs, too.
func (d Desired) has(p netip.Prefix, metric uint32) bool {
	return p.Bits() > 0 && (slices.ContainsFunc(d.Interfaces, func(i DesiredInterface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return ipnet.Within(p, a.Masked()) })
	}) || slices.ContainsFunc(d.Routes, func(r DesiredRoute) bool {
		return r.Table == 0 && (r.Metric <= metric || r.Metric == Metric(announceDistance)) && ipnet.Within(p, r.Prefix)
	}))
}
