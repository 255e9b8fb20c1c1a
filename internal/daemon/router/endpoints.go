// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// endpoints is all that the daemon answers; package api lists it for readers.
func (d *Daemon) endpoints(s *api.Server) {
	api.Read(s, "GET /v1/status", d.answerStatus)
	api.Read(s, "GET /v1/revisions", d.answerRevisions)
	api.Read(s, "GET /v1/revisions/{number}", d.answerRevision)
	api.Read(s, "POST /v1/plan", d.answerPlan)
	api.Read(s, "GET /v1/show/{view...}", d.answerShow)
	api.Read(s, "POST /v1/explain", d.answerExplain)
	api.Write(s, "POST /v1/apply", d.answerApply)
	api.Write(s, "POST /v1/restore", d.answerRestore)
	api.Write(s, "POST /v1/confirm", d.answerConfirm)
	api.Write(s, "POST /v1/rollback", d.answerRollback)
	api.Write(s, "POST /v1/stop", d.answerStop)
	api.Write(s, "POST /v1/set", d.answerSet)
	api.Write(s, "POST /v1/clear/bgp", d.answerClearBGP)
	api.Write(s, "POST /v1/clear/ospf", d.answerClearOSPF)
	api.Write(s, "POST /v1/clear/neighbors", d.answerClearNeighbors)
	api.Write(s, "POST /v1/clear/connections", d.answerClearConnections)
	api.Write(s, "POST /v1/clear/counters", d.answerClearCounters)
	api.Stream(s, "POST /v1/capture", d.answerCapture)
	api.ReadStream(s, "POST /v1/log/follow", d.answerLogFollow)
	api.Write(s, "POST /v1/capture/end", d.answerCaptureEnd)
}

// lasting is for what must end properly even when the one who asked is gone: an
// apply may well cut the connection of the operator who asked for it.
func lasting(r *http.Request) (context.Context, string) {
	return context.WithoutCancel(r.Context()), api.PeerOf(r.Context()).User
}

func (d *Daemon) answerApply(r *http.Request, q api.Commit) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Apply(ctx, user, q)
}

func (d *Daemon) answerRestore(r *http.Request, q api.Restore) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Restore(ctx, user, q)
}

func (d *Daemon) answerConfirm(r *http.Request, _ api.Empty) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Confirm(ctx, user)
}

func (d *Daemon) answerRollback(r *http.Request, q api.Rollback) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Rollback(ctx, user, q.Revision)
}

func (d *Daemon) answerPlan(r *http.Request, q api.Commit) (api.Result, error) {
	return d.engine.Plan(r.Context(), q)
}

func (d *Daemon) answerStop(r *http.Request, q api.Stop) (api.Empty, error) {
	ctx, user := lasting(r)
	if !q.All {
		d.quit()
		return api.Empty{}, nil
	}
	if err := d.engine.wait(ctx, user+" (stop)"); err != nil {
		return api.Empty{}, err
	}
	defer d.engine.release()
	d.log.Warn("taking down the router", "user", user)
	defer d.quit()
	return api.Empty{}, d.parts.takeDown(ctx)
}

func (d *Daemon) answerStatus(r *http.Request, _ api.Empty) (api.Status, error) {
	d.checkup.examine(r.Context())
	state := d.engine.State()
	status := api.Status{
		Instance: d.inst.Name,
		Version:  d.version,
		PID:      os.Getpid(),
		Started:  d.started,
		Faults:   d.parts.health.Faults(),
		Tasks:    d.taskStatus(),

		KernelWrites:    d.parts.kernel.Writes() + d.parts.firewall.Writes(),
		RoutingCommands: d.parts.routing.Commands(),
	}
	status.Degraded = append(api.Unsaid(state.Degraded, status.Faults), d.parts.services.down()...)
	status.Repairs, status.Repaired = d.parts.health.Repairs()
	if r := state.Running; r != nil {
		status.Running = r.Number
		if r.State == revisions.Awaiting {
			status.Awaiting = &api.Awaited{Revision: r.Number, User: r.User, Deadline: r.Deadline.Wall, Left: d.engine.Left(r.Deadline).String()}
		}
	}
	if state.Confirmed != nil {
		status.Confirmed = state.Confirmed.Number
	}
	status.State = status.Judge()
	return status, nil
}

func (d *Daemon) taskStatus() []api.TaskStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]api.TaskStatus, 0, len(d.tasks))
	for _, t := range d.tasks {
		s := api.TaskStatus{Name: t.String(), Error: d.ended[t.String()]}
		select {
		case <-t.Ready():
			s.Ready = true
		default:
		}
		all = append(all, s)
	}
	return all
}

func (d *Daemon) answerRevisions(*http.Request, api.Empty) (api.Revisions, error) {
	running := d.engine.runningNumber()
	all := []api.Revision{}
	for _, r := range d.engine.store.List() {
		all = append(all, api.Revision{Revision: r, Running: r.Number == running})
	}
	return api.Revisions{Revisions: all}, nil
}

func (d *Daemon) answerRevision(r *http.Request, _ api.Empty) (api.Revision, error) {
	running := d.engine.runningNumber()
	number := running
	if which := r.PathValue("number"); which != "running" {
		n, err := strconv.Atoi(which)
		if err != nil {
			return api.Revision{}, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("revision %q: expected a number", which)}
		}
		number = n
	}
	rev, ok := d.engine.store.Get(number)
	switch {
	case number == 0:
		return api.Revision{}, &api.Error{Kind: api.Missing, Message: "no configuration is in use yet"}
	case !ok:
		return api.Revision{}, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("no revision %d; see minne revisions", number)}
	}
	return api.Revision{Revision: rev, Running: rev.Number == running, Text: rev.Config}, nil
}

func (d *Daemon) answerShow(r *http.Request, _ api.Empty) (any, error) {
	name := r.PathValue("view")
	view, ok := views[name]
	if !ok {
		view, ok = d.parts.services.view(name)
	}
	if !ok {
		return nil, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("this daemon (version %s) has no view %q", d.version, name)}
	}
	return view(r.Context(), d, r.URL.Query())
}

// view answers what "minne show" asks: a value that is sent as JSON.
type view func(ctx context.Context, d *Daemon, query url.Values) (any, error)
