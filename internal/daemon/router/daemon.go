// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"minne/internal/appliance/boot"
	"minne/internal/base/instance"
	"minne/internal/base/task"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/revisions"
	"minne/internal/subsystem/fastpath/choice"
	"minne/internal/subsystem/services/web"
)

// How long the start and the end of the daemon may take.
const (
	startGrace  = 30 * time.Second // for a task to become ready
	answerGrace = 2 * time.Second  // for requests that only read
	commitGrace = 20 * time.Second // for a commit in the middle
)

// Daemon is the process behind one router instance.
type Daemon struct {
	inst    instance.Instance
	log     *slog.Logger
	journal *Journal
	version string
	started time.Time
	engine  *Engine
	parts   parts
	tasks   []task.Task
	mend    *mender
	checkup *checkup
	sampler sampler[counters] // for rates, while somebody asks
	zero    zero              // where counters begin
	front   Front             // nil: nobody is answered over the network
	quit    context.CancelFunc

	doctor sync.Mutex // held while the doctor looks

	mu    sync.Mutex
	ended map[string]string // task → why it stopped
}

// NewDaemon returns the daemon of an instance, in the network namespace of this
// process. It touches only the instance's state directory. The journal is where
// log writes to, for whoever asks the daemon for its log.
func NewDaemon(inst instance.Instance, log *slog.Logger, journal *Journal, version string) (*Daemon, error) {
	store, err := revisions.Open(inst.RevisionsDir(), log)
	if err != nil {
		return nil, err
	}
	clock, err := newKernelClock()
	if err != nil {
		return nil, err
	}
	prints, err := newFingerprinter(inst.StateDir)
	if err != nil {
		return nil, err
	}
	fault, err := faults()
	if err != nil {
		return nil, err
	}
	if fault != nil {
		store.Fault = func(point string) error { return fault("store-" + point) }
	}
	d := &Daemon{inst: inst, log: log, journal: journal, version: version, started: time.Now(), ended: make(map[string]string)}
	d.parts = newParts(inst, log, voice{lines: journal.Feed, figures: d.figures})
	structures := choice.NewStore(inst.StateDir, inst.RunDir, version, log.With("task", "fast-path"))
	d.parts.fastpath.ChooseBy(structures.Choose)
	d.sampler.take = d.parts.counters
	d.checkup = newCheckup(d.parts)
	d.mend = newMender(log)
	d.engine = newEngine(&Engine{
		log:         log.With("task", "engine"),
		store:       store,
		clock:       clock,
		subsystems:  d.parts.subsystems(),
		forwarding:  d.parts.forwarding,
		stands:      gate{d.parts.firewall}.stands,
		read:        reader{inst: inst, log: log}.read,
		fingerprint: prints.of,
		fault:       fault,
		companions:  newCompanionFiles(inst.Config, inst.Secrets, inst.StateDir),
		onDegraded:  d.mend.wake,
		onOlder:     func(why string) { d.parts.health.Fault("revision", why) },
		onInPlace:   boot.InPlace,
	})
	d.mend.reapply = d.engine.Reapply
	d.parts.reassert.returned = func(ctx context.Context, name string) {
		d.parts.services.returned(ctx, name)
		d.mend.soon()
	}
	vitals := newVitals(log.With("task", "vitals"), d.parts.health, d.engine.busy, d.parts.fastpath.Beat, append(d.parts.vitals(), vital{"engine", d.engine.alive}))
	d.tasks = append(d.parts.tasks(), d.mend, vitals)
	if boot.OnImage() && inst.OwnsHost() {
		vitals.giveUp = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGABRT) } // tells where all goroutines stand; init starts another
		d.tasks = append(d.tasks, boot.NewWatchdog(log.With("task", "watchdog"), vitals.wait))
	}
	if inst.OwnsHost() { // others use what is stored: in a lab, many routers would measure each other
		d.tasks = append(d.tasks, newMeasuring(log, structures))
	}
	return d, nil
}

