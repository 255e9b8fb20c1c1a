// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// hangingUp is a kernel whose PPPoE sessions end when the port below gets another MTU, as Linux has it.
type hangingUp struct{ *pretended }

func (h hangingUp) setMTU(index, mtu int) error {
	h.devices = slices.DeleteFunc(h.devices, func(l link) bool { return l.Kind == "ppp" })
	return h.pretended.setMTU(index, mtu)
}

func (h hangingUp) replaceRoute(r rib.Route) error {
	for _, hop := range r.Hops {
		if h.at(hop.Interface) == nil {
			return unix.ENODEV
		}
	}
	return h.pretended.replaceRoute(r)
}

// A session that ends in the middle of a commit, maybe by it, does not make it fail.
func TestASessionEndsInACommit(t *testing.T) {
	p := machine()
	p.devices = append(p.devices, link{Index: 9, Name: "isp", Kind: "ppp", MTU: 1492, Up: true})
	k := New(slog.New(slog.DiscardHandler), Options{OwnHost: true})
	k.system = hangingUp{p}
	on := config.OnOff(true)
	d := render(t, named(map[string]*config.Interface{
		"eth0": {MTU: 1508}, "isp": {PPPoE: &config.PPPoE{Parent: "eth0", DefaultRoute: &on}, DHCPDistance: 210},
	}))
	if err := k.Apply(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	if p.at(9) != nil || p.at(2).MTU != 1508 {
		t.Errorf("%+v", p.devices)
	}
	// It is dialed again: nobody's doing, and nothing that was repaired, however often.
	for index := range 10 {
		p.devices, p.routes = slices.DeleteFunc(p.devices, func(l link) bool { return l.Kind == "ppp" }), nil
		p.devices = append(p.devices, link{Index: 10 + index, Name: "isp", Kind: "ppp", MTU: 1492, Up: true})
		rep, err := k.Reassert(context.Background())
		if err != nil || len(rep.Repaired)+len(rep.Faults) != 0 || !slices.Equal(rep.Returned, []string{"isp"}) {
			t.Fatalf("%+v, %v", rep, err)
		}
		if len(p.routes) != 1 || p.routes[0].Hops[0].Interface != 10+index {
			t.Fatalf("%+v", p.routes)
		}
		p.routes = nil // the link was down for a moment
		if rep, err = k.Reassert(context.Background()); err != nil || len(rep.Repaired)+len(rep.Faults) != 0 || len(p.routes) != 1 {
			t.Fatalf("%+v, %v, %+v", rep, err, p.routes)
		}
		p.at(10 + index).Up = false // as pppd leaves it at the end of a session
		if rep, err = k.Reassert(context.Background()); err != nil || len(rep.Repaired)+len(rep.Faults) != 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
	}
}
