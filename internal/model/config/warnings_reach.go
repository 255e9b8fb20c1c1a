// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// This file warns of routers that let too much through or too little: without a firewall towards the
// Internet, private networks that nobody answers, forwards to hosts that are nowhere.

// oddReach warns of what can be reached and should not, and the other way round.
func (c *checker) oddReach() {
	wans := c.wans()
	if c.hasZones() {
		c.oddPrivate(wans)
	} else {
		c.oddOpen(wans)
	}
	for i, n := range c.cfg.NAT {
		path := indexPath("nat", i)
		if f := n.Forward; f != nil && !c.known(netip.PrefixFrom(f.Target, f.Target.BitLen())) {
			c.refuse(path+".forward.target", fmt.Sprintf("%s lies in no network of this router and behind no route but the default one", f.Target),
				"the address of a host inside", "")
		}
		if o := n.OneToOne; o != nil && !c.known(o.Inside.Prefix) {
			c.refuse(path+".one-to-one.inside", fmt.Sprintf("%s lies in no network of this router and behind no route but the default one", o.Inside),
				"a network inside", "")
		}
	}
}

// wan is the way to the Internet: an interface that a default route leaves by.
type wan struct {
	name string
	path string       // what makes it one
	four bool         // of IPv4; else of IPv6
	own  []netip.Addr // the router's addresses there; none known with DHCP
}

// wans returns the ways to the Internet that the file itself tells: DHCP, static default routes.
func (c *checker) wans() (list []wan) {
	for _, name := range sortedKeys(c.cfg.Interfaces) {
		if i := c.cfg.Interfaces[name]; i.DHCP.On() && !i.Disabled {
			list = append(list, wan{name: name, path: joinPath("interfaces", name) + ".dhcp", four: true})
		} else if i.DHCPv6 != nil && !i.Disabled && i.PPPoE == nil {
			list = append(list, wan{name: name, path: joinPath("interfaces", name) + ".dhcpv6"})
		} else if i.PPPoE != nil && i.PPPoE.DefaultRoute.On() && !i.Disabled {
			list = append(list, wan{name: name, path: joinPath("interfaces", name) + ".pppoe", four: true})
		}
	}
	for i, r := range c.cfg.Routing.Static {
		if r.Prefix.Bits() != 0 || r.Blackhole {
			continue
		}
		for _, hop := range r.Via {
			w := wan{name: hop.Interface, path: indexPath("routing.static", i), four: r.Prefix.Addr().Is4()}
			if w.name == "" {
				n, _ := c.connectedIn(r.VRF, hop.Address)
				w.name = n.iface
			}
			if port := c.cfg.Interfaces[w.name]; port != nil && !port.Disabled {
				for _, a := range port.Addresses {
					w.own = append(w.own, a.Addr())
				}
				list = append(list, w)
			}
		}
	}
	return list
}

// delegates says whether hosts behind this router get addresses of a provider's prefix.
func (c *checker) delegates() bool {
	for _, i := range c.cfg.Interfaces {
		if i.Delegated != nil && !i.Disabled {
			return true
		}
	}
	return false
}

func (c *checker) hasZones() bool {
	for _, i := range c.cfg.Interfaces {
		if i.Zone != "" {
			return true
		}
	}
	return false
}

// behind returns the networks that hosts have on other interfaces than the ways to the Internet.
func (c *checker) behind(wans []wan) (list []network) {
	for _, n := range c.networks {
		out := slices.ContainsFunc(wans, func(w wan) bool { return w.name == n.iface })
		if !out && !c.cfg.Kind(n.iface).Alone && !n.address.IsSingleIP() && !n.address.Addr().IsLinkLocalUnicast() && !c.cfg.Interfaces[n.iface].Disabled {
			list = append(list, n)
		}
	}
	return list
}

// oddOpen warns of a router without zones that leads to the Internet or serves somebody: there is no
// firewall then.
func (c *checker) oddOpen(wans []wan) {
	s := c.cfg.Services
	if len(wans) > 0 && (len(c.behind(wans)) > 0 || c.delegates()) {
		c.refuse(joinPath("interfaces", wans[0].name), fmt.Sprintf("no firewall: no interface has a zone, so everything that arrives on %s passes, to the hosts behind this router and to the router itself", wans[0].name),
			"zone: under interfaces, and firewall: with what may pass", "")
		c.oddPrivate(wans)
		return
	}
	if len(s.DHCP) > 0 || s.DNS != nil || s.SSH != nil {
		c.refuse("services", "there are no zones and so no firewall: everybody who can send packets to the router can use its services", "zone: under interfaces", "")
	}
}

