// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/http"
	"net/url"

	"minne/internal/model/api"
	"minne/internal/subsystem/firewall"
)

func viewFirewall(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	o, err := d.firewallCounts(ctx)
	if err == nil {
		d.zero.fromFirewall(&o)
	}
	return o, err
}

// SetView answers set list.
type SetView struct {
	Elements []firewall.SetElement `json:"elements"`
}

// viewSet answers with the elements of the set that the query names.
func viewSet(_ context.Context, d *Daemon, query url.Values) (any, error) {
	list, err := d.parts.firewall.Elements(query.Get("name"))
	if err != nil {
		return nil, &api.Error{Kind: api.Missing, Message: err.Error()}
	}
	return SetView{list}, nil
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
