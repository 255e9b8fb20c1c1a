// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"minne/internal/appliance/upgrade"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/subsystem/kernel"
)

// runningRouter is the router as its daemon and its neighbours answer.
type runningRouter struct{ client *api.Client }

// Works implements upgrade.Router.
func (a runningRouter) Works(ctx context.Context, hosts []netip.Addr) (upgrade.Works, error) {
	var w upgrade.Works
	status, err := api.GetStatus.Ask(ctx, a.client, api.Empty{})
	if err != nil {
		return w, err
	}
	if len(status.Degraded) > 0 {
		return w, fmt.Errorf("not in place: %s", strings.Join(status.Degraded, "; "))
	}
	links, err := router.Interfaces.Ask(ctx, a.client, router.Nothing{})
	if err != nil {
		return w, err
	}
	for _, l := range links.Interfaces {
		if l.State == "up" && l.Name != "lo" {
			w.Interfaces = append(w.Interfaces, l.Name)
		}
	}
	if w.Sessions, err = a.sessions(ctx, links.Interfaces); err != nil {
		return w, err
	}
	w.Hosts = upgrade.Answering(ctx, hosts)
	return w, nil
}

// sessions are those of the main table and of all VRFs.
func (a runningRouter) sessions(ctx context.Context, links []kernel.Interface) (names []string, err error) {
	names, err = a.sessionsIn(ctx, "")
	for _, l := range links {
		if l.Kind != "vrf" || err != nil {
			continue
		}
		var more []string
		more, err = a.sessionsIn(ctx, l.Name)
		for _, name := range more {
			names = append(names, name+" in VRF "+l.Name)
		}
	}
	return names, err
}

func (a runningRouter) sessionsIn(ctx context.Context, vrf string) (names []string, err error) {
	bgp, err := router.BGPSummary.Ask(ctx, a.client, router.VRFQuestion{VRF: vrf})
	if err != nil {
		return nil, err
	}
	for _, p := range bgp.Peers {
		if p.State == "Established" {
			names = append(names, "BGP "+p.Address)
		}
	}
	ospf, err := router.OSPFNeighbors("ospf", 0).Ask(ctx, a.client, router.VRFQuestion{VRF: vrf})
	if err != nil {
		return nil, err
	}
	for _, n := range ospf.Neighbors {
		if strings.HasPrefix(n.State, "Full") {
			names = append(names, fmt.Sprintf("OSPFv%d %s on %s", n.Version, n.RouterID, n.Interface))
		}
	}
	return names, nil
}

// gateways are the next hops of the default routes.
func (a runningRouter) gateways(ctx context.Context) (hosts []netip.Addr, err error) {
	for _, family := range []struct{ word, name, prefix string }{{"ip", "ipv4", "0.0.0.0/0"}, {"ipv6", "ipv6", "::/0"}} {
		table, err := router.Routes(family.word, family.name).Ask(ctx, a.client, router.RouteQuestion{Prefix: family.prefix})
		if err != nil {
			return nil, err
		}
		for _, r := range table.Routes {
			for _, h := range r.NextHops {
				if at, err := netip.ParseAddr(h.Gateway); err == nil && !at.IsLinkLocalUnicast() {
					hosts = append(hosts, at)
				}
			}
		}
	}
	return hosts, nil
}
