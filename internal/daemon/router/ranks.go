// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/netip"

	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
)

// rankAll bounds the routes of a protocol of which zebra is asked for all at once: it prints about
// 600 bytes for each. Of more, as a full table has, each is asked for alone, up to rankEach of them.
const (
	rankAll  = 5000
	rankEach = 50
)

// rank fills in the distance and metric of routes of routing protocols in a table, the main one for "". all is every route that
// the kernel was asked for, shown those that are shown. What zebra can't be asked for stays unknown.
func (p parts) rank(ctx context.Context, vrf string, six bool, all, shown []kernel.RouteEntry) error {
	unknown := func(list []kernel.RouteEntry) map[string]int {
		n := map[string]int{}
		for _, e := range list {
			if e.Distance == nil {
				n[e.Protocol]++
			}
		}
		return n
	}
	counts := unknown(all)
	for protocol, n := range unknown(shown) {
		ranks := map[netip.Prefix]routing.Rank{}
		var err error
		switch {
		case counts[protocol] <= rankAll:
			ranks, err = p.routing.Ranks(ctx, vrf, six, zebraWord(protocol, six))
		case n <= rankEach:
			ranks, err = p.rankEach(ctx, vrf, protocol, shown)
		}
		if err != nil {
			return err
		}
		for i := range shown {
			e := &shown[i]
			if r, ok := ranks[e.Prefix]; ok && e.Protocol == protocol && e.Distance == nil {
				e.Distance, e.Metric = &r.Distance, &r.Metric
			}
		}
	}
	return nil
}

// rankEach asks for each route alone.
func (p parts) rankEach(ctx context.Context, vrf, protocol string, shown []kernel.RouteEntry) (map[netip.Prefix]routing.Rank, error) {
	ranks := map[netip.Prefix]routing.Rank{}
	for _, e := range shown {
		if e.Distance != nil || e.Protocol != protocol {
			continue
		}
		offered, err := p.routing.Route(ctx, vrf, e.Prefix, false)
		if err != nil {
			return nil, err
		}
		for _, r := range offered {
			if r.Selected && r.Prefix == e.Prefix.String() {
				ranks[e.Prefix] = routing.Rank{Distance: r.Distance, Metric: r.Metric}
			}
		}
	}
	return ranks, nil
}

// zebraWord is how FRR calls a protocol of the kernel's routes.
func zebraWord(protocol string, six bool) string {
	switch {
	case six && protocol == "ospf":
		return "ospf6"
	case six && protocol == "rip":
		return "ripng"
	}
	return protocol
}