// Front answers people and programs on the network by asking the API; who they are the listener knows.
type Front func(*api.Server, *web.Server) http.Handler

// AnswerBy is called before Run.
func (d *Daemon) AnswerBy(f Front) { d.front = f }

// Run puts the stored configuration in place and serves until ctx ends, the
// daemon is asked to stop, or a task can't go on. What was put in place stays.
func (d *Daemon) Run(ctx context.Context) error {
	release, err := lockInstance(d.inst)
	if err != nil {
		return err
	}
	defer release()
	if err := sign(d.inst); err != nil {
		return err
	}
	ctx, d.quit = context.WithCancel(ctx)
	defer d.quit()
	socket, err := openDoor(d.inst.ControlSocket())
	if err != nil {
		return err
	}
	d.parts.tick.Add(func(ctx context.Context) { d.watchRunDir(ctx, socket) })
	d.parts.tick.Add(d.checkup.look)
	server := api.NewServer(d.log)
	d.endpoints(server)
	if d.front != nil {
		listener := find[*web.Server](d.parts.services)
		listener.AnswerBy(d.front(server, listener))
	}

	failed := make(chan error, len(d.tasks)+1)
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Serve(ctx, socket, answerGrace); err != nil {
			failed <- fmt.Errorf("control socket: %w", err)
		}
	})
	d.parts.firewall.KeepGuard()
	if err := d.engine.Start(ctx); err != nil {
		d.log.Error("parts of the stored configuration are not in force", "error", err)
	}
	for _, t := range d.tasks {
		running.Go(func() {
			if err := t.Run(ctx); err != nil && ctx.Err() == nil {
				d.taskEnded(t, err)
				failed <- fmt.Errorf("%s: %w", t, err)
			}
		})
	}
	d.firstStart(ctx)
	d.reportBoot(ctx)
	d.log.Info("ready", "instance", d.inst.Name, "version", d.version, "pid", os.Getpid())
	notify("READY=1")

	select {
	case err = <-failed:
		d.log.Error("stopping; forwarding continues without the daemon", "error", err)
	case <-ctx.Done():
		d.log.Info("stopping; forwarding continues without the daemon")
	}
	notify("STOPPING=1")
	d.parts.fastpath.EndCapture(errStopping)
	d.journal.End()
	d.quit()
	d.engine.settle(commitGrace)
	running.Wait()
	return err
}

// firstStart gives a router that never had a configuration the operator's file.
// Failing is no reason to end: a daemon that runs can be told what to do instead.
func (d *Daemon) firstStart(ctx context.Context) {
	if _, stored := d.engine.store.Newest(); stored {
		return
	}
	_, text, err := config.Load(d.inst.Config)
	if errors.Is(err, os.ErrNotExist) {
		d.log.Info("no configuration yet, waiting for minne apply", "file", d.inst.Config)
		return
	}
	if err == nil {
		d.awaitReady(ctx, d.parts.watcher) // the fast path judges ports that it was told of
		err = d.engine.FirstStart(ctx, d.inst.Config, string(text))
	}
	if err != nil {
		d.log.Error("the first configuration could not be applied; fix it, then: minne apply", "file", d.inst.Config, "error", err)
	}
}

// reportBoot lets the image know what the router began with.
func (d *Daemon) reportBoot(ctx context.Context) {
	s := d.engine.State()
	revision := 0
	if s.Running != nil {
		revision = s.Running.Number
	}
	if err := boot.Started(ctx, revision, s.Degraded); err != nil {
		d.log.Error("cannot start the rescue login", "error", err)
	}
}

// awaitReady waits until a task works, but no longer than a start may take.
func (d *Daemon) awaitReady(ctx context.Context, t task.Task) {
	select {
	case <-t.Ready():
	case <-ctx.Done():
	case <-time.After(startGrace):
		d.log.Warn("not ready in time; continuing", "for", t)
	}
}

func (d *Daemon) taskEnded(t task.Task, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended[t.String()] = err.Error()
}
