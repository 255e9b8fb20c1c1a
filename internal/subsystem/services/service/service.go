// SPDX-License-Identifier: Apache-2.0

// Package service is the shape of a service: what the other parts of Minne must know of the programs beside
// routing. Each has a package of its own with one Descriptor; package services has the list.
//
// The firewall reads the openings, the daemon runs what New returns, the image and the Debian package take
// the programs, the command line and the API take the views. None of them knows a service by its name.
package service

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"

	"minne/internal/base/figure"
	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/base/task"
	"minne/internal/model/config"
	"minne/internal/model/flowrecord"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
)

// Descriptor is a service as the other parts see it.
type Descriptor struct {
	Name     string // of the step of a commit, and in messages
	Title    string // what it serves, for help texts, as "DHCP, DNS"; "" for what no operator looks for
	Programs []Program
	Openings func(*config.Config) []policy.Opening // nil for none
	New      func(Host) Running
	Views    []View
}

// Program is a program that a service runs or asks.
type Program struct {
	Name    string
	For     string   // what it does here
	Package string   // of Debian
	Version []string // the command that prints its version
	Image   []string // what of the package is on the router's image; none: the package must be installed
	Unit    string   // of systemd, that the package starts by itself; "" for none
}

// Host is the router that a service is of.
type Host struct {
	RunDir   string // of the instance
	StateDir string // of the instance; in RunDir where the state would wear the medium out
	Config   string // its configuration file
	Own      bool   // the machine is ours: its clock, its users

	// Servers takes the DNS servers that a service got from providers, in place of those that it got before.
	Servers func(service string, list []Server) error
	Log     *slog.Logger

	// What the router says of itself, for services that pass it on; nil where nobody listens, in a preview.
	Lines   func(ctx context.Context, from int, say func(number int, line string) error) error // of its log
	Alarms  func(ctx context.Context, from int, say func(health.Event) error) error
	Figures func(context.Context) ([]figure.Family, error) // counters and states
	Flows   *flowrecord.Feed                               // records of connections
}

// Server is a DNS server of a provider.
type Server struct {
	Interface string // towards the provider
	Address   netip.Addr
}

// ServersOf are the servers of some interfaces' providers, each once.
func ServersOf(list []Server, interfaces []string) (of []netip.Addr) {
	for _, s := range list {
		if slices.Contains(interfaces, s.Interface) && !slices.Contains(of, s.Address) {
			of = append(of, s.Address)
		}
	}
	return of
}

// Running is a service of one router: all that the daemon does with it. What is nil it does not need.
type Running struct {
	*Descriptor
	Self any // the service itself, for its views

	// The steps of a commit. What Render returns is what Plan and Apply get.
	Render func(*config.Config, config.Secrets) (any, error)
	Plan   func(context.Context, any) ([]plan.Change, error)
	Apply  func(context.Context, any) error

	Task     task.Task
	Stop     func(context.Context) error             // when the router is taken down
	States   func() []program.State                  // of its programs that the configuration asks for
	Down     func() []string                         // what does not work though its programs run
	Trouble  func(context.Context) map[string]string // the same where that takes a question: by what is wrong
	Trim     func()                                  // bounds what its programs have printed
	Servers  func([]Server) error                    // takes the DNS servers of all providers
	Returned func(context.Context, string) error     // an interface came back as another link
}

// Start returns a service of a router. Nothing runs before the first Apply.
func (d *Descriptor) Start(h Host) Running {
	r := d.New(h)
	r.Descriptor = d
	return r
}

// Of is a service with the steps of a commit; D is what is rendered for it.
func Of[D any](self interface {
	Plan(context.Context, D) ([]plan.Change, error)
	Apply(context.Context, D) error
}, render func(*config.Config, config.Secrets) (D, error)) Running {
	return Running{
		Self:   self,
		Render: func(cfg *config.Config, secrets config.Secrets) (any, error) { return render(cfg, secrets) },
		Plan:   func(ctx context.Context, desired any) ([]plan.Change, error) { return self.Plan(ctx, desired.(D)) },
		Apply:  func(ctx context.Context, desired any) error { return self.Apply(ctx, desired.(D)) },
	}
}

// OfProgram is a service that is one program, which self is or embeds.
func OfProgram(self interface {
	task.Task
	Plan(context.Context, program.Desired) ([]plan.Change, error)
	Apply(context.Context, program.Desired) error
	Stop(context.Context) error
	States() []program.State
	TrimOutput()
}, render func(*config.Config) (program.Desired, error)) Running {
	r := Of(self, func(cfg *config.Config, _ config.Secrets) (program.Desired, error) { return render(cfg) })
	r.Task, r.Stop, r.States, r.Trim = self, self.Stop, self.States, self.TrimOutput
	return r
}
