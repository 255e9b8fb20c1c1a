// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/base/task"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services"
	"minne/internal/subsystem/services/dhcpclient"
	"minne/internal/subsystem/services/dhcpv6client"
	"minne/internal/subsystem/services/dnsmasq"
	"minne/internal/subsystem/services/pppoe"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
	"minne/internal/subsystem/uplinks"
)

// running are the services of this router: the programs beside routing.
type running struct {
	host service.Host
	log  *slog.Logger
	all  []service.Running

	mu      sync.Mutex
	servers map[string][]service.Server // DNS servers of providers, by the service that got them
}

func startServices(h service.Host, k *kernel.Kernel, book *health.Book, lines *uplinks.Uplinks) *running {
	h.Log = h.Log.With("task", "services")
	s := &running{log: h.Log, servers: map[string][]service.Server{}}
	h.Servers = s.setServers
	s.host = h
	for _, d := range services.All {
		s.all = append(s.all, d.Start(h))
	}
	// Before the kernel is looked at for the first time: a lease that is held is not foreign.
	if err := find[*dhcpclient.Client](s).LearnBy(context.Background(), learner{k, s, book, lines}); err != nil {
		s.log.Error("cannot read the DHCP leases of an earlier daemon", "error", err)
	}
	find[*dhcpv6client.Client](s).LearnBy(learner{k, s, book, lines})
	if err := find[*pppoe.Client](s).ReportServers(); err != nil {
		s.log.Error("cannot use the DNS servers of PPPoE sessions", "error", err)
	}
	return s
}

// find returns the service of a type, for its views and its wiring.
func find[S any](s *running) (self S) {
	for _, r := range s.all {
		if v, ok := r.Self.(S); ok {
			return v
		}
	}
	return self
}

// learner passes on what DHCP servers give.
type learner struct {
	kernel *kernel.Kernel
	s      *running
	health *health.Book
	lines  *uplinks.Uplinks
}

func (l learner) Lease(ctx context.Context, name string, lease *dhcpclient.Lease) error {
	var learned *kernel.Learned
	refused := ""
	var gateways []netip.Addr
	if lease != nil {
		refused = strings.Join(lease.Refused, "; ")
		learned = &kernel.Learned{Addresses: map[string][]netip.Prefix{name: {lease.Address}}}
		for _, r := range lease.Routes {
			learned.Routes = append(learned.Routes, kernel.LearnedRoute{Prefix: r.Prefix, Interface: name, Gateway: r.Gateway})
			if r.Prefix.Bits() == 0 {
				gateways = append(gateways, r.Gateway)
			}
		}
	}
	l.lines.Learn("dhcp", name, gateways)
	if refused != "" {
		refused = fmt.Sprintf("the DHCP server %s announces routes that are not used: %s", lease.Server, refused)
	}
	l.health.Fault("DHCP on "+name, refused)
	return l.kernel.Learn(ctx, "dhcp "+name, learned)
}

func (l learner) Servers(servers []service.Server) error { return l.s.setServers("dhcp", servers) }

func (l learner) IPv6(ctx context.Context, name string, g *dhcpv6client.Given) error {
	if g == nil {
		l.lines.Learn("dhcpv6", name, nil)
		return l.kernel.Learn(ctx, "dhcpv6 "+name, nil)
	}
	learned := kernel.Learned{Addresses: g.Addresses}
	l.lines.Learn("dhcpv6", name, []netip.Addr{g.Router})
	if g.Router.IsValid() {
		learned.Routes = append(learned.Routes, kernel.LearnedRoute{Prefix: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Interface: name, Gateway: g.Router})
	}
	if g.Prefix.IsValid() && g.Prefix.Bits() < 64 { // what no interface has of it must not loop (RFC 7084, WPD-5)
		learned.Routes = append(learned.Routes, kernel.LearnedRoute{Prefix: g.Prefix, Interface: name, Unreachable: true})
	}
	return l.kernel.Learn(ctx, "dhcpv6 "+name, &learned)
}

func (l learner) IPv6Servers(servers []service.Server) error {
	return l.s.setServers("dhcpv6", servers)
}

// setServers passes on the DNS servers that a service got, with those of the others.
func (s *running) setServers(from string, list []service.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[from] = list
	var all []service.Server
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		all = append(all, s.servers[name]...)
	}
	var failed []error
	for _, r := range s.all {
		if r.Servers != nil {
			failed = append(failed, r.Servers(all))
		}
	}
	return errors.Join(failed...)
}

// subsystems returns the services in the order in which a commit puts them in place.
func (s *running) subsystems() (list []Subsystem) {
	for _, r := range s.all {
		if r.Render == nil { // nothing but openings of the firewall
			continue
		}
		list = append(list, part[any]{
			name:    r.Name,
			render:  func(in Input) (any, error) { return r.Render(in.Config, in.Secrets) },
			verbs:   steps{r},
			restore: r.Apply,
		})
	}
	return list
}

