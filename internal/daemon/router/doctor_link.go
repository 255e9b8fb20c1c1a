// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/base/diagnosis"
	"minne/internal/base/reach"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel"
)

// The checks of one interface: link, address, gateway, and behind that DNS, default route, path MTU and NAT.

// towards is the interface that packets to an address leave by, "" for none.
func (p *patient) towards(a netip.Addr) string {
	index, err := reach.Egress(a)
	if err != nil {
		return ""
	}
	for name, i := range p.interfaces {
		if i.Index == index {
			return name
		}
	}
	return ""
}

func (p *patient) link(name string, want *config.Interface) diagnosis.Check {
	c := diagnosis.Check{Name: name, Then: []diagnosis.Check{p.address(name, want)}}
	i, there := p.interfaces[name]
	trouble, hasTrouble := p.fault(func(key string) bool { return key == "interface "+name || key == "port "+name || key == "link "+name })
	c.Look = func(context.Context) diagnosis.Finding {
		see := "minne show interfaces " + name
		switch {
		case want.Disabled:
			return finding(diagnosis.Skipped, "", "disabled in the configuration")
		case hasTrouble:
			return finding(diagnosis.Failed, see, "%s", trouble.Text)
		case !there:
			return finding(diagnosis.Failed, "minne show interfaces", "the link is not there")
		case i.State == "down":
			return finding(diagnosis.Failed, see, "the link is down")
		case i.State == "no-carrier":
			return finding(diagnosis.Failed, see, "no carrier: the cable, the optic, or the other end")
		}
		text := "up"
		if i.Speed > 0 {
			text += fmt.Sprintf(", %d Mbit/s", i.Speed)
		}
		if i.Duplex == "half" {
			return finding(diagnosis.Warning, see, "%s, half duplex: both ends must negotiate, or have the same fixed setting", text)
		}
		if all := i.RX.Packets + i.TX.Packets; (i.RX.Errors+i.TX.Errors)*1000 > all {
			return finding(diagnosis.Warning, see, "%s, but %d errors in %d packets: the cable, the optic, or the duplex setting", text, i.RX.Errors+i.TX.Errors, all)
		}
		return finding(diagnosis.OK, "", "%s", text)
	}
	return c
}

// upstream says whether an interface should lead to the Internet.
func (p *patient) upstream(name string, want *config.Interface) bool {
	if want.DHCP.On() || want.DHCPv6 != nil || want.PPPoE != nil && want.PPPoE.DefaultRoute.On() || len(p.defaults[name]) > 0 {
		return true
	}
	return slices.ContainsFunc(p.cfg.Routing.Static, func(r config.StaticRoute) bool {
		return r.Prefix.Bits() == 0 && slices.ContainsFunc(r.Via, func(hop config.NextHop) bool { return p.nextHopOn(name, hop) })
	})
}

func (p *patient) nextHopOn(name string, hop config.NextHop) bool {
	if hop.Interface != "" {
		return hop.Interface == name
	}
	return slices.ContainsFunc(p.interfaces[name].Addresses, func(a netip.Prefix) bool { return a.Contains(hop.Address) })
}

