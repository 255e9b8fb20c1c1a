// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"io"
	"net/http"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/firewall"
)

// FirewallQuestion asks for the rules.
type FirewallQuestion struct {
	All bool `json:"-" flag:"all" doc:"also services of the router that have counted nothing"`
}

// Firewall is show firewall.
var Firewall = View[FirewallQuestion, firewall.Observed]{
	Text: Text{Path: "firewall", Short: "Show the firewall's rules with their counters"},
	Read: func(ctx context.Context, d *Daemon, _ FirewallQuestion) (firewall.Observed, error) {
		o, err := d.firewallCounts(ctx)
		if err == nil {
			d.zero.fromFirewall(&o)
		}
		return o, err
	},
	Print: func(w io.Writer, q FirewallQuestion, o firewall.Observed) error { return show.Firewall(w, o, q.All) },
}

// What minne set does.
var (
	ListSet   = api.Operation[SetQuestion, show.SetView]{Method: "GET", Path: "/v1/set/{name}", Short: "Show what is in a set"}
	ChangeSet = api.Operation[firewall.SetChange, firewall.SetChanged]{Method: "POST", Path: "/v1/set", Short: "Add elements to a set or delete them", Root: true, Runs: true}
)

// SetQuestion asks for the elements of a set.
type SetQuestion struct {
	Name string `json:"name" doc:"'name' of the set"`
}

func (d *Daemon) answerListSet(_ *http.Request, q SetQuestion) (show.SetView, error) {
	list, err := d.parts.firewall.Elements(q.Name)
	if err != nil {
		return show.SetView{}, &api.Error{Kind: api.Missing, Message: err.Error()}
	}
	return show.SetView{Elements: list}, nil
}

// answerSet changes the live elements of a set. It waits for a commit that is at
// work, so that no element is lost between two tables.
func (d *Daemon) answerSet(r *http.Request, q firewall.SetChange) (firewall.SetChanged, error) {
	done, err := d.parts.firewall.ChangeSet(q)
	if err != nil {
		return done, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	d.log.Debug("set changed", "set", q.Set, "added", done.Added, "deleted", done.Deleted, "user", api.PeerOf(r.Context()).User)
	return done, nil
}
