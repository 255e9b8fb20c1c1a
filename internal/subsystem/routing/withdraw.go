// SPDX-License-Identifier: Apache-2.0

// A daemon that ends for good leaves when its routes are gone.
//
// zebra forgets what it has not worked off when a client hangs up. A daemon that has just withdrawn its routes and exits
// loses the withdrawals on a busy machine, and zebra, which was asked to hold its routes over a crash, then keeps
// them until the time of a graceful restart is over.
package routing

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// zebraTypes are how zebra calls the routes of a daemon.
var zebraTypes = map[string][]string{bgpd: {"bgp", "ebgp", "ibgp"}, ospfd: {"ospf"}, ospf6d: {"ospf6"}, babeld: {"babel"}}

const (
	withdrawPoll  = 20 * time.Millisecond
	withdrawStill = 3 * time.Second // without any progress: what is left is not this daemon's to withdraw
)

// awaitWithdrawn waits until zebra has no routes of a daemon that was told to forget its routers, in any of these tables.
func (r *Routing) awaitWithdrawn(ctx context.Context, daemon string, vrfs []string) error {
	types := zebraTypes[daemon]
	if types == nil {
		return nil
	}
	least, at := -1, time.Now()
	for {
		n, err := r.routesOf(ctx, types, vrfs)
		if err != nil || n == 0 {
			return err
		}
		if least < 0 || n < least {
			least, at = n, time.Now()
		}
		if time.Since(at) > withdrawStill {
			return fmt.Errorf("zebra still has %d", n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(withdrawPoll):
		}
	}
}

// routesOf counts zebra's routes of some types, of both families; 0 without zebra.
func (r *Routing) routesOf(ctx context.Context, types, vrfs []string) (n int, err error) {
	var commands []string
	for _, vrf := range vrfs {
		commands = append(commands, "show ip route"+behind(vrf)+" summary json", "show ipv6 route"+behind(vrf)+" summary json")
	}
	for _, command := range commands {
		var summary struct {
			Routes []struct {
				Type string `json:"type"`
				RIB  int    `json:"rib"`
			} `json:"routes"`
		}
		if err := r.show(ctx, zebra, command, &summary); err != nil {
			return 0, err
		}
		for _, t := range summary.Routes {
			if slices.Contains(types, t.Type) {
				n += t.RIB
			}
		}
	}
	return n, nil
}
