// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net/http"
	"time"

	"minne/internal/model/api"
	"minne/internal/subsystem/services/dnsmasq"
)

// What a backup takes of the DHCP server, and a restore gives it.
var (
	GetLeases = api.Operation[api.Empty, LeaseFile]{Method: "GET", Path: "/v1/leases", Short: "Read the DHCP server's leases as it stores them", Root: true}
	AddLeases = api.Operation[LeaseFile, LeasesAdded]{Method: "POST", Path: "/v1/leases", Short: "Add leases of another router's DHCP server", Root: true}
)

// LeaseFile is what the DHCP server stores.
type LeaseFile struct {
	Leases string `json:"leases"` // lines in the format of dnsmasq(8)
}

// LeasesAdded says how many were new.
type LeasesAdded struct {
	Added int `json:"added"`
}

func (d *Daemon) answerLeases(*http.Request, api.Empty) (LeaseFile, error) {
	text, err := find[*dnsmasq.Daemon](d.parts.services).LeaseText()
	return LeaseFile{Leases: text}, err
}

func (d *Daemon) answerAddLeases(r *http.Request, q LeaseFile) (LeasesAdded, error) {
	ctx, user := lasting(r)
	n, err := find[*dnsmasq.Daemon](d.parts.services).TakeLeases(ctx, q.Leases, time.Now())
	if err != nil {
		return LeasesAdded{}, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	d.log.Info("DHCP leases added", "leases", n, "by", user)
	return LeasesAdded{Added: n}, nil
}
