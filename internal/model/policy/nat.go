// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// Translations of addresses: resolved, and checked against each other.

func (c *compiler) translations() {
	for i := range c.cfg.NAT {
		c.translation(fmt.Sprintf("nat[%d]", i), c.cfg.NAT[i])
	}
	c.contradictions()
}

func (c *compiler) translation(path string, n config.NAT) {
	one := NAT{ID: len(c.p.NAT) + 1, Name: n.Name, Place: c.report.Place(path), From: c.zoneList(path+".from", n.From)}
	if one.Name == "" {
		one.Name = fmt.Sprintf("nat %d", one.ID)
	} else if err := plainText(word{text: n.Name}); err != nil {
		c.report.Refuse(path+".name", err.message, err.expected, "")
	}
	if slices.Contains(one.From, Self) {
		c.report.Refuse(path+".from", "the router's own connections are not translated", "a zone", "")
	}
	for _, p := range n.Source {
		one.Source = append(one.Source, p.Prefix)
	}
	one.Source = mergePrefixes(one.Source)
	kinds := 0
	for _, set := range []bool{n.Masquerade, len(n.Pool) > 0, n.Forward != nil, n.OneToOne != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.report.Refuse(path, "a NAT rule needs exactly one kind", "exactly one of masquerade: on, pool, forward and one-to-one", "")
		return
	}
	switch {
	case n.Forward != nil:
		c.forward(path, n, &one)
	case n.OneToOne != nil:
		c.oneToOne(path, n, &one)
	default:
		c.sourceNAT(path, n, &one)
	}
	c.p.NAT = append(c.p.NAT, one)
}

// natTo resolves the zones that a translation leads to.
func (c *compiler) natTo(path string, n config.NAT) []ZoneID {
	to := c.zoneList(path+".to", n.To)
	if slices.Contains(to, Self) {
		c.report.Refuse(path+".to", "connections to the router itself keep their source", "a zone", "")
	}
	return to
}

func (c *compiler) sourceNAT(path string, n config.NAT, one *NAT) {
	one.To = c.natTo(path, n)
	if one.Kind = Masquerade; len(n.Pool) > 0 {
		one.Kind = SourcePool
	}
	for i, p := range n.Pool {
		if has(one.Pool, p.Addr().Is4()) {
			c.report.Refuse(fmt.Sprintf("%s.pool[%d]", path, i), "a second network of its family", "at most one of IPv4 and one of IPv6", "")
		}
		one.Pool = append(one.Pool, p.Prefix)
	}
	families := n.Families
	if len(families) == 0 {
		families = []config.Family{"ipv4"}
	}
	one.IPv4, one.IPv6 = slices.Contains(families, "ipv4"), slices.Contains(families, "ipv6")
	if one.Kind == SourcePool {
		one.IPv4, one.IPv6 = has(one.Pool, true), has(one.Pool, false)
		if len(n.Families) > 0 {
			c.report.Refuse(path+".families", "a pool has the families of its networks", "no families", "")
		}
	}
	c.refuseStateless(path, one.From, one.To)
}

// refuseStateless refuses to translate where no state is kept: translation needs it.
func (c *compiler) refuseStateless(path string, from, to []ZoneID) {
	for _, f := range from {
		for _, t := range to {
			if pair := c.p.Pair(f, t); pair != nil && pair.Stateless {
				c.report.Refuse(path, fmt.Sprintf("the policy from %s to %s is stateless, and addresses can't be translated without state", c.p.Zones[f].Name, c.p.Zones[t].Name),
					"a policy with state, or no translation", "")
				return
			}
		}
	}
}

// vrfIn is an interface of some zones that is in a VRF, or "".
func (c *compiler) vrfIn(zones []ZoneID) string {
	for _, z := range zones {
		for _, name := range c.p.Zones[z].Interfaces {
			if c.p.VRFOf(name) != nil {
				return name
			}
		}
	}
	return ""
}

func (c *compiler) forward(path string, n config.NAT, one *NAT) {
	f := n.Forward
	one.Kind, one.Target, one.Address, one.NewPort = PortForward, f.Target, f.Address, uint16(f.NewPort)
	one.Protocol = map[config.ForwardProtocol]uint8{"tcp": protoTCP, "udp": protoUDP}[f.Protocol]
	one.Hairpin = f.Hairpin.On()
	path += ".forward"
	if len(n.To) > 0 {
		c.report.Refuse(strings.TrimSuffix(path, ".forward")+".to", "a port forward has no to: its target is the destination", "no to", "")
	}
	r, err := parsePort(word{text: f.Port})
	if err != nil {
		c.report.RefuseWord(path+".port", err.word.at, err.message, err.expected, err.nearest)
	}
	one.Ports = r
	switch {
	case f.NewPort > 0 && r.First != r.Last:
		c.report.Refuse(path+".target-port", "a range of ports keeps its ports", "no target-port", "")
	case f.Target.IsUnspecified() || f.Target.IsMulticast() || f.Target.IsLoopback():
		c.report.Refuse(path+".target", fmt.Sprintf("%s is not the address of a host", f.Target), "the address of a host inside", "")
	case !f.Address.IsValid() && c.vrfIn(one.From) != "": // the kernel's look for the router's own addresses knows the main table only
		c.report.Refuse(path, fmt.Sprintf("%s is in a VRF, so the address that hosts connect to must be given", c.vrfIn(one.From)), "address: ADDRESS of the interface", "")
	case f.Address.IsValid() && f.Address.Is4() != f.Target.Is4():
		c.report.Refuse(path+".address", fmt.Sprintf("%s and target %s are of different families", f.Address, f.Target), "both IPv4 or both IPv6", "")
	}
}

