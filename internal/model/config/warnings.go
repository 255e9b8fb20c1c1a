// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
)

// Warnings returns what is legal but seldom meant. It expects a configuration
// that Check accepts, and says little: a warning that comes every time is read by nobody.
func Warnings(cfg *Config) []Problem {
	c := newChecker(cfg)
	if len(c.networks) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(cfg.Interfaces)), (*Interface).leases) {
		c.refuse("interfaces", "no interface has an address: the router can't be reached", "", "")
	}
	for _, name := range sortedKeys(cfg.Interfaces) {
		c.oddKind(name, cfg.Interfaces[name])
	}
	for _, k := range cfg.renamed {
		c.refuse(k.now, fmt.Sprintf("%s is the old name of the section %s", k.old, k.now), k.now+" (minne config migrate --write renames it)", "")
	}
	c.oddReach()
	for i, r := range cfg.Routing.Static {
		for k, hop := range r.Via {
			c.oddNextHop(indexPath(indexPath("routing.static", i)+".via", k), r.VRF, hop)
		}
	}
	for _, in := range cfg.Protocols() {
		if in.BGP != nil {
			c.oddBGP(in)
		}
		c.oddOSPF(in, "ospf", in.OSPF)
		c.oddOSPF(in, "ospf3", in.OSPF3)
	}
	c.oddUplinks()
	c.oddConnections()
	c.oddLogins()
	c.oddBabel("routing.babel", cfg.Routing.Babel)
	list, _ := c.problems.shown()
	return list
}

// oddNextHop warns of a next hop that can't be used as things stand.
func (c *checker) oddNextHop(path, vrf string, hop NextHop) {
	name := hop.Interface
	if name == "" {
		n, _ := c.connectedIn(vrf, hop.Address)
		name = n.iface
	}
	if i := c.cfg.Interfaces[name]; i != nil && i.Disabled {
		c.refuse(path, fmt.Sprintf("the next hop lies behind %s, which is disabled", name), "", "")
	}
}

func (c *checker) oddBGP(in Protocols) {
	b := in.BGP
	for i, p := range b.Announce {
		if most := map[Family]int{"ipv4": 24, "ipv6": 48}[familyOf(p.Addr())]; p.Bits() > most {
			c.refuse(indexPath(in.Path+".bgp.announce", i), fmt.Sprintf("%s is longer than /%d, which most networks reject", p, most), "", "")
		}
	}
	for _, name := range sortedKeys(b.Peers) {
		p, path := b.Peers[name], joinPath(in.Path+".bgp.peers", name)
		if p.Disabled {
			continue
		}
		if other, elsewhere := c.reachedIn(in.VRF, p.Address); elsewhere {
			c.refuse(path+".address", fmt.Sprintf("peer %s lies in %s, and only routes of %s lead to it here", p.Address, tableWords(other), tableWords(in.VRF)), "", "")
		}
		if p.ASN == b.ASN {
			continue
		}
		if p.Import.MaxPrefixes == nil && len(p.Import.Accept) == 0 {
			c.refuse(path, fmt.Sprintf("external peer %s may send any number of routes", name), "import: with max-prefixes or accept", "")
		}
		if own := p.Export.Routes == "" || p.Export.Routes == "own"; own && !slices.ContainsFunc(b.Announce, func(a Prefix) bool { return speaks(p, familyOf(a.Addr())) }) {
			c.refuse(path, fmt.Sprintf("nothing is announced to %s: the announce list has no prefix of its family", name), "", "")
		}
		if n, ok := c.connectedIn(in.VRF, p.Address); ok && c.cfg.Interfaces[n.iface].Disabled {
			c.refuse(path+".address", fmt.Sprintf("the peer lies behind %s, which is disabled", n.iface), "", "")
		}
	}
}

func (c *checker) oddOSPF(in Protocols, key string, o *OSPF) {
	if o == nil {
		return
	}
	path := in.Path + "." + key
	for _, id := range slices.Sorted(maps.Keys(o.Areas)) {
		area, at := o.Areas[id], joinPath(path+".areas", id.String())
		if len(area.Interfaces) == 0 {
			c.refuse(at, fmt.Sprintf("area %s has no interfaces", id), "", "")
		}
		for _, name := range sortedKeys(area.Interfaces) {
			if i := c.cfg.Interfaces[name]; i != nil && i.Disabled {
				c.refuse(joinPath(at+".interfaces", name), fmt.Sprintf("%s is disabled, so OSPF does not run on it", name), "", "")
			}
		}
	}
	if i := slices.Index(o.Redistribute, "bgp"); i >= 0 && takesWholeTable(in.BGP) {
		c.refuse(indexPath(path+".redistribute", i), "redistributing BGP puts the whole Internet table into OSPF, which most routers cannot hold", "default-route: bgp instead", "")
	}
}

// takesWholeTable reports whether some external peer may fill the table.
func takesWholeTable(b *BGP) bool {
	if b == nil {
		return false
	}
	for _, p := range b.Peers {
		if p.ASN != b.ASN && len(p.Import.Accept) == 0 {
			return true
		}
	}
	return false
}
