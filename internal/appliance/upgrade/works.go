// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"

	"minne/internal/model/api"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
)

// Asked is the router as its daemon and its neighbours answer.
type Asked struct{ Client *api.Client }

// Works implements Router.
func (a Asked) Works(ctx context.Context, hosts []netip.Addr) (Works, error) {
	var w Works
	status, err := a.Client.Status(ctx)
	if err != nil {
		return w, err
	}
	if len(status.Degraded) > 0 {
		return w, fmt.Errorf("not in place: %s", strings.Join(status.Degraded, "; "))
	}
	var links []kernel.Interface
	if err := a.Client.Show(ctx, "interfaces", nil, &links); err != nil {
		return w, err
	}
	for _, l := range links {
		if l.State == "up" && l.Name != "lo" {
			w.Interfaces = append(w.Interfaces, l.Name)
		}
	}
	if w.Sessions, err = a.sessions(ctx); err != nil {
		return w, err
	}
	w.Hosts = Answering(ctx, hosts)
	return w, nil
}

func (a Asked) sessions(ctx context.Context) (names []string, err error) {
	var bgp routing.BGPSummary
	if err := a.Client.Show(ctx, "bgp", nil, &bgp); err != nil {
		return nil, err
	}
	for _, p := range bgp.Peers {
		if p.State == "Established" {
			names = append(names, "BGP "+p.Address)
		}
	}
	var ospf []routing.OSPFNeighbor
	if err := a.Client.Show(ctx, "ospf", nil, &ospf); err != nil {
		return nil, err
	}
	for _, n := range ospf {
		if strings.HasPrefix(n.State, "Full") {
			names = append(names, fmt.Sprintf("OSPFv%d %s on %s", n.Version, n.RouterID, n.Interface))
		}
	}
	return names, nil
}

// Gateways are the next hops of the default routes.
func (a Asked) Gateways(ctx context.Context) (hosts []netip.Addr, err error) {
	for family, prefix := range map[string]string{"ipv4": "0.0.0.0/0", "ipv6": "::/0"} {
		var table struct {
			Routes []kernel.RouteEntry `json:"routes"`
		}
		if err := a.Client.Show(ctx, "routes", map[string][]string{"family": {family}, "prefix": {prefix}}, &table); err != nil {
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

// Answering returns those hosts that answer a ping within two seconds.
func Answering(ctx context.Context, hosts []netip.Addr) (answering []netip.Addr) {
	answers := make([]bool, len(hosts))
	var pings sync.WaitGroup
	for i, host := range hosts {
		pings.Go(func() {
			family := "-4"
			if host.Is6() {
				family = "-6"
			}
			answers[i] = exec.CommandContext(ctx, "ping", family, "-c", "1", "-W", "2", host.String()).Run() == nil
		})
	}
	pings.Wait()
	for i, host := range hosts {
		if answers[i] {
			answering = append(answering, host)
		}
	}
	return answering
}
