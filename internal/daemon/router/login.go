// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/http"
	"net/netip"

	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/flows"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services/login"
)

// What minne login does. What it shows are views of the service.
var (
	ChangeLogin    = api.Operation[login.Order, login.Done]{Method: "POST", Path: "/v1/login", Short: "Log hosts in or out, block or unblock them", Root: true}
	AddVouchers    = api.Operation[login.VouchersWanted, login.Vouchers]{Method: "POST", Path: "/v1/login/vouchers/add", Short: "Make vouchers", Root: true}
	ChooseVouchers = api.Operation[login.VouchersChosen, login.Vouchers]{Method: "POST", Path: "/v1/login/vouchers", Short: "Show vouchers with their codes, activate, deactivate or remove them", Root: true}
)

func (d *Daemon) answerLogin(r *http.Request, q login.Order) (login.Done, error) {
	done, err := find[*login.Login](d.parts.services).Carry(q)
	if err != nil {
		return done, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	d.log.Info("login changed", "what", q.Do, "hosts", done.Done, "user", api.PeerOf(r.Context()).User)
	return done, nil
}

func (d *Daemon) answerAddVouchers(_ *http.Request, q login.VouchersWanted) (login.Vouchers, error) {
	v, err := find[*login.Login](d.parts.services).AddVouchers(q)
	if err != nil {
		return v, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	return v, nil
}

func (d *Daemon) answerVouchers(_ *http.Request, q login.VouchersChosen) (login.Vouchers, error) {
	v, err := find[*login.Login](d.parts.services).ChooseVouchers(q)
	if err != nil {
		return v, &api.Error{Kind: api.Failed, Message: err.Error()}
	}
	return v, nil
}

// admission is the firewall as the login service sees it.
type admission struct{ f *firewall.Firewall }

func (a admission) Feed(set string, all map[netip.Addr]config.MAC) { a.f.Feed(set, all) }

func (a admission) Refeed(set string, all map[netip.Addr]config.MAC) error {
	return a.f.Refeed(set, all)
}

func (a admission) ChangeFed(set string, put map[netip.Addr]config.MAC, del []netip.Addr) error {
	return a.f.ChangeFed(set, put, del)
}

// planning is the plans of subscribers as the login service sees them.
type planning struct{ k *kernel.Kernel }

func (p planning) Join(ctx context.Context, users []login.Subscriber) (int, error) {
	list := make([]kernel.Joined, 0, len(users))
	for _, u := range users {
		list = append(list, kernel.Joined{Name: u.Name, Plan: "login " + u.Login, Down: u.Rate.Down, Up: u.Rate.Up, MACs: u.MACs, Interface: u.Interface})
	}
	return p.k.Join(ctx, list)
}

// metering is the connections' meter as the login service sees it.
type metering struct{ m *flows.Meter }

func (m metering) Watch(a netip.Addr)  { m.m.Watch(a) }
func (m metering) Forget(a netip.Addr) { m.m.Forget(a) }

func (m metering) Read(ctx context.Context) (map[netip.Addr]login.Traffic, error) {
	sums, err := m.m.Read(ctx)
	all := make(map[netip.Addr]login.Traffic, len(sums))
	for a, t := range sums {
		all[a] = login.Traffic{Sent: t.Sent, Received: t.Received}
	}
	return all, err
}
