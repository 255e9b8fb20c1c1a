// SPDX-License-Identifier: Apache-2.0

package router

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/api"
	"minne/internal/subsystem/flows"
	"minne/internal/subsystem/kernel"
)

// What operators clear: tables and counters.
var (
	ClearNeighbors   = api.Operation[NeighborsToClear, Forgotten]{Method: "POST", Path: "/v1/clear/neighbors", Short: "Delete ARP and ND entries", Root: true, Runs: true}
	ClearConnections = api.Operation[flows.Selection, Forgotten]{Method: "POST", Path: "/v1/clear/connections", Short: "Delete connections", Root: true, Runs: true}
	ClearCounters    = api.Operation[CountersToClear, api.Empty]{Method: "POST", Path: "/v1/clear/counters", Short: "Reset counters to 0", Root: true, Runs: true}
)

// NeighborsToClear asks for the ARP and ND tables to be learned anew.
type NeighborsToClear struct {
	Family string `json:"family,omitempty"` // ipv4, ipv6; "" for both
	Of     string `json:"of,omitempty"`     // an interface or an address; "" for all
}

// CountersToClear asks for counters to begin at 0.
type CountersToClear struct {
	Interface string `json:"interface,omitempty"` // "" for all, and for the reasons and rules
}

// Forgotten is the answer.
type Forgotten struct {
	Number int `json:"number"`
}

func (d *Daemon) answerClearNeighbors(r *http.Request, q NeighborsToClear) (Forgotten, error) {
	family := map[string]int{"ipv4": unix.AF_INET, "ipv6": unix.AF_INET6}[q.Family]
	name := q.Of
	address, err := netip.ParseAddr(q.Of)
	if err == nil {
		name = ""
	}
	if name != "" {
		if _, err := d.named(r, name); err != nil {
			return Forgotten{}, err
		}
	}
	n, err := d.parts.kernel.ForgetNeighbours(r.Context(), family, name, address)
	d.log.Info("neighbours cleared", "number", n, "family", q.Family, "of", q.Of, "user", api.PeerOf(r.Context()).User)
	return Forgotten{n}, err
}

// named finds an interface.
func (d *Daemon) named(r *http.Request, name string) (kernel.Interface, error) {
	all, err := d.parts.interfaces(r.Context())
	if err != nil {
		return kernel.Interface{}, err
	}
	return findInterface(name, all)
}

func (d *Daemon) answerClearConnections(r *http.Request, q flows.Selection) (Forgotten, error) {
	filter, err := q.Filter()
	if err != nil {
		return Forgotten{}, api.Misused(err)
	}
	n, err := d.parts.flows.Clear(r.Context(), filter)
	if n > 0 {
		d.parts.fastpath.ForgetFlows()
	}
	d.log.Warn("connections deleted by a user", "number", n, "filter", fmt.Sprintf("%+v", filter), "user", api.PeerOf(r.Context()).User)
	return Forgotten{n}, err
}

func (d *Daemon) answerClearCounters(r *http.Request, q CountersToClear) (api.Empty, error) {
	ctx := r.Context()
	c, err := d.parts.counters(ctx)
	if err != nil {
		return api.Empty{}, err
	}
	o, err := d.parts.fastpath.Observe(ctx)
	if err != nil {
		return api.Empty{}, err
	}
	now := time.Now()
	if q.Interface != "" {
		one, err := d.named(r, q.Interface)
		if err != nil {
			return api.Empty{}, err
		}
		c.interfaces = []kernel.Interface{one}
	}
	rules, err := d.firewallCounts(ctx)
	if err != nil {
		return api.Empty{}, err
	}
	details := map[int][]kernel.Counted{}
	for _, i := range c.interfaces {
		found, err := d.parts.kernel.Details(ctx, i.Name)
		if err != nil {
			return api.Empty{}, err
		}
		details[i.Index] = found.Counted
	}
	d.zero.mu.Lock()
	defer d.zero.mu.Unlock()
	d.zero.setInterfaces(c.interfaces, details, o.Traffic, now)
	if q.Interface == "" {
		d.zero.setRest(c.reasons, o.Guard, rules, now)
	}
	d.log.Info("counters reset to 0", "interface", q.Interface, "user", api.PeerOf(ctx).User)
	return api.Empty{}, nil
}

// SourceView answers which addresses a packet of the router has that is sent from an interface or a zone.
type SourceView struct {
	Interface string     `json:"interface"`
	IPv4      netip.Addr `json:"ipv4,omitzero"`
	IPv6      netip.Addr `json:"ipv6,omitzero"`
}

// sourceOf finds the addresses of an interface, or of the first interfaces of a zone that have some.
func sourceOf(name string, all []kernel.Interface, zones map[string]string) (SourceView, error) {
	v := SourceView{}
	found := false
	for _, i := range all {
		if i.Name != name && zones[i.Name] != name {
			continue
		}
		found = true
		for _, p := range i.Addresses {
			a := p.Addr()
			switch {
			case a.IsLinkLocalUnicast():
			case a.Is4() && !v.IPv4.IsValid():
				v.IPv4 = a
			case a.Is6() && !v.IPv6.IsValid():
				v.IPv6 = a
			default:
				continue
			}
			v.Interface = cmp.Or(v.Interface, i.Name)
		}
	}
	names := slices.Sorted(maps.Values(zones))
	for _, i := range all {
		names = append(names, i.Name)
	}
	switch {
	case !found:
		return v, noSuch(name, "no interface or zone has the name", names)
	case !v.IPv4.IsValid() && !v.IPv6.IsValid():
		return v, &api.Error{Kind: api.Failed, Message: fmt.Sprintf("%s has no address to send from (link-local ones do not count)", name)}
	}
	return v, nil
}
