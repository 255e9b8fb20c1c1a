// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// loopback is the interface that every namespace has, and that nothing is done to but adding addresses.
const loopback = "lo"

// interfaceName is narrower than the kernel's rule (no slash, colon or blank):
// names go into the configurations of other programs too.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,14}$`)

const interfaceNameForm = "1 to 15 letters, digits, dots, dashes and underscores"

// linkName is what match.name takes: the kernel's rule, with the length of an alternative name.
var linkName = regexp.MustCompile(`^[^/:\s%]{1,127}$`)

func (c *checker) interfaces() {
	links := map[string]string{} // how a link is found → interface
	for _, name := range sortedKeys(c.cfg.Interfaces) {
		i, path := c.cfg.Interfaces[name], joinPath("interfaces", name)
		c.interfaceName(path, name)
		c.description(path+".description", i.Description)
		c.link(path, name, i, links)
		c.kind(path, name, i)
		c.mtu(path, name, i)
		c.ethernet(path, name, i)
		c.shape(path, name, i)
		for k, a := range i.Addresses {
			c.address(indexPath(path+".addresses", k), name, a.Prefix)
		}
	}
	c.overlaps()
}

func (c *checker) interfaceName(path, name string) {
	switch {
	case name == "all" || name == "default":
		c.refuse(path, fmt.Sprintf("the kernel keeps the interface name %q for itself", name), interfaceNameForm, "")
	case !interfaceName.MatchString(name):
		hint := strings.NewReplacer("/", "-", ":", "-", " ", "-", "%", "-", "@", "-").Replace(name)
		if !interfaceName.MatchString(hint) {
			hint = ""
		}
		c.refuse(path, fmt.Sprintf("%q can't name an interface", abridge(name)), interfaceNameForm, hint)
	case strings.Trim(name, "0123456789.") == "":
		c.refuse(path, fmt.Sprintf("the interface name %q looks like a number or address", name), interfaceNameForm+", at least one of them a letter", "")
	}
}

// link checks how an interface finds its link, and that no two find the same.
func (c *checker) link(path, name string, i *Interface, links map[string]string) {
	m := i.Match
	made := !c.cfg.Kind(name).Port
	if m != nil && made {
		c.refuse(path+".match", name+" finds no existing link, so it has no match", "an interface without match", "")
		return
	}
	if made && name != loopback {
		return
	}
	key, at := "name "+name, path
	if m != nil {
		set := 0
		if m.Name != "" {
			set++
			key, at = "name "+m.Name, path+".match.name"
			if !linkName.MatchString(m.Name) {
				c.refuse(at, fmt.Sprintf("%q can't be the kernel's name of a link", abridge(m.Name)), "a name as ip link shows it", "")
			}
		}
		if !m.MAC.IsZero() {
			set++
			key, at = "MAC address "+m.MAC.String(), path+".match.mac"
		}
		if m.Path != "" {
			set++
			key, at = "bus address "+m.Path, path+".match.path"
			if strings.ContainsAny(m.Path, " \t") {
				c.refuse(at, fmt.Sprintf("%q is not a bus address", abridge(m.Path)), "what ethtool -i prints as bus-info, as 0000:01:00.0", "")
			}
		}
		if set != 1 {
			c.refuse(path+".match", fmt.Sprintf("match has %d properties", set), "exactly one of name, mac and path", "")
			return
		}
	}
	if other, taken := links[key]; taken {
		c.refuse(at, fmt.Sprintf("interface %s already uses the link with %s", other, key), "one interface for one link", "")
		return
	}
	links[key] = name
}

// mtu checks an interface's packet size against IPv6 and against what carries it.
func (c *checker) mtu(path, name string, i *Interface) {
	if i.MTU == 0 {
		return
	}
	if i.MTU < 1280 && c.hasIPv6(name, i) {
		c.refuse(path+".mtu", fmt.Sprintf("mtu %d is too small for IPv6", i.MTU), "1280 or more (RFC 8200 section 5)", "")
	}
	c.mtuBelow(path+".mtu", name, i.MTU, map[string]bool{})
}

// hasIPv6 reports whether an interface speaks IPv6 by this configuration.
func (c *checker) hasIPv6(name string, i *Interface) bool {
	if i.DHCPv6 != nil || i.Delegated != nil {
		return true
	}
	for _, a := range i.Addresses {
		if a.Addr().Is6() {
			return true
		}
	}
	if b := c.cfg.Routing.Babel; b != nil && b.Interfaces[name] != nil { // it speaks by IPv6
		return true
	}
	if o := c.cfg.Routing.OSPF3; o != nil {
		for _, area := range o.Areas {
			if _, ok := area.Interfaces[name]; ok {
				return true
			}
		}
	}
	return false
}

// address checks one address of an interface by itself.
func (c *checker) address(path, iface string, p netip.Prefix) {
	a := p.Addr()
	if reason := notUnicast(a); reason != "" && !(a.IsLoopback() && iface == loopback) {
		c.refuse(path, fmt.Sprintf("%s %s", a, reason), "an address for one host", "")
		return
	}
	if p.Bits() == 0 {
		c.refuse(path, fmt.Sprintf("%s makes every address a neighbour", p), addressForm, "")
		return
	}
	if reason := edge(p); reason != "" {
		hint := ""
		if reason == "the network address" {
			hint = netip.PrefixFrom(a.Next(), p.Bits()).String()
		} else if prev := a.Prev(); prev != p.Masked().Addr() {
			hint = netip.PrefixFrom(prev, p.Bits()).String()
		}
		c.refuse(path, fmt.Sprintf("%s is %s of %s", a, reason, p.Masked()), "an address of a host in it", hint)
	}
}

// overlaps refuses an address that is there twice in a table, and networks that overlap. On
// one interface several addresses may share a network; a host's own prefix (/32,
// /128) may lie inside another network; every interface has fe80::/64.
func (c *checker) overlaps() {
	first := map[place]network{}
	var wide []network
	for _, n := range c.networks {
		a := n.address.Addr()
		linkLocal := a.Is6() && a.IsLinkLocalUnicast()
		at := place{n.vrf, a}
		if other, again := first[at]; again && !(linkLocal && n.iface != other.iface) {
			c.refuse(n.path, fmt.Sprintf("%s has the address %s already", other.iface, a), "each address once", "")
			continue
		}
		first[at] = n
		if !linkLocal && !n.address.IsSingleIP() && n.address.Bits() > 0 && notUnicast(a) == "" {
			wide = append(wide, n)
		}
	}
	slices.SortStableFunc(wide, func(a, b network) int {
		return cmp.Or(cmp.Compare(a.vrf, b.vrf), a.address.Masked().Addr().Compare(b.address.Masked().Addr()), cmp.Compare(a.address.Bits(), b.address.Bits()))
	})
	told := map[string]bool{}
	for i := 1; i < len(wide); i++ {
		outer, n := wide[i-1], wide[i]
		if outer.vrf != n.vrf || !outer.address.Overlaps(n.address) {
			continue
		}
		wide[i] = outer // the widest so far stays the one to compare with
		if n.iface == outer.iface && n.address.Masked() == outer.address.Masked() {
			continue
		}
		if n.order < outer.order {
			outer, n = n, outer // the one below in the file is told
		}
		if !told[n.path] {
			told[n.path] = true
			c.refuse(n.path, fmt.Sprintf("network %s overlaps %s of %s", n.address.Masked(), outer.address, outer.iface), "networks apart from each other", "")
		}
	}
}
