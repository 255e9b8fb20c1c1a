// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/diagnosis"
	"minne/internal/base/health"
	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services/dhcpclient"
	"minne/internal/subsystem/services/service"
)

// doctorLimit bounds all checks together.
const doctorLimit = 30 * time.Second

// Doctor is show doctor, and minne doctor.
var Doctor = View[Nothing, show.DoctorView]{
	Text: Text{Path: "doctor", Short: "Check the router and its links, step by step (minne doctor)",
		Long: `Check the router and its links, step by step: for each interface link, address, gateway,
DNS, default route, path MTU and NAT; then the services, the fast path, the room for
connections and the clock. A check is skipped, with the reason, when the one above it
failed. Some checks send packets: ARP and ND, DNS questions, pings; a few each.`},
	Read:  func(ctx context.Context, d *Daemon, _ Nothing) (show.DoctorView, error) { return d.examineAll(ctx) },
	Print: only[Nothing](show.Doctor),
}

// patient is what the doctor looks at: the state of the router when the checks begin.
type patient struct {
	*Daemon
	cfg        *config.Config // the running one; nil before the first
	interfaces map[string]kernel.Interface
	defaults   map[string][]defaultRoute // by the interface that they leave by
	servers    map[string][]netip.Addr   // DNS servers, by the interface that they are asked by
	leases     map[string]dhcpclient.Observed
	faults     []health.Fault
}

// defaultRoute is one next hop of the default route of a family.
type defaultRoute struct {
	kernel.NextHop
	family   string // IPv4, IPv6
	protocol string // who installed it
}

// examineAll makes all checks. One runs at a time: they send packets.
func (d *Daemon) examineAll(ctx context.Context) (v show.DoctorView, err error) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	d.doctor.Lock()
	defer d.doctor.Unlock()
	d.checkup.examine(ctx)
	p := patient{Daemon: d, interfaces: map[string]kernel.Interface{}, leases: map[string]dhcpclient.Observed{}, faults: d.parts.health.Faults()}
	running := d.engine.State().Running
	if running != nil {
		if p.cfg, err = config.Parse(fmt.Sprintf("revision %d", running.Number), []byte(running.Config)); err != nil {
			return v, err
		}
	}
	all, err := d.parts.interfaces(ctx)
	if err != nil {
		return v, err
	}
	vrfs := []string{""}
	for _, i := range all {
		p.interfaces[i.Name] = i
		if i.Kind == "vrf" {
			vrfs = append(vrfs, i.Name)
		}
	}
	if p.defaults, err = d.parts.defaultRoutes(ctx, vrfs); err != nil {
		return v, err
	}
	for _, o := range find[*dhcpclient.Client](d.parts.services).Observe() {
		p.leases[o.Interface] = o
	}
	p.servers = p.dnsServers()
	checks := []diagnosis.Check{p.configuration(running)}
	if p.cfg != nil {
		for _, name := range slices.Sorted(maps.Keys(p.cfg.Interfaces)) {
			checks = append(checks, p.link(name, p.cfg.Interfaces[name]))
		}
		checks = append(checks, p.services(), p.firewall(), p.fastPath(), p.connections(), p.clock())
	}
	checks = append(checks, p.stateDirectory(), p.otherFaults())
	v.Checks = diagnosis.Run(ctx, checks)
	v.Counts = diagnosis.Count(v.Checks)
	return v, nil
}

// defaultRoutes are the next hops of the default routes in the main table and those of VRFs, by interface.
func (p parts) defaultRoutes(ctx context.Context, vrfs []string) (map[string][]defaultRoute, error) {
	found := map[string][]defaultRoute{}
	for _, vrf := range vrfs {
		for _, f := range []struct {
			number uint8
			name   string
			prefix netip.Prefix
		}{{unix.AF_INET, "IPv4", netip.PrefixFrom(netip.IPv4Unspecified(), 0)}, {unix.AF_INET6, "IPv6", netip.PrefixFrom(netip.IPv6Unspecified(), 0)}} {
			routes, err := p.kernel.Routes(ctx, vrf, f.number, f.prefix, false)
			if err != nil {
				return nil, err
			}
			for _, r := range routes {
				for _, hop := range r.NextHops {
					found[hop.Interface] = append(found[hop.Interface], defaultRoute{hop, f.name, r.Protocol})
				}
			}
		}
	}
	return found, nil
}

// fault takes a fault of the book of health that a check speaks about, so that it is not told twice.
func (p *patient) fault(is func(key string) bool) (f health.Fault, found bool) {
	if i := slices.IndexFunc(p.faults, func(f health.Fault) bool { return is(f.Key) }); i >= 0 {
		f = p.faults[i]
		p.faults = slices.Delete(p.faults, i, i+1)
		return f, true
	}
	return f, false
}

// dnsServers are those that the configuration and providers name, by the interface that leads to them.
func (p *patient) dnsServers() map[string][]netip.Addr {
	found := map[string][]netip.Addr{}
	for _, s := range p.parts.services.allServers() {
		if !slices.Contains(found[s.Interface], s.Address) {
			found[s.Interface] = append(found[s.Interface], s.Address)
		}
	}
	if p.cfg == nil || p.cfg.Services.DNS == nil {
		return found
	}
	for _, a := range p.cfg.Services.DNS.Upstream {
		if name := p.towards(a); name != "" && !slices.Contains(found[name], a) {
			found[name] = append(found[name], a)
		}
	}
	return found
}

// allServers are the DNS servers of all providers.
func (s *running) allServers() (all []service.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		all = append(all, s.servers[name]...)
	}
	return all
}

func finding(r diagnosis.Result, fix, format string, args ...any) diagnosis.Finding {
	return diagnosis.Finding{Result: r, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// known is a check whose answer is there already.
func known(name string, f diagnosis.Finding, then ...diagnosis.Check) diagnosis.Check {
	return diagnosis.Check{Name: name, Look: func(context.Context) diagnosis.Finding { return f }, Then: then}
}