// contradictions refuses forwards of one port to two hosts, outside addresses of
// two networks, and sources that two translations claim: the second could never hold.
func (c *compiler) contradictions() {
	for j, b := range c.p.NAT {
		for _, a := range c.p.NAT[:j] {
			path := fmt.Sprintf("nat[%d]", b.ID-1)
			switch {
			case a.Kind == PortForward && b.Kind == PortForward && sameDoor(a, b):
				if a.Target != b.Target || a.NewPort != b.NewPort {
					c.report.Refuse(path+".forward", fmt.Sprintf("%s forwards this port already (%s), to %s", a.Name, a.Place, a.Target), "another port or address", "")
				}
			case c.sharesAddresses(path, a, b):
			case a.Kind != PortForward && b.Kind != PortForward:
				if covers(a.Source, b.Source) && (a.IPv4 || !b.IPv4) && (a.IPv6 || !b.IPv6) && coversZones(a, b) {
					c.report.Refuse(path, fmt.Sprintf("%s (%s) translates all of these connections already", a.Name, a.Place), "the narrower translation first, or other zones", "")
				}
			}
		}
	}
}

func sameDoor(a, b NAT) bool {
	address := !a.Address.IsValid() || !b.Address.IsValid() || a.Address == b.Address
	return a.Protocol == b.Protocol && a.Target.Is4() == b.Target.Is4() && address && overlapZones(a.From, b.From) &&
		a.Ports.First <= b.Ports.Last && b.Ports.First <= a.Ports.Last && overlapSources(a.Source, b.Source)
}

func overlapZones(a, b []ZoneID) bool {
	return slices.ContainsFunc(a, func(z ZoneID) bool { return slices.Contains(b, z) })
}

// coversZones reports whether every pair of b's zones is one of a's.
func coversZones(a, b NAT) bool {
	missing := func(in []ZoneID) func(ZoneID) bool { return func(z ZoneID) bool { return !slices.Contains(in, z) } }
	return !slices.ContainsFunc(b.From, missing(a.From)) && !slices.ContainsFunc(b.To, missing(a.To))
}

// overlapSources reports whether an address may be in both; nil is all addresses.
func overlapSources(a, b []netip.Prefix) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(p netip.Prefix) bool { return slices.ContainsFunc(b, p.Overlaps) })
}

// covers reports whether every address of b is in a; nil is all addresses.
func covers(a, b []netip.Prefix) bool {
	if a == nil {
		return true
	}
	return b != nil && !slices.ContainsFunc(b, func(q netip.Prefix) bool {
		return !slices.ContainsFunc(a, func(p netip.Prefix) bool { return p.Bits() <= q.Bits() && p.Overlaps(q) })
	})
}

// closedForwards warns of port forwards whose connections every rule of the
// target's zones denies.
func (c *compiler) closedForwards() {
	for _, n := range c.p.NAT {
		if n.Kind != PortForward {
			continue
		}
		port := n.NewPort
		port = cmp.Or(port, n.Ports.First)
		to := c.ifaceTowards(n.Target, n.From)
		if to == "" || c.opens(n, to, port) {
			continue
		}
		c.odd.Refuse(fmt.Sprintf("nat[%d].forward", n.ID-1), fmt.Sprintf("no rule permits connections to %s port %d, so this forward does not work", n.Target, port),
			fmt.Sprintf("a rule as permit %s any %s %d in a policy from its zones to %s", protocolName(n.Protocol), n.Target, port, c.cfg.Interfaces[to].Zone), "")
	}
}

// opens reports whether some rule permits packets of a forward to its target.
func (c *compiler) opens(n NAT, iface string, port uint16) bool {
	to, _ := c.p.ZoneOf(iface)
	for _, from := range n.From {
		pair := c.p.Pair(from, to)
		if pair == nil || pair.Default == Permit {
			return true
		}
		for _, i := range pair.Rules {
			r := c.p.Rules[i]
			if r.Action == Permit && (r.Protocols == nil || slices.Contains(r.Protocols, n.Protocol)) &&
				c.p.inAddresses(r.Destination, n.Target) && c.p.inPorts(r.Ports, port) {
				return true
			}
		}
	}
	return false
}

// ifaceTowards is the interface with a zone whose network an address is in, or "", in a table of the zones that connections are from.
func (c *compiler) ifaceTowards(a netip.Addr, from []ZoneID) string {
	tables := map[*VRF]bool{}
	for _, z := range from {
		for _, name := range c.p.Zones[z].Interfaces {
			tables[c.p.VRFOf(name)] = true
		}
	}
	best, bits := "", -1
	for _, name := range words(c.cfg.Interfaces) {
		i := c.cfg.Interfaces[name]
		if i.Zone == "" || !tables[c.p.VRFOf(name)] {
			continue
		}
		for _, own := range i.Addresses {
			if own.Masked().Contains(a) && own.Bits() > bits {
				best, bits = name, own.Bits()
			}
		}
	}
	return best
}