// private are the networks that the Internet has no way to: RFC 1918, RFC 6598, RFC 4193.
var private = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7")}

func isPrivate(a netip.Addr) bool {
	return slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) })
}

// oddPrivate warns of private networks whose hosts can't be answered, because nothing translates their
// addresses on the way to the Internet. Where the router's own address there is private too, another
// router translates.
func (c *checker) oddPrivate(wans []wan) {
	for _, n := range c.behind(wans) {
		a := n.address.Addr()
		if !isPrivate(a) || a.Is6() && c.hasPublic6(n.iface) {
			continue
		}
		for _, w := range wans {
			if w.four != a.Is4() || slices.ContainsFunc(w.own, func(own netip.Addr) bool { return own.Is4() == w.four && isPrivate(own) }) {
				continue
			}
			if c.translates(c.cfg.Interfaces[n.iface].Zone, c.cfg.Interfaces[w.name].Zone, n.address.Masked()) {
				continue
			}
			c.refuse(n.path, fmt.Sprintf("hosts of %s can't reach the Internet by %s: addresses of this network are private, and no entry of nat translates them there", n.address.Masked(), w.name),
				fmt.Sprintf("under nat: {from: %s, to: %s, masquerade: on}", zoneOr(c.cfg.Interfaces[n.iface].Zone, "ZONE"), zoneOr(c.cfg.Interfaces[w.name].Zone, "ZONE")), "")
			break
		}
	}
}

// Untranslated are the private networks inside whose hosts can't be answered, by the ways to the Internet that the file tells.
func Untranslated(cfg *Config) []Problem {
	c := newChecker(cfg)
	c.oddPrivate(c.wans())
	list, _ := c.problems.shown()
	return list
}

// zoneOr is a zone, or a word in the place of none.
func zoneOr(zone, word string) string {
	if zone == "" {
		return word
	}
	return zone
}

// hasPublic6 says whether hosts of an interface have public IPv6 addresses too: then the private ones
// are for the network inside only.
func (c *checker) hasPublic6(name string) bool {
	i := c.cfg.Interfaces[name]
	return i.Delegated != nil || slices.ContainsFunc(i.Addresses, func(a Address) bool {
		return a.Addr().Is6() && !a.Addr().IsLinkLocalUnicast() && !isPrivate(a.Addr())
	})
}

// translates says whether some entry of nat gives hosts of a network another address between two zones.
func (c *checker) translates(from, to string, p netip.Prefix) bool {
	names := func(list []string, zone string) bool {
		return zone != "" && (slices.Contains(list, zone) || slices.Contains(list, "any"))
	}
	overlaps := func(list []Prefix) bool {
		return slices.ContainsFunc(list, func(q Prefix) bool { return q.Overlaps(p) })
	}
	for _, n := range c.cfg.NAT {
		if !names(n.From, from) || !names(n.To, to) || len(n.Source) > 0 && !overlaps(n.Source) {
			continue
		}
		family := familyOf(p.Addr())
		switch {
		case n.Masquerade:
			if slices.Contains(n.Families, family) || len(n.Families) == 0 && family == "ipv4" {
				return true
			}
		case slices.ContainsFunc(n.Pool, func(q Prefix) bool { return familyOf(q.Addr()) == family }):
			return true
		case n.OneToOne != nil && n.OneToOne.Inside.Overlaps(p):
			return true
		}
	}
	return false
}

// known says whether hosts of a prefix can be told to be somewhere: on a connected network, behind a
// static route, or where the file can't say, behind DHCP or a routing protocol.
func (c *checker) known(p netip.Prefix) bool {
	r := c.cfg.Routing
	if r.Babel != nil || slices.ContainsFunc(c.cfg.Protocols(), func(in Protocols) bool {
		return in.BGP != nil || in.OSPF != nil && p.Addr().Is4() || in.OSPF3 != nil && p.Addr().Is6()
	}) {
		return true
	}
	if slices.ContainsFunc(c.networks, func(n network) bool { return n.address.Overlaps(p) }) {
		return true
	}
	return slices.ContainsFunc(r.Static, func(s StaticRoute) bool { return s.Prefix.Bits() > 0 && !s.Blackhole && s.Prefix.Overlaps(p) })
}
