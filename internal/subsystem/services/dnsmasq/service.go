// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Service is what dnsmasq serves to the other parts.
var Service = service.Descriptor{
	Name:  "dnsmasq",
	Title: "DHCP, DNS",
	Programs: []service.Program{{Name: "dnsmasq", For: "DHCP and DNS server", Package: "dnsmasq-base", Version: []string{binary, "--version"},
		Image: []string{"usr/sbin/dnsmasq"}}},
	Openings: openings,
	New: func(h service.Host) service.Running {
		d := New(h.RunDir, h.Log)
		r := service.Of(d, func(cfg *config.Config, _ config.Secrets) (Desired, error) { return Render(cfg, h.RunDir) })
		r.Task, r.Stop, r.States, r.Trim = d, d.Stop, d.States, d.TrimOutput
		r.Servers, r.Returned = d.Upstream, d.returned
		return r
	},
}

// openings let hosts ask on the interfaces where they are served, and the router ask servers upstream.
// DHCP's broadcasts make no connections: its answers are opened too.
func openings(cfg *config.Config) (list []policy.Opening) {
	udp, both := []uint8{unix.IPPROTO_UDP}, []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP}
	on, six := slices.Sorted(maps.Keys(cfg.Services.DHCP)), slices.Sorted(maps.Keys(cfg.Services.DHCPv6))
	link := []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	list = append(list,
		policy.Opening{Text: "DHCP server", Protocols: udp, From: 68, Port: 67, Interfaces: on, IPv4: true, Unknown: true}, // RFC 2131 section 4.1
		policy.Opening{Text: "DHCP server", Protocols: udp, From: 67, Port: 68, Interfaces: on, IPv4: true, Out: true},
		// A request to all servers makes no connection (RFC 8415 section 7.2).
		policy.Opening{Text: "DHCPv6 server", Protocols: udp, Hosts: link, From: 546, Port: 547, Interfaces: six, Unknown: true},
		policy.Opening{Text: "DHCPv6 server", Protocols: udp, From: 547, Port: 546, Interfaces: six, Out: true})
	if dns := cfg.Services.DNS; dns != nil {
		list = append(list,
			policy.Opening{Text: "DNS", Protocols: both, Port: 53, Interfaces: dns.Interfaces, Unknown: true},
			policy.Opening{Text: "DNS queries", Protocols: both, Port: 53, Out: true, Anywhere: true})
	}
	return list
}

// Daemon is the dnsmasqs of an instance.
type Daemon struct {
	*program.Fleet // by key
	runDir         string

	mu       sync.Mutex
	desired  Desired
	upstream []service.Server
}

// New returns the daemon. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Daemon {
	return &Daemon{Fleet: program.NewFleet(runDir, "", Name, log), runDir: runDir}
}

// String names the task.
func (s *Daemon) String() string { return Name }

// dir is where the dnsmasq of a VRF keeps its files.
func (s *Daemon) dir(vrf string) string { return program.Dir(s.runDir, Name+key(vrf)) }

// programs are those of a fleet.
func (d Desired) programs() map[string]program.Desired {
	all := map[string]program.Desired{}
	for vrf, i := range d {
		all[key(vrf)] = i.Desired
	}
	return all
}

// Plan says which would begin, change and end.
func (s *Daemon) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return s.Fleet.Plan(ctx, d.programs())
}

// Apply makes each run as desired, or not at all. One that does already goes on.
func (s *Daemon) Apply(ctx context.Context, d Desired) error {
	s.mu.Lock()
	s.desired = d
	err := s.write()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	return s.Fleet.Apply(ctx, d.programs())
}

// returned begins anew where dnsmasq would not advertise by itself on an interface that came back (see allAdvertised), and in a
// VRF that is another link than before.
func (s *Daemon) returned(ctx context.Context, name string) error {
	s.mu.Lock()
	var again []string
	for vrf, i := range s.desired {
		conf := i.Files["dnsmasq.conf"]
		silent := strings.Contains(conf, "dhcp-range=set:ra-"+name+",") && !strings.Contains(conf, ",constructor:"+name+",")
		if silent || vrf == name {
			again = append(again, vrf)
		}
	}
	s.mu.Unlock()
	var failed []error
	for _, vrf := range again {
		failed = append(failed, s.Restart(ctx, key(vrf)))
	}
	return errors.Join(failed...)
}

// Stop ends all.
func (s *Daemon) Stop(ctx context.Context) error { return s.Apply(ctx, nil) }

// vrfs are those where something is served, the main table first.
func (s *Daemon) vrfs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.desired))
}

// States are those of each.
func (s *Daemon) States() (list []program.State) {
	for _, vrf := range s.vrfs() {
		list = append(list, s.State(key(vrf)))
	}
	return list
}

// Upstream takes the servers that providers told, to be asked when the configuration names none. dnsmasq
// reads the file again when it has changed. One in a VRF asks those of the providers there, which the VRF's routes lead to.
func (s *Daemon) Upstream(servers []service.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upstream = servers
	return s.write()
}

// write writes the files of those that run. The caller holds mu.
func (s *Daemon) write() error {
	for vrf, i := range s.desired {
		dir := s.dir(vrf)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := program.Replace(filepath.Join(dir, serverFile), resolvConf(service.ServersOf(s.upstream, i.Learn)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// resolvConf is a resolv.conf(5) with these servers.
func resolvConf(servers []netip.Addr) string {
	var b strings.Builder
	b.WriteString("# Made by minne.\n")
	for _, a := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	return b.String()
}