// steps are those of a commit.
type steps struct{ r service.Running }

func (s steps) Plan(ctx context.Context, d any) ([]plan.Change, error) { return s.r.Plan(ctx, d) }
func (s steps) Apply(ctx context.Context, d any) error                 { return s.r.Apply(ctx, d) }

// returned tells the services that an interface came back: what listens on a link that is no more begins anew.
func (s *running) returned(ctx context.Context, name string) {
	for _, r := range s.all {
		if r.Returned == nil {
			continue
		}
		if err := r.Returned(ctx, name); err != nil {
			s.log.Error("cannot restart a service on an interface that came back", "service", r.Name, "interface", name, "error", err)
		}
	}
}

func (s *running) tasks() (list []task.Task) {
	for _, r := range s.all {
		if r.Task != nil {
			list = append(list, r.Task)
		}
	}
	return list
}

// stop ends the programs. Addresses that were leased stay, like those that the operator wrote.
func (s *running) stop(ctx context.Context) error {
	var failed []error
	for _, r := range s.all {
		if r.Stop != nil {
			failed = append(failed, r.Stop(ctx))
		}
	}
	return errors.Join(failed...)
}

// states are those of the programs that the configuration asks for.
func (s *running) states() (list []program.State) {
	for _, r := range s.all {
		if r.States != nil {
			list = append(list, r.States()...)
		}
	}
	return list
}

// down says which services should run and don't, and what else of them does not work.
func (s *running) down() (list []string) {
	for _, p := range s.states() {
		if p.Running {
			continue
		}
		reason := "it has ended and is started again"
		if p.Error != "" {
			reason = p.Error
		}
		list = append(list, p.Object+": "+reason)
	}
	for _, r := range s.all {
		if r.Down != nil {
			list = append(list, r.Down()...)
		}
	}
	return list
}

// trouble says what the services find wrong when they are asked.
func (s *running) trouble(ctx context.Context) map[string]string {
	found := map[string]string{}
	for _, r := range s.all {
		if r.Trouble == nil {
			continue
		}
		maps.Copy(found, r.Trouble(ctx))
	}
	return found
}

// trim bounds what the programs have printed.
func (s *running) trim() {
	for _, r := range s.all {
		if r.Trim != nil {
			r.Trim()
		}
	}
}

// serviceView is a view that a service brings.
type serviceView struct{ service.View }

// ServiceViews are the views that services bring.
func ServiceViews() (list []AnyView) {
	for _, v := range services.Views() {
		list = append(list, serviceView{v})
	}
	return list
}

func (v serviceView) operation() api.Operation[Nothing, json.RawMessage] {
	return api.Operation[Nothing, json.RawMessage]{Method: http.MethodGet, Path: "/v1/show/" + v.Endpoint(), Short: v.Short, Answers: v.Answer}
}

func (v serviceView) About() Text      { return Text{Path: v.Endpoint(), Short: v.Short, Long: v.Long} }
func (v serviceView) NewQuestion() any { return new(Nothing) }

func (v serviceView) AskAny(ctx context.Context, c *api.Client, _ any) (any, error) {
	return v.operation().Ask(ctx, c, Nothing{})
}

func (v serviceView) PrintAny(w io.Writer, _, answer any) error {
	t, err := v.Table(answer.(json.RawMessage))
	if err != nil {
		return err
	}
	return show.ServiceTable(w, t)
}

func (v serviceView) serve(s *api.Server, d *Daemon) {
	api.Serve(s, v.operation(), func(r *http.Request, _ Nothing) (json.RawMessage, error) {
		for _, one := range d.parts.services.all {
			if !slices.ContainsFunc(one.Views, func(its service.View) bool { return its.Path == v.Path }) {
				continue
			}
			answer, err := v.Read(r.Context(), one)
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		}
		return nil, fmt.Errorf("no running service provides %s", v.Path)
	})
}

// Services is show services.
var Services = View[Nothing, show.ServicesView]{
	Text: Text{Path: "services", Short: "Show " + services.Titles() + ": status and clients", Aliases: []string{"service"}},
	Read: func(_ context.Context, d *Daemon, _ Nothing) (show.ServicesView, error) {
		s := d.parts.services
		return show.ServicesView{Programs: append([]program.State{}, s.states()...), Leased: find[*dhcpclient.Client](s).Observe()}, nil
	},
	Print: only[Nothing](show.Services),
}

// DHCP is show dhcp.
var DHCP = View[Nothing, show.DHCPView]{
	Text: Text{Path: "dhcp", Short: "Show DHCP leases: those of the router, and those it assigned"},
	Read: func(_ context.Context, d *Daemon, _ Nothing) (show.DHCPView, error) {
		s := d.parts.services
		given, err := find[*dnsmasq.Daemon](s).Leases()
		return show.DHCPView{Client: find[*dhcpclient.Client](s).Observe(), Given: given}, err
	},
	Print: only[Nothing](show.DHCP),
}
