// SPDX-License-Identifier: Apache-2.0

package dhcpclient

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"minne/internal/base/ipnet"
	"minne/internal/model/config"
)

// What is not believed of a server. Whoever answers first on a network is the DHCP server, and the
// longest prefix wins: routes that it tells (RFC 3442, option 121) could take hosts of the router's own
// networks, or what the operator routes elsewhere, whatever their distance. So
//
//   - a route to a part of a network of the router, or of an operator's route, is refused. The default
//     route is not: the operator's wins by its distance;
//   - one that contains such a network is fine: the longer prefix goes on to win;
//   - a gateway is a neighbour: on the leased network, or on one that the server says is on the link.

// Network is one that the operator has given a place, and what it is.
type Network struct {
	Prefix netip.Prefix
	What   string // "the network of lan", "the static route 10.0.0.0/8"
}

// Leasing is what is wanted of the lease of an interface.
type Leasing struct {
	VRF       string    // that the interface is in, "" for the main table; networks of others are none of its own
	Others    []Network // of other interfaces: a lease that overlaps one is refused
	Elsewhere []Network // static routes by other interfaces: a lease inside one is refused
	Own       []Network // networks that the operator has given a place: routes into them are refused
}

// renderLeasing gathers the operator's networks for the lease of one interface.
func renderLeasing(cfg *config.Config, name string, in map[string]string) (l Leasing) {
	l.VRF = in[name]
	for _, other := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		o := cfg.Interfaces[other]
		if in[other] != l.VRF {
			continue
		}
		for _, a := range o.Addresses {
			n := Network{a.Masked(), "the network " + a.Masked().String() + " of another interface, " + other}
			if other == name {
				n.What = "the network " + a.Masked().String() + " of this interface"
			} else {
				l.Others = append(l.Others, n)
			}
			l.Own = append(l.Own, n)
		}
	}
	for _, s := range cfg.Routing.Static {
		if s.VRF != l.VRF || s.Distance > cfg.Interfaces[name].DHCPDistance {
			continue // of another table, or the operator prefers what the server says
		}
		n := Network{s.Prefix.Prefix, "the static route " + s.Prefix.String()}
		l.Own = append(l.Own, n)
		if s.Prefix.Bits() > 0 && !s.Blackhole && leadsElsewhere(cfg, s, name, in) {
			l.Elsewhere = append(l.Elsewhere, n)
		}
		for _, v := range s.Via {
			if v.Address.IsValid() {
				l.Own = append(l.Own, Network{netip.PrefixFrom(v.Address, v.Address.BitLen()), "the next hop " + v.Address.String() + " of " + n.What})
			}
		}
	}
	for _, protocols := range cfg.Protocols() {
		if protocols.BGP == nil || protocols.VRF != l.VRF {
			continue
		}
		for _, p := range protocols.BGP.Announce {
			l.Own = append(l.Own, Network{p.Prefix, "the announced prefix " + p.String()})
		}
	}
	return l
}

// leadsElsewhere says whether all next hops of a route are known to be on other interfaces.
func leadsElsewhere(cfg *config.Config, s config.StaticRoute, name string, in map[string]string) bool {
	return !slices.ContainsFunc(s.Via, func(v config.NextHop) bool {
		on := v.Interface
		for other, o := range cfg.Interfaces {
			if on == "" && in[other] == s.VRF && slices.ContainsFunc(o.Addresses, func(a config.Address) bool { return a.Contains(v.Address) }) {
				on = other
			}
		}
		return on == "" || on == name
	})
}

// refuses says why an address can't be used, "" when it can.
func (l Leasing) refuses(p netip.Prefix) string {
	for _, o := range l.Others {
		if o.Prefix.Overlaps(p) {
			return fmt.Sprintf("%s overlaps %s; give that one another network", p, o.What)
		}
	}
	for _, o := range l.Elsewhere {
		if ipnet.Within(p.Masked(), o.Prefix) {
			return fmt.Sprintf("%s is a part of %s, which leads elsewhere", p, o.What)
		}
	}
	return ""
}

// sift takes what is refused out of a lease's routes. leased are the networks of the other leases.
func (l Leasing) sift(lease *Lease, leased []Network) {
	var kept []Route
	for _, onLink := range []bool{true, false} { // which neighbours there are, first
		for _, r := range lease.Routes {
			if r.Gateway.IsValid() == onLink {
				continue
			}
			if why := l.refusesRoute(lease, r, kept, leased); why != "" {
				lease.Refused = append(lease.Refused, r.String()+": "+why)
				continue
			}
			kept = append(kept, r)
		}
	}
	lease.Routes = kept
}

func (l Leasing) refusesRoute(lease *Lease, r Route, kept []Route, leased []Network) string {
	if r.Prefix.Bits() > 0 {
		for _, n := range slices.Concat(l.Own, leased) {
			if ipnet.Within(r.Prefix, n.Prefix) {
				return "it leads to a part of " + n.What
			}
		}
	}
	if !r.Gateway.IsValid() || lease.Address.IsSingleIP() || lease.Address.Contains(r.Gateway) ||
		slices.ContainsFunc(kept, func(o Route) bool { return !o.Gateway.IsValid() && o.Prefix.Bits() > 0 && o.Prefix.Contains(r.Gateway) }) {
		return ""
	}
	return fmt.Sprintf("the gateway is not on the leased network %s", lease.Address.Masked())
}

// leasedElsewhere are the networks of the leases of other interfaces. The caller holds mu.
func (c *Client) leasedElsewhere(name string) (list []Network) {
	for _, other := range slices.Sorted(maps.Keys(c.leases)) {
		if other != name && c.desired.Interfaces[other].VRF == c.desired.Interfaces[name].VRF {
			p := c.leases[other].Address.Masked()
			list = append(list, Network{p, "the network " + p.String() + " leased on " + other})
		}
	}
	return list
}

// Pauses before a server is asked for something else than what was refused.
const (
	firstAsk = 10 * time.Second
	lastAsk  = 5 * time.Minute
)

// asking is when to ask again.
type asking struct {
	at    time.Duration // since boot
	pause time.Duration
}

// wait plans the next question about an interface whose lease is refused. The caller holds mu.
func (c *Client) wait(name string) {
	if c.again[name] == nil {
		c.again[name] = &asking{at: c.clock() + firstAsk, pause: firstAsk}
		c.Wake()
	}
}

// askAgain begins anew with the clients whose lease was refused long enough ago.
func (c *Client) askAgain(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, a := range c.again {
		if c.clock() < a.at {
			continue
		}
		a.pause = min(2*a.pause, lastAsk)
		a.at = c.clock() + a.pause
		c.log.Info("requesting a new DHCP lease", "interface", name, "refused", c.refused[name])
		if err := c.Fleet.Restart(ctx, name); err != nil && ctx.Err() == nil {
			c.log.Error("DHCP client", "interface", name, "error", err)
		}
	}
}
