// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"minne/internal/base/health"
	"minne/internal/base/instance"
	"minne/internal/base/medium"
	"minne/internal/base/plan"
	"minne/internal/base/task"
	"minne/internal/base/tick"
	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/flows"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
	"minne/internal/subsystem/services/login"
	"minne/internal/subsystem/services/service"
	"minne/internal/subsystem/uplinks"
)

// parts are the subsystems of one router, with their own types. Views read them.
type parts struct {
	inst        instance.Instance
	log         *slog.Logger
	health      *health.Book // what is wrong, told by all the others
	tick        *tick.Tick   // the one slow clock, for what the kernel does not announce
	firewall    *firewall.Firewall
	kernel      *kernel.Kernel
	watcher     *kernel.Watcher // tells fastpath
	routing     *routing.Routing
	fastpath    *fastpath.FastPath
	offload     *offloader // tells fastpath what firewall says
	flows       *flows.Table
	connections *roomWatch
	flowLog     *flowLog
	services    *running
	uplinks     *uplinks.Uplinks
	reassert    *reassert // puts back what others change of kernel
}

// newParts makes the subsystems. The voice is what services may pass on of the router; an empty one has nothing.
func newParts(inst instance.Instance, log *slog.Logger, voice voice) parts {
	fast := fastpath.New(inst, log.With("task", "fast-path"))
	live := inst.StateDir
	if medium.On(live) {
		live = inst.RunDir // elements come and go all day: that would wear the medium out
	}
	filter := firewall.New(live, log.With("task", "firewall"))
	book := flows.New(fast, filter.Zones)
	fast.ListenToFlows(book)
	own := inst.OwnsHost()
	faults := health.NewBook(log.With("task", "health"))
	fast.ReportTo(faults)
	filter.ReportTo(faults)
	kern := kernel.New(log.With("task", "kernel"), kernel.Options{OwnHost: own, Former: filepath.Join(inst.RunDir, "former.json")})
	fast.AskConntrack(func() fastpath.Conntrack { return new(flows.Asker) })
	records := flowrecord.NewFeed()
	lines := uplinks.New(uplinks.Host{Log: log.With("task", "uplinks"), Health: faults, FastPath: fast, BFDSocket: routing.BFDSocket(inst),
		File: filepath.Join(inst.RunDir, "uplinks-off.json"), Sever: severUplink(log.With("task", "uplinks"))})
	clock := tick.New()
	clock.Add(fast.Look)
	p := parts{
		offload:     newOffloader(log.With("task", "firewall"), filter, fast),
		inst:        inst,
		log:         log,
		health:      faults,
		tick:        clock,
		firewall:    filter,
		kernel:      kern,
		watcher:     kernel.NewWatcher(log.With("task", "watcher"), fast),
		routing:     routing.New(inst, faults, log.With("task", "routing")),
		fastpath:    fast,
		flows:       book,
		connections: &roomWatch{read: readRoom},
		services: startServices(service.Host{RunDir: inst.RunDir, StateDir: live, Config: inst.Config, Own: own, Log: log,
			Lines: voice.lines, Alarms: faults.Follow, Figures: voice.figures, Flows: records}, kern, faults, lines),
		uplinks: lines,
	}
	find[*login.Login](p.services).UseFirewall(admission{filter}, metering{book.Meter()}, planning{kern})
	p.flowLog = newFlowLog(filepath.Join(live, "flow-log"), records, flows.NewRecorder(book, fast, log.With("task", "flow-records")), faults, log.With("task", "flow-log"))
	clock.Add(p.flowLog.tidy)
	p.reassert = newReassert(log, p.watcher, kern, p.health, p.tick)
	return p
}

