// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net/http"

	"minne/internal/model/api"
)

// What operators clear: sessions.
var (
	ClearBGP  = api.Operation[SessionsToClear, Cleared]{Method: "POST", Path: "/v1/clear/bgp", Short: "Reset BGP sessions", Root: true, Runs: true}
	ClearOSPF = api.Operation[ProcessToClear, Cleared]{Method: "POST", Path: "/v1/clear/ospf", Short: "Restart OSPF", Root: true, Runs: true}
)

// SessionsToClear asks to begin BGP sessions anew.
type SessionsToClear struct {
	VRF  string `json:"vrf,omitempty"` // "" for the main table
	Peer string `json:"peer"`          // a peer's name or address, or "all"
	Soft bool   `json:"soft,omitempty"`
}

// ProcessToClear asks to begin a routing process anew.
type ProcessToClear struct {
	VRF string `json:"vrf,omitempty"` // "" for the main table
}

// Cleared says what was begun anew.
type Cleared struct {
	Cleared []string `json:"cleared"`
}

func (d *Daemon) answerClearBGP(r *http.Request, q SessionsToClear) (Cleared, error) {
	ctx, user := lasting(r)
	cleared, err := inTable(q.VRF, func(vrf string) ([]string, error) { return d.parts.routing.ClearBGP(ctx, vrf, q.Peer, q.Soft) })
	if err == nil {
		d.parts.log.Info("BGP sessions cleared", "by", user, "peers", cleared, "soft", q.Soft)
	}
	return Cleared{Cleared: cleared}, err
}

func (d *Daemon) answerClearOSPF(r *http.Request, q ProcessToClear) (Cleared, error) {
	ctx, user := lasting(r)
	cleared, err := inTable(q.VRF, func(vrf string) ([]string, error) { return d.parts.routing.ClearOSPF(ctx, vrf) })
	if err == nil {
		d.parts.log.Info("OSPF cleared", "by", user, "versions", cleared)
	}
	return Cleared{Cleared: cleared}, err
}
