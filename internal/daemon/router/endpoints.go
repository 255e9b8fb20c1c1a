// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"

	"minne/internal/model/api"
	"minne/internal/model/revisions"
)

// endpoints lets the server answer all that the daemon is asked.
func (d *Daemon) endpoints(s *api.Server) {
	api.Serve(s, api.GetStatus, d.answerStatus)
	api.Serve(s, api.GetRevisions, d.answerRevisions)
	api.Serve(s, api.GetRevision, d.answerRevision)
	api.Serve(s, api.Plan, d.answerPlan)
	api.Serve(s, api.Apply, d.answerApply)
	api.Serve(s, api.Restore, d.answerRestore)
	api.Serve(s, api.Confirm, d.answerConfirm)
	api.Serve(s, api.Rollback, d.answerRollback)
	api.Serve(s, api.Stop, d.answerStop)
	api.Serve(s, Source, d.answerSource)
	api.Serve(s, Explain, d.answerExplain)
	api.Serve(s, ListSet, d.answerListSet)
	api.Serve(s, ChangeSet, d.answerSet)
	api.Serve(s, GetLeases, d.answerLeases)
	api.Serve(s, AddLeases, d.answerAddLeases)
	api.Serve(s, ClearBGP, d.answerClearBGP)
	api.Serve(s, SwitchUplink, d.answerUplink)
	api.Serve(s, ClearOSPF, d.answerClearOSPF)
	api.Serve(s, ClearNeighbors, d.answerClearNeighbors)
	api.Serve(s, ClearConnections, d.answerClearConnections)
	api.Serve(s, ClearCounters, d.answerClearCounters)
	api.Serve(s, ChangeLogin, d.answerLogin)
	api.Serve(s, AddVouchers, d.answerAddVouchers)
	api.Serve(s, ChooseVouchers, d.answerVouchers)
	api.Serve(s, AckAlarm, d.answerAckAlarm)
	api.ServeOn(s, FollowLog, d.answerLogFollow)
	api.ServeOn(s, Capture, d.answerCapture)
	api.Serve(s, EndCapture, d.answerCaptureEnd)
	for _, v := range Views {
		v.serve(s, d)
	}
}

// Document describes all of that for programs, as OpenAPI.
func Document() ([]byte, error) {
	s := api.NewServer(slog.New(slog.DiscardHandler))
	new(Daemon).endpoints(s)
	return s.Document()
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

func (d *Daemon) answerRestore(r *http.Request, q api.RestoreQuestion) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Restore(ctx, user, q)
}

func (d *Daemon) answerConfirm(r *http.Request, _ api.Empty) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Confirm(ctx, user)
}

func (d *Daemon) answerRollback(r *http.Request, q api.RollbackQuestion) (api.Result, error) {
	ctx, user := lasting(r)
	return d.engine.Rollback(ctx, user, q.Revision)
}

func (d *Daemon) answerPlan(r *http.Request, q api.Commit) (api.Result, error) {
	return d.engine.Plan(r.Context(), q)
}

func (d *Daemon) answerStop(r *http.Request, q api.StopQuestion) (api.Empty, error) {
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
	status.State = status.Overall()
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

func (d *Daemon) answerRevision(_ *http.Request, q api.RevisionQuestion) (api.Revision, error) {
	if q.Number == "running" {
		return d.revision(d.engine.runningNumber())
	}
	number, err := strconv.Atoi(q.Number)
	if err != nil {
		return api.Revision{}, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("revision %q: expected a number", q.Number)}
	}
	return d.revision(number)
}

// revision is a stored configuration.
func (d *Daemon) revision(number int) (api.Revision, error) {
	rev, ok := d.engine.store.Get(number)
	switch {
	case number == 0:
		return api.Revision{}, &api.Error{Kind: api.Missing, Message: "no configuration is in force yet"}
	case !ok:
		return api.Revision{}, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("no revision %d; see minne revisions", number)}
	}
	return api.Revision{Revision: rev, Running: rev.Number == d.engine.runningNumber(), Text: rev.Config}, nil
}
