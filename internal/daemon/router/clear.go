// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net/http"

	"minne/internal/model/api"
)

func (d *Daemon) answerClearBGP(r *http.Request, q api.ClearBGP) (api.Cleared, error) {
	ctx, user := lasting(r)
	cleared, err := d.parts.routing.ClearBGP(ctx, q.Peer, q.Soft)
	if err == nil {
		d.parts.log.Info("BGP sessions cleared", "by", user, "peers", cleared, "soft", q.Soft)
	}
	return api.Cleared{Cleared: cleared}, err
}

func (d *Daemon) answerClearOSPF(r *http.Request, _ api.Empty) (api.Cleared, error) {
	ctx, user := lasting(r)
	cleared, err := d.parts.routing.ClearOSPF(ctx)
	if err == nil {
		d.parts.log.Info("OSPF cleared", "by", user, "versions", cleared)
	}
	return api.Cleared{Cleared: cleared}, err
}
