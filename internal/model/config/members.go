// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Master is what an interface belongs to: a bond, a bridge or a VRF.
type Master struct {
	Name string // of its interface
	Kind Kind
	Path string // of the line that says so
}

// Masters returns what each interface belongs to. One that is named twice belongs to the first, by name.
func (cfg *Config) Masters() map[string]Master {
	all := map[string]Master{}
	for _, name := range sortedKeys(cfg.Interfaces) {
		k := cfg.Kind(name)
		for _, m := range k.Members {
			if _, taken := all[m.Name]; !taken {
				all[m.Name] = Master{name, k, joinPath(joinPath("interfaces", name), k.Name) + "." + m.Key}
			}
		}
	}
	return all
}

// VRFs returns the VRF that each interface is in, for those that are in one.
func (cfg *Config) VRFs() map[string]string {
	in := map[string]string{}
	for name, m := range cfg.Masters() {
		if m.Kind.Name == "vrf" {
			in[name] = m.Name
		}
	}
	return in
}

// members checks the interfaces that belong to another one.
func (c *checker) members(path, name string, k Kind) bool {
	fine := true
	for _, m := range k.Members {
		at := path + "." + m.Key
		i, master := c.cfg.Interfaces[m.Name], c.masters[m.Name]
		switch {
		case i == nil: // the walk of names says so
			fine = false
		case m.Name == loopback:
			c.refuse(at, "lo is the loopback interface and belongs to nothing", "another interface", "")
		case c.cfg.sitsOn(m.Name, name, map[string]bool{}):
			c.refuse(at, fmt.Sprintf("%s sits on %s, directly or through others", m.Name, name), "an interface that does not", "")
		case master.Path != at && master.Name == name:
			c.refuse(at, m.Name+" is in the list twice", "each once", "")
		case master.Path != at:
			c.refuse(at, fmt.Sprintf("%s belongs to %s already", m.Name, master.Name), "an interface that belongs to nothing else", "")
		case k.Bundles && c.cfg.Kind(m.Name).Routed:
			c.refuse(at, fmt.Sprintf("%s carries no Ethernet frames and cannot be a port of %s", m.Name, name), "a port or VLAN", "")
		case k.Bundles:
			c.bundled(at, m.Name, name, i)
		}
	}
	return fine
}

// bundled refuses what a port of a bond or bridge can't have: the packets are its master's.
func (c *checker) bundled(at, name, master string, i *Interface) {
	path := joinPath("interfaces", name)
	refuse := func(key, what string) {
		c.refuse(path+"."+key, fmt.Sprintf("%s is a port of %s and has no %s of its own", name, master, what), key+" at interfaces."+master, "")
	}
	if len(i.Addresses) > 0 {
		refuse("addresses", "addresses")
	}
	if i.DHCP.On() {
		refuse("dhcp", "DHCP client")
	}
	if i.DHCPv6 != nil {
		refuse("dhcpv6", "DHCPv6 client")
	}
	if i.Delegated != nil {
		refuse("delegated-prefix", "prefix")
	}
	if i.Zone != "" {
		refuse("zone", "zone")
	}
	if i.AntiSpoof != "" && i.AntiSpoof != "off" {
		refuse("anti-spoof", "source check")
	}
	if i.MTU != 0 {
		refuse("mtu", "MTU")
	}
	for _, use := range InterfaceUses(c.cfg) {
		switch {
		case use.Name != name, strings.HasPrefix(use.Path, "interfaces."): // parents and members are checked where they stand
		case strings.HasPrefix(use.Path, "services.lldp."): // its frames belong to cables
		default:
			c.refuse(use.Path, fmt.Sprintf("%s is a port of %s and has no packets of its own", name, master), "an interface that is no port of another one", master)
		}
	}
}
