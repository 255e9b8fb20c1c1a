// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/http"

	"minne/internal/base/health"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
)

// Alarms is show alarms: the faults in the book of health, with what an operator needs to handle them.
var Alarms = View[Nothing, show.AlarmsView]{
	Text: Text{Path: "alarms", Short: "Show what is wrong now: severity, since when, what to do",
		Long: `Show what is wrong now, the oldest first: how bad it is, since when, who knows of it, and
which command says more. An alarm is listed once however often it is noticed, and goes by
itself. "minne alarm ack ID" says that you know of it.`, Aliases: []string{"alarm"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (show.AlarmsView, error) {
		d.checkup.examine(ctx)
		return show.AlarmsView{Alarms: d.parts.health.Faults()}, nil
	},
	Print: only[Nothing](show.Alarms),
}

// AckAlarm marks alarms as known to somebody.
var AckAlarm = api.Operation[AckQuestion, Acked]{Method: "POST", Path: "/v1/alarms/ack", Short: "Acknowledge an alarm, or all", Root: true}

// AckQuestion names an alarm by its id; "all" for all of them.
type AckQuestion struct {
	ID string `json:"id"`
}

// Acked is which alarms nobody knew of before.
type Acked struct {
	Alarms []health.Fault `json:"alarms"`
}

func (d *Daemon) answerAckAlarm(r *http.Request, q AckQuestion) (Acked, error) {
	_, user := lasting(r)
	list, found := d.parts.health.Acknowledge(q.ID, user)
	if !found && q.ID != "all" {
		return Acked{}, &api.Error{Kind: api.Missing, Message: fmt.Sprintf("no alarm has the id %q; see minne show alarms", q.ID)}
	}
	for _, f := range list {
		d.log.Info("alarm acknowledged", "id", f.ID, "part", f.Key, "by", user)
	}
	return Acked{Alarms: append([]health.Fault{}, list...)}, nil
}