// subsystems returns the parts in the order in which a commit puts them in place.
func (p parts) subsystems() []Subsystem {
	return append([]Subsystem{
		part[gated]{ // before links come up: no packet gets past rules that are still to come
			name:    stepFirewall,
			render:  renderGated,
			verbs:   gate{p.firewall},
			restore: gate{p.firewall}.Restore,
		},
		part[firewall.Desired]{ // at once: no packet passes beside rules that the kernel has
			name:    "fast-path-firewall",
			render:  func(in Input) (firewall.Desired, error) { return in.Firewall, nil },
			verbs:   p.offload,
			restore: p.offload.Apply,
		},
		part[fastpath.Desired]{ // before links get their MTU
			name:    "fast-path-frames",
			render:  renderFastPath,
			verbs:   fastpath.Frames{FastPath: p.fastpath},
			restore: fastpath.Frames{FastPath: p.fastpath}.Apply,
		},
		part[kernel.Desired]{
			name:    "kernel",
			render:  func(in Input) (kernel.Desired, error) { return kernel.Render(in.Config) },
			verbs:   p.kernel,
			restore: p.kernel.ApplyPresent,
		},
		part[routing.Desired]{
			name:    "routing",
			render:  func(in Input) (routing.Desired, error) { return routing.Render(in.Config, in.Secrets) },
			verbs:   p.routing,
			restore: p.routing.Apply,
		},
		part[fastpath.Desired]{
			name:    "fast-path",
			render:  renderFastPath,
			verbs:   p.fastpath,
			restore: p.fastpath.Apply,
		},
		part[uplinks.Desired]{ // when routes and the fast path are there
			name:    "uplinks",
			render:  func(in Input) (uplinks.Desired, error) { return uplinks.Render(in.Config), nil },
			verbs:   p.uplinks,
			restore: p.uplinks.Apply,
		},
		part[loggedFlows]{
			name:    "flow-log",
			render:  func(in Input) (loggedFlows, error) { return renderFlowLog(in.Config), nil },
			verbs:   p.flowLog,
			restore: p.flowLog.Apply,
		},
	}, p.services.subsystems()...)
}

func renderFastPath(in Input) (fastpath.Desired, error) {
	d, err := fastpath.Render(in.Config)
	d.Labels = in.Labels
	return d, err
}

// tasks returns what runs as long as the daemon does.
func (p parts) tasks() []task.Task {
	return append([]task.Task{p.watcher, p.tick, p.reassert, newFollowFilter(p), p.routing, p.uplinks, p.fastpath.Collector(), p.fastpath.Watch(),
		flows.NewEnds(p.fastpath, p.flows.Meter(), p.log.With("task", "conntrack-ends")), p.flowLog}, p.services.tasks()...)
}

// vitals returns the parts that must go on working.
func (p parts) vitals() []vital {
	return []vital{{p.watcher.String(), p.watcher.Alive}, {"fast path", p.fastpath.Alive}}
}

// forwarding switches it on or off. The fast path hears of it at once, not when it is the turn of the kernel's notification.
func (p parts) forwarding(ctx context.Context, on bool) error {
	err := p.kernel.Forwarding(ctx, on)
	p.fastpath.SettingsChanged()
	return err
}

// takeDown removes what would go on without the daemon. Addresses, static routes
// and the filter stay: the operator may be logged in through them. Nobody owns the filter any more.
func (p parts) takeDown(ctx context.Context) error {
	left := p.uplinks.Stop(ctx)
	p.fastpath.Close()
	return errors.Join(
		left,
		p.kernel.Forwarding(ctx, false),
		fastpath.TakeAway(p.inst),
		p.routing.Stop(ctx),
		p.services.stop(ctx),
		p.firewall.LetGo(),
	)
}

// part makes a Subsystem of anything with the common verbs and a state of type D.
type part[D any] struct {
	name   string
	render func(Input) (D, error)
	verbs  interface {
		Plan(context.Context, D) ([]plan.Change, error)
		Apply(context.Context, D) error
	}
	restore func(context.Context, D) error
}

func (p part[D]) String() string { return p.name }

func (p part[D]) Render(in Input) (Desired, error) { return p.render(in) }

func (p part[D]) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return p.verbs.Plan(ctx, d.(D))
}

func (p part[D]) Apply(ctx context.Context, d Desired) error { return p.verbs.Apply(ctx, d.(D)) }

func (p part[D]) Restore(ctx context.Context, d Desired) error { return p.restore(ctx, d.(D)) }
