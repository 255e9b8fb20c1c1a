// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"

	"minne/internal/base/ipnet"
	hosts "minne/internal/lab/destinations"
	"minne/internal/lab/device"
	"minne/internal/lab/traffic"
)

// Tables is a rig of two Minne routers, one with a single route per family and one
// with a table, each with an entry to its kernel, so that all four ways to
// forward and both sizes of table alternate.
type Tables struct {
	*Rig
	One, OneSlow   *Path    // the router with a single route: its fast path, its kernel
	Full, FullSlow *Path    // the one with the table
	Single         [2]*Load // to one destination that the table covers; IPv4, IPv6
	Many           [2]*Load // to as many as a lap holds
}

// The one route of each family in the small table: all destinations are behind it.
var oneRoute = ipnet.Must("0.0.0.0/0", "::/0")

// The places of the two routers.
const onePlace, fullPlace = "one", "full"

// NewTables builds the routers and waits until their fast paths forward to every destination. The caller closes it.
func NewTables(ctx context.Context, means device.Means, table []netip.Prefix) (*Tables, error) {
	minne := device.Spec{Kind: device.Minne}
	r, err := NewRig(ctx, means,
		Place{Name: onePlace, Device: minne, Slow: true, Routes: oneRoute},
		Place{Name: fullPlace, Device: minne, Slow: true, Routes: table})
	if err != nil {
		return nil, err
	}
	t := &Tables{Rig: r, One: r.Path(onePlace), OneSlow: r.SlowPath(onePlace), Full: r.Path(fullPlace), FullSlow: r.SlowPath(fullPlace)}
	for i, ipv6 := range []bool{false, true} {
		if t.Single[i], t.Many[i], err = r.tableLoads(ctx, table, ipv6); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return t, nil
}

// tableLoads prepares packets of a family to one destination that the table covers, and to as many as
// a lap holds, and waits until the fast path in every place forwards them all.
//
// For IPv4 the destinations are uniformly random among those that have a route; for
// IPv6, where those would all be in the few shortest prefixes, a random host of every prefix.
func (r *Rig) tableLoads(ctx context.Context, table []netip.Prefix, ipv6 bool) (single, many *Load, err error) {
	draw, err := hosts.Covered(table)
	if ipv6 {
		draw, err = hosts.EachPrefix(table, true)
	}
	if err != nil {
		return nil, nil, err
	}
	to := draw.Outside(benchmarking).Take(traffic.MaxDestinations, rand.New(rand.NewPCG(1, 4)))
	if single, err = r.LoadTo(to[:1]); err != nil {
		return nil, nil, err
	}
	if many, err = r.LoadTo(to); err != nil {
		return nil, nil, err
	}
	for place := range r.devices {
		if err := r.Path(place).AwaitFast(ctx, many); err != nil {
			return nil, nil, err
		}
	}
	return single, many, nil
}
