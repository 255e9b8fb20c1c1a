// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"net/netip"
)

// Rank is what routes to one prefix are chosen by: the administrative distance of their protocol
// first, then its metric.
type Rank struct{ Distance, Metric uint32 }

// Ranks are those of the routes of a protocol in a table that zebra has chosen, by prefix: in the kernel they all
// have the same metric. protocol is FRR's word, as "ospf6". Without zebra there are none.
func (r *Routing) Ranks(ctx context.Context, vrf string, six bool, protocol string) (map[netip.Prefix]Rank, error) {
	family := "ip"
	if six {
		family = "ipv6"
	}
	var raw map[string][]struct {
		Selected bool   `json:"selected"`
		Distance uint32 `json:"distance"`
		Metric   uint32 `json:"metric"`
	}
	if err := r.show(ctx, zebra, "show "+family+" route"+behind(vrf)+" "+protocol+" json", &raw); err != nil {
		return nil, err
	}
	ranks := map[netip.Prefix]Rank{}
	for text, routes := range raw {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			continue // FRR prints source-specific routes so, which no protocol here makes
		}
		for _, route := range routes {
			if route.Selected {
				ranks[prefix] = Rank{route.Distance, route.Metric}
			}
		}
	}
	return ranks, nil
}
