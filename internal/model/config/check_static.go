// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
)

// announceDistance is the distance of the blackhole routes that hold announced prefixes.
const announceDistance = 254

// maxNextHops bounds the next hops of one route.
const maxNextHops = 64

// routeKey tells static routes apart: two of the same prefix and distance are the same route.
type routeKey struct {
	vrf      string
	prefix   netip.Prefix
	distance int
}

func (c *checker) staticRoutes() {
	seen := map[routeKey]int{}
	for i, r := range c.cfg.Routing.Static {
		path := indexPath("routing.static", i)
		c.description(path+".description", r.Description)
		c.staticRoute(path, r)
		key := routeKey{r.VRF, r.Prefix.Prefix, r.Distance}
		if first, again := seen[key]; again {
			c.refuse(path+".prefix", fmt.Sprintf("routing.static[%[3]d] already has a route to %[1]s with distance %[2]d", r.Prefix, key.distance, first),
				"one route with all next hops in via, or another distance", "")
			continue
		}
		seen[key] = i
	}
	c.tunnelRoutes(seen)
	for _, in := range c.cfg.Protocols() {
		if in.BGP == nil {
			continue
		}
		for i, p := range in.BGP.Announce {
			if _, taken := seen[routeKey{in.VRF, p.Prefix, announceDistance}]; taken {
				c.refuse(indexPath(in.Path+".bgp.announce", i), fmt.Sprintf("a static route to %s has distance %d, which is reserved for the blackhole route of the announced prefix", p, announceDistance),
					"another distance for the static route", "")
			}
		}
	}
}

func (c *checker) staticRoute(path string, r StaticRoute) {
	switch {
	case r.Blackhole && len(r.Via) > 0:
		c.refuse(path+".blackhole", "the route has next hops and is a blackhole", "either via or blackhole", "")
		return
	case !r.Blackhole && len(r.Via) == 0:
		c.refuse(path, fmt.Sprintf("the route to %s has no next hop", r.Prefix), "via with a next hop, or blackhole: true", "")
		return
	case len(r.Via) > maxNextHops:
		c.refuse(path+".via", fmt.Sprintf("the route has %d next hops", len(r.Via)), fmt.Sprintf("at most %d", maxNextHops), "")
	case !r.Blackhole && (r.Prefix.Addr().IsMulticast() || r.Prefix.Addr().IsLinkLocalUnicast() && r.Prefix.Addr().Is6() || r.Prefix.Addr().IsLoopback()):
		c.refuse(path+".prefix", fmt.Sprintf("%s cannot have a next hop", r.Prefix), "a unicast prefix that is not link-local", "")
	}
	once(c, path+".via", r.Via, NextHop.String)
	if k := c.cfg.Kind(r.VRF); r.VRF != "" && c.cfg.Interfaces[r.VRF] != nil && k.Name != "vrf" {
		c.refuse(path+".vrf", r.VRF+" is no VRF", "an interface with vrf: {table: N}", "")
		return
	}
	for i, hop := range r.Via {
		c.nextHop(indexPath(path+".via", i), r.Prefix.Prefix, hop, r.VRF)
		c.sameVRF(indexPath(path+".via", i), r.VRF, hop)
	}
}

// sameVRF refuses a next hop that lies in another routing table than its route.
func (c *checker) sameVRF(path, vrf string, hop NextHop) {
	name := hop.Interface
	if name == "" {
		if _, here := c.connectedIn(vrf, hop.Address); here {
			return
		}
		n, found := c.connected(hop.Address)
		if !found {
			return
		}
		name = n.iface
	}
	if in := c.vrfOf(name); in != vrf && c.cfg.Interfaces[name] != nil {
		where := map[bool]string{true: "VRF " + in, false: "the main table"}[in != ""]
		c.refuse(path, fmt.Sprintf("the next hop lies behind %s, which is in %s", name, where), "a next hop in the route's own table", "")
	}
}

// vrfOf is the VRF that an interface is in, "" for none.
func (c *checker) vrfOf(name string) string {
	if m := c.masters[name]; m.Kind.Name == "vrf" {
		return m.Name
	}
	return ""
}

// tableOf is the VRF in whose table the addresses of an interface are, "" for the main table.
func (c *checker) tableOf(name string) string {
	if c.cfg.Kind(name).Name == "vrf" {
		return name
	}
	return c.vrfOf(name)
}

// nextHop refuses a next hop that the kernel would refuse, or that nobody answers at, in the table of a VRF.
func (c *checker) nextHop(path string, to netip.Prefix, hop NextHop, vrf string) {
	a := hop.Address
	if hop.Interface != "" {
		if c.cfg.Interfaces[hop.Interface] == nil {
			return
		}
		if c.cfg.Kind(hop.Interface).Alone {
			c.refuse(path, hop.Interface+" cannot be the interface of a next hop", "another interface, or blackhole: true", "")
			return
		}
	}
	if !a.IsValid() {
		return
	}
	if reason := notUnicast(a); reason != "" {
		c.refuse(path, fmt.Sprintf("next hop %s %s", a, reason), "the address of a neighbouring router", "")
		return
	}
	if a.Is4() != to.Addr().Is4() {
		c.refuse(path, fmt.Sprintf("next hop %s and prefix %s are of different families", a, to), "both IPv4 or both IPv6", "")
		return
	}
	if owner, own := c.owners[place{vrf, a}]; own && !(a.IsLinkLocalUnicast() && a.Is6() && owner != hop.Interface) {
		c.refuse(path, fmt.Sprintf("next hop %s is this router itself (%s)", a, owner), "the address of a neighbouring router", "")
		return
	}
	if a.IsLinkLocalUnicast() && a.Is6() {
		if hop.Interface == "" {
			c.refuse(path, fmt.Sprintf("link-local next hop %s exists on every interface", a), fmt.Sprintf("%s%%INTERFACE", a), "")
		}
		return
	}
	n, found := c.connectedIn(vrf, a)
	if !found {
		n, found = c.connected(a) // refused for that, by sameVRF
	}
	switch {
	case found && edge(netip.PrefixFrom(a, n.address.Bits())) != "":
		c.refuse(path, fmt.Sprintf("next hop %s is %s of %s", a, edge(netip.PrefixFrom(a, n.address.Bits())), n.address.Masked()), "the address of a neighbouring router", "")
	case !found && hop.Interface == "":
		c.refuse(path, fmt.Sprintf("next hop %s is on no connected network", a), "an address in "+c.networkList(a.Is4())+fmt.Sprintf("; or %s%%INTERFACE", a), "")
	}
}

// networkList names the connected networks of a family for a message.
func (c *checker) networkList(four bool) string {
	const most = 6
	text, n := "", 0
	for _, net := range c.networks {
		if net.address.Addr().Is4() != four || net.address.IsSingleIP() || net.address.Addr().IsLinkLocalUnicast() {
			continue
		}
		if n++; n > most {
			return text + ", …"
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s (%s)", net.address.Masked(), net.iface)
	}
	if text == "" {
		return "a network of one of the interfaces (none has addresses of this family)"
	}
	return text
}
