// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
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
	Leases string            `json:"leases"`         // lines in the format of dnsmasq(8)
	VRFs   map[string]string `json:"vrfs,omitempty"` // the same of the servers in VRFs, by VRF
}

// LeasesAdded says how many were new.
type LeasesAdded struct {
	Added int `json:"added"`
}

func (d *Daemon) answerLeases(*http.Request, api.Empty) (LeaseFile, error) {
	texts, err := find[*dnsmasq.Daemon](d.parts.services).LeaseTexts()
	file := LeaseFile{Leases: texts[""], VRFs: texts}
	delete(texts, "")
	return file, err
}

func (d *Daemon) answerAddLeases(r *http.Request, q LeaseFile) (LeasesAdded, error) {
	ctx, user := lasting(r)
	added := 0
	take := func(vrf, text string) error {
		n, err := find[*dnsmasq.Daemon](d.parts.services).TakeLeases(ctx, vrf, text, time.Now())
		added += n
		return err
	}
	failed := []error{take("", q.Leases)}
	for vrf, text := range q.VRFs {
		failed = append(failed, take(vrf, text))
	}
	d.log.Info("DHCP leases added", "leases", added, "by", user)
	if err := errors.Join(failed...); err != nil {
		return LeasesAdded{}, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	return LeasesAdded{Added: added}, nil
}