// gateways are the next hops on an interface: of default routes, and of static routes.
func (p *patient) gateways(name string) (list []netip.Addr) {
	add := func(a netip.Addr) {
		if a.IsValid() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, r := range p.defaults[name] {
		if a, err := netip.ParseAddr(r.Gateway); err == nil {
			add(a.WithZone(""))
		}
	}
	for _, r := range p.cfg.Routing.Static {
		for _, hop := range r.Via {
			if p.nextHopOn(name, hop) {
				add(hop.Address)
			}
		}
	}
	return list
}

func (p *patient) address(name string, want *config.Interface) diagnosis.Check {
	c := diagnosis.Check{Name: "address"}
	i := p.interfaces[name]
	var shown []string
	for _, a := range i.Addresses {
		if !a.Addr().IsLinkLocalUnicast() {
			shown = append(shown, a.String())
		}
	}
	c.Look = func(context.Context) diagnosis.Finding {
		lease, asks := p.leases[name]
		switch {
		case asks && lease.Lease == nil && lease.Refused != "":
			return finding(diagnosis.Failed, "minne show dhcp", "the DHCP lease is refused: %s", lease.Refused)
		case asks && lease.Lease == nil:
			return finding(diagnosis.Failed, "minne show dhcp", "no DHCP server has answered")
		case len(shown) == 0 && (len(want.Addresses) > 0 || p.upstream(name, want)):
			return finding(diagnosis.Failed, "minne show interfaces "+name, "no address")
		case len(shown) == 0:
			return finding(diagnosis.Skipped, "", "none, and none is asked for")
		case asks:
			return finding(diagnosis.OK, "", "%s, by DHCP of %s", strings.Join(shown, ", "), lease.Lease.Server)
		}
		return finding(diagnosis.OK, "", "%s", strings.Join(shown, ", "))
	}
	behind := []diagnosis.Check{}
	if p.upstream(name, want) {
		behind = append(behind, p.defaultRoute(name), p.dns(name), p.pathMTU(name), p.nat(name))
	}
	gateways := p.gateways(name)
	if i.MAC == "" || len(gateways) == 0 { // point to point, or nobody to ask
		c.Then = behind
		return c
	}
	// What lies behind is reached when one of several gateways answers.
	gateway := diagnosis.Check{Name: "gateway", Then: behind, Look: func(ctx context.Context) diagnosis.Finding {
		return p.askGateways(ctx, i, gateways)
	}}
	c.Then = append(c.Then, gateway)
	return c
}

func (p *patient) askGateways(ctx context.Context, i kernel.Interface, gateways []netip.Addr) diagnosis.Finding {
	var silent, answered []string
	for _, a := range gateways {
		mac, err := reach.Neighbour(ctx, i.Index, a)
		switch {
		case errors.Is(err, reach.ErrSilent):
			silent = append(silent, a.String())
		case err != nil:
			return finding(diagnosis.Failed, "minne show log", "%v", err)
		default:
			answered = append(answered, fmt.Sprintf("%s answers (%s)", a, mac))
		}
	}
	fix := "minne show neighbors"
	switch {
	case len(answered) == 0:
		return finding(diagnosis.Failed, fix, "%s does not answer ARP or ND: is it on this link, in the same VLAN, and switched on?", strings.Join(silent, ", "))
	case len(silent) > 0:
		return finding(diagnosis.Warning, fix, "%s; %s does not answer ARP or ND", strings.Join(answered, ", "), strings.Join(silent, ", "))
	}
	return finding(diagnosis.OK, "", "%s", strings.Join(answered, ", "))
}

func (p *patient) defaultRoute(name string) diagnosis.Check {
	var by []string
	down := false
	for _, r := range p.defaults[name] {
		by = append(by, fmt.Sprintf("%s by %s", r.family, r.protocol))
		down = down || r.Down
	}
	switch {
	case len(by) == 0 && len(p.defaults) > 0:
		return known("default route", finding(diagnosis.Warning, "minne show ip route 0.0.0.0/0", "none by %s; packets to the Internet leave by another interface", name))
	case len(by) == 0:
		return known("default route", finding(diagnosis.Failed, "minne show ip route 0.0.0.0/0", "none by %s", name))
	case down:
		return known("default route", finding(diagnosis.Failed, "minne show ip route 0.0.0.0/0", "the kernel does not use it now: its next hop is down"))
	}
	return known("default route", finding(diagnosis.OK, "", "%s", strings.Join(by, ", ")))
}

// mostServers bounds how many DNS servers of an interface are asked.
const mostServers = 4

func (p *patient) dns(name string) diagnosis.Check {
	servers := p.servers[name]
	servers = servers[:min(len(servers), mostServers)]
	return diagnosis.Check{Name: "DNS", Look: func(ctx context.Context) diagnosis.Finding {
		if len(servers) == 0 {
			return finding(diagnosis.Skipped, "", "no DNS server is known behind %s", name)
		}
		var good, bad []string
		for _, a := range servers {
			took, err := reach.DNS(ctx, name, a)
			switch {
			case errors.Is(err, reach.ErrSilent):
				bad = append(bad, a.String()+" does not answer")
			case err != nil:
				bad = append(bad, fmt.Sprintf("%s: %v", a, err))
			default:
				good = append(good, fmt.Sprintf("%s answers in %v", a, took.Round(100*time.Microsecond)))
			}
		}
		fix := fmt.Sprintf("minne ping --from %s %s", name, servers[0])
		switch {
		case len(good) == 0:
			return finding(diagnosis.Failed, fix, "%s", strings.Join(bad, "; "))
		case len(bad) > 0:
			return finding(diagnosis.Warning, fix, "%s; %s", strings.Join(good, ", "), strings.Join(bad, "; "))
		}
		return finding(diagnosis.OK, "", "%s", strings.Join(good, ", "))
	}}
}

// pathMTU pings a DNS server behind the interface, or the gateway, with packets of the link's size.
func (p *patient) pathMTU(name string) diagnosis.Check {
	mtu := p.interfaces[name].MTU
	hosts := slices.Concat(p.servers[name], p.gateways(name))
	return diagnosis.Check{Name: "path MTU", Look: func(ctx context.Context) diagnosis.Finding {
		if len(hosts) == 0 {
			return finding(diagnosis.Skipped, "", "nobody is known who could answer a ping")
		}
		for _, host := range hosts[:min(len(hosts), mostServers)] {
			path, err := reach.PathMTU(ctx, name, host.WithZone(zoneOf(host, name)), mtu)
			switch {
			case errors.Is(err, reach.ErrSilent):
				continue
			case err != nil:
				return finding(diagnosis.Warning, "minne ping --from "+name+" "+host.String(), "%v", err)
			case path.MTU == mtu:
				return finding(diagnosis.OK, "", "%d bytes to %s", mtu, host)
			case path.Told:
				return finding(diagnosis.OK, "", "%d bytes to %s, as a router on the way says", path.MTU, host)
			}
			return finding(diagnosis.Warning, fmt.Sprintf("in the configuration: interfaces.%s.mtu: %d, or firewall.mss-clamp: on", name, path.MTU),
				"%d bytes pass to %s, larger packets vanish and nobody says so", path.MTU, host)
		}
		return finding(diagnosis.Skipped, "", "neither DNS servers nor the gateway answer ping")
	}}
}

// zoneOf is the zone of a link-local address.
func zoneOf(a netip.Addr, name string) string {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return name
	}
	return ""
}

// nat says whether private addresses inside are translated where they leave for the Internet.
func (p *patient) nat(name string) diagnosis.Check {
	for _, problem := range config.Untranslated(p.cfg) {
		if strings.Contains(problem.Message, " by "+name+":") {
			return known("NAT", finding(diagnosis.Failed, "in the configuration: "+problem.Expected, "%s", problem.Message))
		}
	}
	zone := p.cfg.Interfaces[name].Zone
	for _, n := range p.cfg.NAT {
		if zone != "" && slices.Contains(n.To, zone) {
			return known("NAT", finding(diagnosis.OK, "", "addresses of %s are translated", strings.Join(n.From, ", ")))
		}
	}
	return known("NAT", finding(diagnosis.OK, "", "none is needed"))
}
