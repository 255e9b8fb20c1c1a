// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"minne/internal/lab"
	"minne/internal/lab/device"
)

// Admitted is a rig of two Minne routers that keep state and translate, both with their fast paths: the network inside of one needs a
// login, and its host has logged in.
type Admitted struct{ routers *Translators }

// The places of the routers.
const loginPlace, freePlace = "login", "free"

// loginSection is the login; nobody asks the name server.
const loginSection = `services:
  dns: {interfaces: [%[1]s], upstream: [%[2]s]}
  login: {net: {interfaces: [%[1]s], users: [vouchers]}}
`

// NewAdmitted builds the routers, logs the host in, and establishes flows of it. The caller closes the rig.
func NewAdmitted(ctx context.Context, means device.Means, flows int) (*Admitted, error) {
	t, err := newPair(ctx, means, []string{loginPlace, freePlace}, func(dir, name string) (device.Spec, error) {
		if name == loginPlace {
			return masquerading(dir, true, fmt.Sprintf(loginSection, device.In, device.OutAddresses[0].Addr().Next()))
		}
		return masquerading(dir, true, "")
	})
	if err != nil {
		return nil, err
	}
	t.Fast.Name, t.Slow.Name = "the fast path of a network with a login", "the fast path of an open network"
	if err := admit(ctx, t, flows); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &Admitted{t}, nil
}

func admit(ctx context.Context, t *Translators, flows int) error {
	host := device.InAddresses[0].Addr().Next() // of the tester: a login is by MAC address, so it is no host behind another router
	t.host = func(int) netip.Addr { return host }
	router := t.Fast.device.Router()
	err := lab.Until(ctx, time.Minute, "the router to know the host", func() error {
		_, err := router.Command(ctx, "login", "add", host.String())
		return err
	})
	if err != nil {
		return err
	}
	if err := t.Establish(ctx, flows); err != nil {
		return err
	}
	for _, r := range []*Translator{t.Fast, t.Slow} {
		if err := errors.Join(r.capable(ctx), r.AwaitFast(ctx, r.Established)); err != nil {
			return err
		}
	}
	return nil
}

// Sides are the open network and that of the host that has logged in.
func (a *Admitted) Sides() (open, login Side) {
	return Side{Path: a.routers.Slow.Path, Load: a.routers.Slow.Established}, Side{Path: a.routers.Fast.Path, Load: a.routers.Fast.Established}
}

// Revoke logs the host out.
func (a *Admitted) Revoke(ctx context.Context) error {
	_, err := a.routers.Fast.device.Router().Command(ctx, "login", "remove", device.InAddresses[0].Addr().Next().String())
	return err
}

// Close removes the rig.
func (a *Admitted) Close() error { return a.routers.Close() }
