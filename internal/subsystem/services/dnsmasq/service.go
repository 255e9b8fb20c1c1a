// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"context"
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
		r := service.OfProgram(d, func(cfg *config.Config) (program.Desired, error) { return Render(cfg, h.RunDir) })
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
		policy.Opening{Text: "DHCP server", Protocols: udp, From: 68, Port: 67, Interfaces: on, IPv4: true}, // RFC 2131 section 4.1
		policy.Opening{Text: "DHCP server", Protocols: udp, From: 67, Port: 68, Interfaces: on, IPv4: true, Out: true},
		// A request to all servers makes no connection (RFC 8415 section 7.2).
		policy.Opening{Text: "DHCPv6 server", Protocols: udp, Hosts: link, From: 546, Port: 547, Interfaces: six},
		policy.Opening{Text: "DHCPv6 server", Protocols: udp, From: 547, Port: 546, Interfaces: six, Out: true})
	if dns := cfg.Services.DNS; dns != nil {
		list = append(list,
			policy.Opening{Text: "DNS", Protocols: both, Port: 53, Interfaces: dns.Interfaces},
			policy.Opening{Text: "DNS queries", Protocols: both, Port: 53, Out: true, Anywhere: true})
	}
	return list
}

// Daemon is the dnsmasq of an instance.
type Daemon struct {
	*program.Program

	mu       sync.Mutex
	runs     bool // it was applied and is not off
	conf     string
	upstream []netip.Addr
}

// New returns the daemon. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Daemon {
	return &Daemon{Program: program.New(runDir, Name, log)}
}

// Apply makes dnsmasq run as desired, or not at all.
func (s *Daemon) Apply(ctx context.Context, d program.Desired) error {
	s.mu.Lock()
	s.runs, s.conf = !d.Empty(), d.Files["dnsmasq.conf"]
	err := s.write()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", d.Object, err)
	}
	return s.Program.Apply(ctx, d)
}

// returned begins anew where dnsmasq would not advertise by itself on an interface that came back (see allAdvertised).
func (s *Daemon) returned(ctx context.Context, name string) error {
	s.mu.Lock()
	follows := !strings.Contains(s.conf, "dhcp-range=set:ra-"+name+",") || strings.Contains(s.conf, ",constructor:"+name+",")
	s.mu.Unlock()
	if follows {
		return nil
	}
	return s.Restart(ctx)
}

// Stop ends dnsmasq.
func (s *Daemon) Stop(ctx context.Context) error { return s.Apply(ctx, program.Desired{}) }

// Upstream takes the servers that DHCP told, to be asked when the configuration names none. dnsmasq
// reads the file again when it has changed.
func (s *Daemon) Upstream(servers []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upstream = servers
	return s.write()
}

func (s *Daemon) write() error {
	if !s.runs {
		return nil
	}
	if err := os.MkdirAll(s.Dir(), 0o755); err != nil {
		return err
	}
	return program.Replace(filepath.Join(s.Dir(), serverFile), resolvConf(s.upstream), 0o644)
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
