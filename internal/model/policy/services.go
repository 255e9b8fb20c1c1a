// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"minne/internal/model/config"
)

// Services open what they need themselves: an operator who configures a BGP peer
// has said that the peer may speak BGP to the router. These rules are read before
// those of the operator, so that no list of bad addresses cuts a routing session.

func (c *compiler) services() {
	pings := c.cfg.Firewall.ICMPLimit
	// Neighbour discovery must come from the link itself (RFC 4861); multicast
	// listener messages do so by their nature.
	c.service(Rule{Text: "neighbour discovery", Protocols: []uint8{protoICMPv6}, ICMP: icmp6(133, 134, 135, 136, 137), HopLimit255: true, Unknown: true})
	c.service(Rule{Text: "multicast groups of IPv6", Protocols: []uint8{protoICMPv6}, ICMP: icmp6(130, 131, 132, 143), Unknown: true})
	c.service(Rule{Text: "multicast groups of IPv4", Protocols: []uint8{2}, Unknown: true})
	c.service(Rule{Text: "ping", Protocols: protocolWords["ping"].protocols, ICMP: protocolWords["ping"].icmp,
		Limit: &Limit{Rate: pings, Per: time.Second, Burst: pings}})
	c.bgpService()
	c.ospfService()
	c.babelService()
	for _, o := range c.openings {
		c.open(o)
	}
}

func icmp6(types ...uint8) (list []ICMPType) {
	for _, t := range types {
		list = append(list, ICMPType{protoICMPv6, t})
	}
	return list
}

// service adds a permission to reach the router from any zone, and one to answer
// and to begin such conversations from the router.
func (c *compiler) service(r Rule) {
	c.serviceIn(r)
	r.Source, r.Destination, r.Limit = Addresses{}, r.Source, nil
	c.serviceOut(r)
}

// serviceIn adds a permission to reach the router.
func (c *compiler) serviceIn(r Rule) {
	r.To = []ZoneID{Self}
	if r.Unknown {
		c.permit(r, r.Source)
		return
	}
	for _, one := range c.behindLogin(r) {
		c.permit(one, one.Source)
	}
}

// serviceOut adds a permission for what the router sends.
func (c *compiler) serviceOut(r Rule) {
	r.From = []ZoneID{Self}
	c.permit(r, r.Destination)
}

// permit completes the rule of a service; others are the hosts it is about, none for any.
func (c *compiler) permit(r Rule, others Addresses) {
	r.Policy, r.Place, r.Action = "services", "services of the router", Permit
	r.IPv4, r.IPv6 = r.IPv4 || !r.IPv6, r.IPv6 || !r.IPv4
	if len(r.Protocols) == 1 {
		r.IPv4, r.IPv6 = r.IPv4 && r.Protocols[0] != protoICMPv6, r.IPv6 && r.Protocols[0] != protoICMP
	}
	if len(others.Prefixes) > 0 {
		r.IPv4, r.IPv6 = r.IPv4 && has(others.Prefixes, true), r.IPv6 && has(others.Prefixes, false)
	}
	r.Source.Any, r.Destination.Any = len(r.Source.Prefixes)+len(r.Source.Sets) == 0, len(r.Destination.Prefixes) == 0
	r.SourcePorts.Any, r.Ports.Any = len(r.SourcePorts.Ranges) == 0, len(r.Ports.Ranges) == 0
	r.ID = len(c.p.Rules) + len(c.p.Services) + 1
	c.p.Services = append(c.p.Services, r)
}

// Ports of the routing protocols: RFC 4271, RFC 8966, RFC 5881, RFC 5883.
var (
	bgpPort    = PortRange{179, 179}
	babelPort  = PortRange{6696, 6696}
	bfdPorts   = PortRange{3784, 3785}
	bfdFarPort = PortRange{4784, 4784}
)

func (c *compiler) bgpService() {
	for _, protocols := range c.cfg.Protocols() {
		if protocols.BGP != nil {
			c.bgpIn(protocols)
		}
	}
}

// bgpIn opens a table's BGP to its peers, by the table's interfaces alone.
func (c *compiler) bgpIn(protocols config.Protocols) {
	bgp, by, in := protocols.BGP, c.interfacesOf(protocols.VRF), ""
	if protocols.VRF != "" {
		in = " in VRF " + protocols.VRF
	}
	if by != nil && len(by) == 0 {
		return
	}
	for _, name := range words(bgp.Peers) {
		peer := bgp.Peers[name]
		if peer.Disabled {
			continue
		}
		from := Addresses{Prefixes: []netip.Prefix{netip.PrefixFrom(peer.Address.WithZone(""), peer.Address.BitLen())}}
		c.service(Rule{Text: "BGP peer " + name + in, Protocols: []uint8{protoTCP}, Source: from, Interfaces: by, Ports: Ports{Ranges: []PortRange{bgpPort}}})
		if peer.BFD.On() {
			c.service(Rule{Text: "BFD of BGP peer " + name + in, Protocols: []uint8{protoUDP}, Source: from, Interfaces: by, Ports: Ports{Ranges: []PortRange{bfdPorts, bfdFarPort}}})
		}
	}
}

// interfacesOf are the interfaces of a table, nil for all: without VRFs there is only one.
func (c *compiler) interfacesOf(vrf string) []string {
	in := map[string]string{}
	for name, v := range c.cfg.Interfaces {
		if v.VRF != nil {
			for _, member := range v.VRF.Interfaces {
				in[member] = name
			}
		}
	}
	if len(in) == 0 {
		return nil
	}
	list := []string{}
	for _, name := range words(c.cfg.Interfaces) {
		if in[name] == vrf && c.cfg.Interfaces[name].VRF == nil {
			list = append(list, name)
		}
	}
	return list
}

func (c *compiler) ospfService() {
	for _, protocols := range c.cfg.Protocols() {
		c.ospfVersion("OSPF", protocols.OSPF, true)
		c.ospfVersion("OSPFv3", protocols.OSPF3, false)
	}
}

// babelService lets neighbours tell routes, by IPv6 and link-local addresses, also those of IPv4 (RFC 8966 section 4).
func (c *compiler) babelService() {
	if b := c.cfg.Routing.Babel; b != nil && len(b.Interfaces) > 0 {
		link := Addresses{Prefixes: []netip.Prefix{netip.MustParsePrefix("fe80::/10")}}
		c.service(Rule{Text: "Babel", Protocols: []uint8{protoUDP}, Source: link, Interfaces: slices.Sorted(maps.Keys(b.Interfaces)), IPv6: true,
			Ports: Ports{Ranges: []PortRange{babelPort}}})
	}
}

// ospfVersion opens one version of OSPF, and BFD where it is on, on the interfaces that speak it.
func (c *compiler) ospfVersion(name string, o *config.OSPF, four bool) {
	if o == nil {
		return
	}
	var speaks, bfd []string
	for _, area := range o.Areas {
		for iface, i := range area.Interfaces {
			if i.Passive {
				continue
			}
			speaks = append(speaks, iface)
			if i.BFD.On() {
				bfd = append(bfd, iface)
			}
		}
	}
	slices.Sort(speaks)
	slices.Sort(bfd)
	if len(speaks) > 0 {
		c.service(Rule{Text: name, Protocols: []uint8{protoOSPF}, Interfaces: speaks, IPv4: four, IPv6: !four})
	}
	if len(bfd) > 0 {
		c.service(Rule{Text: "BFD of " + name, Protocols: []uint8{protoUDP}, Interfaces: bfd, IPv4: four, IPv6: !four, Ports: Ports{Ranges: []PortRange{bfdPorts}}})
	}
}
