// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"

	"minne/internal/base/health"
	"minne/internal/base/instance"
	"minne/internal/base/task"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services/admin"
	"minne/internal/subsystem/services/dhcpclient"
	"minne/internal/subsystem/services/dnsmasq"
	"minne/internal/subsystem/services/ntp"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/resolv"
	"minne/internal/subsystem/services/ssh"
)

// services are the programs beside routing, and what they learn.
type services struct {
	inst    instance.Instance
	own     bool // the host is ours
	log     *slog.Logger
	clients *dhcpclient.Client
	dnsmasq *dnsmasq.Service
	resolv  *resolv.Resolv
	ntp     *ntp.Service
	ssh     *ssh.Service
	admin   *admin.Password
}

func newServices(inst instance.Instance, own bool, k *kernel.Kernel, book *health.Book, log *slog.Logger) *services {
	log = log.With("task", "services")
	s := &services{
		inst: inst, own: own, log: log,
		dnsmasq: dnsmasq.New(inst.RunDir, log),
		resolv:  resolv.New(inst.RunDir),
		ntp:     ntp.New(inst.RunDir, log),
		ssh:     ssh.New(inst.RunDir, log),
		admin:   admin.New(own, log),
	}
	s.clients = dhcpclient.New(inst.RunDir, log, learner{k, s, book})
	// Before the kernel is looked at for the first time: a lease that is held is not foreign.
	if err := s.clients.Recall(context.Background()); err != nil {
		log.Error("leases of an earlier daemon", "error", err)
	}
	return s
}

// learner passes on what DHCP servers give.
type learner struct {
	kernel *kernel.Kernel
	s      *services
	health *health.Book
}

func (l learner) Lease(ctx context.Context, name string, lease *dhcpclient.Lease) error {
	var learned kernel.Learned
	refused := ""
	if lease != nil {
		refused = strings.Join(lease.Refused, "; ")
		learned.Address = lease.Address
		for _, r := range lease.Routes {
			learned.Routes = append(learned.Routes, kernel.LearnedRoute{Prefix: r.Prefix, Gateway: r.Gateway})
		}
	}
	if refused != "" {
		refused = fmt.Sprintf("the DHCP server %s tells routes that are not used: %s", lease.Server, refused)
	}
	l.health.Fault("DHCP on "+name, refused)
	return l.kernel.Learn(ctx, name, learned)
}

func (l learner) Servers(servers []netip.Addr) error {
	return errors.Join(l.s.dnsmasq.Upstream(servers), l.s.resolv.Told(servers))
}

// subsystems returns the services in the order in which a commit puts them in place.
func (s *services) subsystems() []Subsystem {
	return []Subsystem{
		part[admin.Desired]{
			name:    "admin",
			render:  func(in Input) (admin.Desired, error) { return admin.Render(in.Config, in.Secrets) },
			verbs:   s.admin,
			restore: s.admin.Apply,
		},
		part[dhcpclient.Desired]{
			name:    "dhcp-client",
			render:  func(in Input) (dhcpclient.Desired, error) { return dhcpclient.Render(in.Config, s.inst.RunDir) },
			verbs:   s.clients,
			restore: s.clients.Apply,
		},
		part[resolv.Desired]{
			name:    "resolv",
			render:  func(in Input) (resolv.Desired, error) { return resolv.Render(in.Config) },
			verbs:   s.resolv,
			restore: s.resolv.Apply,
		},
		part[program.Desired]{
			name:    "dnsmasq",
			render:  func(in Input) (program.Desired, error) { return dnsmasq.Render(in.Config, s.inst.RunDir) },
			verbs:   s.dnsmasq,
			restore: s.dnsmasq.Apply,
		},
		part[program.Desired]{
			name:    "ntp",
			render:  func(in Input) (program.Desired, error) { return ntp.Render(in.Config, s.inst.RunDir, s.own) },
			verbs:   s.ntp,
			restore: s.ntp.Apply,
		},
		part[ssh.Desired]{
			name:    "ssh",
			render:  func(in Input) (ssh.Desired, error) { return ssh.Render(in.Config, s.inst.RunDir, s.inst.Config) },
			verbs:   s.ssh,
			restore: s.ssh.Apply,
		},
	}
}

// returned lets the DHCP client of an interface begin anew: the one that runs listens on a link that is no more.
func (s *services) returned(ctx context.Context, name string) {
	if err := s.clients.Restart(ctx, name); err != nil {
		s.log.Error("the DHCP client of a port that came back", "interface", name, "error", err)
	}
}

func (s *services) tasks() []task.Task {
	return []task.Task{s.clients, s.dnsmasq, s.ntp, s.ssh}
}

// stop ends the programs. Addresses that were leased stay, like those that the operator wrote.
func (s *services) stop(ctx context.Context) error {
	return errors.Join(s.clients.Stop(ctx), s.dnsmasq.Stop(ctx), s.ntp.Stop(ctx), s.ssh.Stop(ctx))
}

// down says which services should run and don't, and which leases can't be used.
func (s *services) down() (list []string) {
	v := s.view()
	for _, p := range v.Programs {
		if p.Running {
			continue
		}
		reason := "it has ended and is started again"
		if p.Error != "" {
			reason = p.Error
		}
		list = append(list, p.Object+": "+reason)
	}
	for _, o := range v.Leased {
		if o.Refused != "" {
			list = append(list, "DHCP lease on "+o.Interface+": "+o.Refused)
		}
	}
	return list
}

// timeTrouble says why the clock can't be trusted.
func (s *services) timeTrouble(ctx context.Context) map[string]string {
	if text := s.ntp.Trouble(ctx); text != "" {
		return map[string]string{"time": text}
	}
	return nil
}

// trim bounds what the programs have printed.
func (s *services) trim() {
	s.clients.TrimOutput()
	for _, p := range []*program.Program{s.dnsmasq.Program, s.ntp.Program, s.ssh.Program} {
		p.TrimOutput()
	}
}

// ServicesView answers show services.
type ServicesView struct {
	Programs []program.State       `json:"programs"`         // those that the configuration asks for
	Leased   []dhcpclient.Observed `json:"leased,omitempty"` // by this router
}

func viewServices(_ context.Context, d *Daemon, _ url.Values) (any, error) {
	return d.parts.services.view(), nil
}

func (s *services) view() ServicesView {
	v := ServicesView{Programs: []program.State{}, Leased: s.clients.Observe()}
	for _, o := range v.Leased {
		v.Programs = append(v.Programs, o.Client)
	}
	for _, p := range []*program.Program{s.dnsmasq.Program, s.ntp.Program, s.ssh.Program} {
		if state := p.State(); state.Object != "" {
			v.Programs = append(v.Programs, state)
		}
	}
	return v
}

// DHCPView answers show dhcp.
type DHCPView struct {
	Client []dhcpclient.Observed `json:"client,omitempty"` // what this router leased
	Given  []dnsmasq.Lease       `json:"given,omitempty"`  // what it gave to others
}

func viewDHCP(_ context.Context, d *Daemon, _ url.Values) (any, error) {
	given, err := d.parts.services.dnsmasq.Leases()
	return DHCPView{Client: d.parts.services.clients.Observe(), Given: given}, err
}
