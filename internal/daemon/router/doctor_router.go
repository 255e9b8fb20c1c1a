// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/diagnosis"
	"minne/internal/model/revisions"
)

// The checks of the router itself. What the book of health knows is told in its place, and once.

func (p *patient) configuration(running *revisions.Revision) diagnosis.Check {
	missing := p.engine.State().Degraded
	switch {
	case running == nil:
		return known("configuration", finding(diagnosis.Failed, "minne apply FILE", "none is in force: nothing is forwarded"))
	case len(missing) > 0:
		return known("configuration", finding(diagnosis.Failed, "minne status", "not in place: %s", strings.Join(missing, "; ")))
	case running.State == revisions.Awaiting:
		return known("configuration", finding(diagnosis.Warning, "minne confirm", "revision %d is taken back in %v unless it is confirmed",
			running.Number, p.engine.Left(running.Deadline).Round(time.Second)))
	}
	return known("configuration", finding(diagnosis.OK, "", "revision %d is in force", running.Number))
}

func (p *patient) services() diagnosis.Check {
	s := p.parts.services
	if down := s.down(); len(down) > 0 {
		return known("services", finding(diagnosis.Failed, "minne show services", "%s", strings.Join(down, "; ")))
	}
	return known("services", finding(diagnosis.OK, "", "%d programs run", len(s.states())))
}

func (p *patient) firewall() diagnosis.Check {
	if f, wrong := p.fault(func(key string) bool { return strings.HasPrefix(key, "firewall") }); wrong {
		return known("firewall", finding(diagnosis.Failed, "minne show firewall", "%s", f.Text))
	}
	if len(p.parts.firewall.Zones()) == 0 {
		return known("firewall", finding(diagnosis.OK, "", "off: no interface has a zone"))
	}
	return known("firewall", finding(diagnosis.OK, "", "its rules are in force"))
}

func (p *patient) fastPath() diagnosis.Check {
	const see = "minne show fast-path"
	var wrong []string
	for {
		f, found := p.fault(func(key string) bool { return strings.HasPrefix(key, "fast path") })
		if !found {
			break
		}
		wrong = append(wrong, f.Key+": "+f.Text)
	}
	return diagnosis.Check{Name: "fast path", Look: func(ctx context.Context) diagnosis.Finding {
		o, err := p.parts.fastpath.Observe(ctx)
		on, off := 0, []string{}
		for _, port := range o.Ports {
			if port.Mode == "off" {
				off = append(off, port.Name+": "+port.Why)
			} else {
				on++
			}
		}
		switch {
		case err != nil:
			return finding(diagnosis.Failed, see, "%v", err)
		case len(wrong) > 0:
			return finding(diagnosis.Failed, see, "%s", strings.Join(wrong, "; "))
		case o.Mode == "off":
			return finding(diagnosis.Skipped, "", "off in the configuration")
		case !o.Ready:
			return finding(diagnosis.Warning, see, "filling its tables; the kernel forwards meanwhile")
		case len(off) > 0:
			return finding(diagnosis.Warning, see, "on %d of %d ports; the kernel forwards what arrives on the others: %s", on, len(o.Ports), strings.Join(off, "; "))
		}
		return finding(diagnosis.OK, "", "on all of %d ports", on)
	}}
}

// connections says whether there is room for more.
func (p *patient) connections() diagnosis.Check {
	return diagnosis.Check{Name: "connections", Look: func(context.Context) diagnosis.Finding {
		used, room, err := conntrackRoom()
		switch {
		case err != nil || room == 0:
			return finding(diagnosis.Skipped, "", "conntrack is not used")
		case used*100 > room*95:
			return finding(diagnosis.Failed, "minne show connections", "%d of at most %d: new connections are dropped, or soon will be", used, room)
		case used*100 > room*80:
			return finding(diagnosis.Warning, "minne show connections", "%d of at most %d", used, room)
		}
		stats, ok, err := p.parts.fastpath.FlowStats()
		if err != nil {
			return finding(diagnosis.Failed, "minne show fast-path", "%v", err)
		}
		if ok && stats.Capacity > 0 && stats.Entries*100 > stats.Capacity*95 {
			return finding(diagnosis.Warning, "in the configuration: fast-path.flows", "%d of at most %d; the fast path's table is full (%d), the kernel forwards further ones", used, room, stats.Capacity)
		}
		return finding(diagnosis.OK, "", "%d of at most %d", used, room)
	}}
}

// clock asks the kernel, which knows whether somebody keeps the time (adjtimex(2)).
func (p *patient) clock() diagnosis.Check {
	f, wrong := p.fault(func(key string) bool { return key == "time" })
	return diagnosis.Check{Name: "clock", Look: func(context.Context) diagnosis.Finding {
		if wrong {
			return finding(diagnosis.Failed, "minne show ntp", "%s", f.Text)
		}
		var t unix.Timex
		state, err := unix.Adjtimex(&t)
		switch {
		case err != nil:
			return finding(diagnosis.Skipped, "", "the kernel does not say: %v", err)
		case !p.inst.OwnsHost():
			return finding(diagnosis.Skipped, "", "it is the host's, not this router's")
		case state == unix.TIME_ERROR && p.cfg.Services.NTP != nil:
			return finding(diagnosis.Warning, "minne show ntp", "not synchronised yet")
		case state == unix.TIME_ERROR:
			return finding(diagnosis.Warning, "in the configuration: services.ntp.servers", "not synchronised, and no time server is configured")
		}
		return finding(diagnosis.OK, "", "synchronised, %v off at most", (time.Duration(t.Maxerror) * time.Microsecond).Round(time.Millisecond))
	}}
}

func (p *patient) stateDirectory() diagnosis.Check {
	if f, wrong := p.fault(func(key string) bool { return key == "state directory" }); wrong {
		return known("state directory", finding(diagnosis.Failed, "df "+p.inst.StateDir, "%s", f.Text))
	}
	return known("state directory", finding(diagnosis.OK, "", "can take another commit"))
}

// otherFaults are those of the book that no check above has told.
func (p *patient) otherFaults() diagnosis.Check {
	var list []diagnosis.Check
	for _, f := range p.faults {
		list = append(list, known(f.Key, finding(diagnosis.Failed, seeAlso(f.Key), "%s; since %s", f.Text, f.Since.Format(time.DateTime))))
	}
	if last, all := p.parts.health.Repairs(); all > 0 {
		r := last[len(last)-1]
		list = append(list, known("repairs", finding(diagnosis.OK, "", "%d times something else changed the router's state, and it was restored; last at %s: %s: %s",
			all, r.Time.Format(time.DateTime), r.Key, r.Text)))
	}
	text := "none besides those above"
	if len(p.faults) > 0 {
		text = fmt.Sprintf("%d", len(p.faults))
	}
	return known("other faults", finding(diagnosis.OK, "", "%s", text), list...)
}

// seeAlso is the command that shows more of a fault.
func seeAlso(key string) string {
	for _, s := range []struct{ begins, command string }{
		{"DHCP", "minne show dhcp"}, {"static routes", "minne show ip route"}, {"policy routing", "ip rule"}, {"slot", "minne show boot"},
		{"revision", "minne revisions"}, {"BGP", "minne show bgp summary"}, {"OSPF", "minne show ospf neighbor"}, {"optics", "minne show optics"},
	} {
		if strings.HasPrefix(key, s.begins) {
			return s.command
		}
	}
	return "minne show log"
}
