// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// IPv6 from a provider: an interface asks for addresses and a prefix, and inside interfaces get networks of it.

// DHCPv6 makes an interface a client of the provider's IPv6.
type DHCPv6 struct {
	PrefixLength int `yaml:"prefix-length" json:"prefix-length,omitempty" doc:"Length of the prefix to ask for (prefix delegation, RFC 8415), a wish. Absent: what the provider gives." min:"32" max:"64" example:"56"`
}

// DelegatedPrefix is the network of an inside interface in the prefix that a provider delegates.
type DelegatedPrefix struct {
	From   string `yaml:"from" json:"from" doc:"The interface with dhcpv6 whose provider delegates the prefix." required:"true" names:"interface" example:"wan"`
	Subnet int    `yaml:"subnet" json:"subnet" doc:"Number of the /64 network in the prefix, from 0. The router has its address 1." required:"true" min:"0" max:"65535" example:"1"`
}

// delegation refuses clients and networks that can't be.
func (c *checker) delegation() {
	taken := map[DelegatedPrefix]string{}
	for _, name := range sortedKeys(c.cfg.Interfaces) {
		i, path := c.cfg.Interfaces[name], joinPath("interfaces", name)
		switch kind := c.cfg.Kind(name); {
		case i.DHCPv6 == nil:
		case kind.Alone || kind.Routed:
			c.refuse(path+".dhcpv6", fmt.Sprintf("%s leads to no provider", name), "a port, a VLAN, a bond, a bridge or a PPPoE session", "")
		case i.PPPoE != nil && !i.PPPoE.IPv6.On():
			c.refuse(path+".dhcpv6", "the session carries no IPv6", "pppoe with ipv6: on", "")
		}
		d := i.Delegated
		if d == nil {
			continue
		}
		at := path + ".delegated-prefix"
		from := c.cfg.Interfaces[d.From]
		switch {
		case from == nil: // said where names are checked
		case d.From == name:
			c.refuse(at+".from", name+" cannot take its own provider's prefix", "the interface towards the provider", "")
		case from.DHCPv6 == nil:
			c.refuse(at+".from", d.From+" asks no provider for a prefix", fmt.Sprintf("an interface with dhcpv6, or dhcpv6: {} under interfaces.%s", d.From), "")
		case c.vrfOf(d.From) != c.vrfOf(name):
			c.refuse(at+".from", fmt.Sprintf("%s and %s are not in the same VRF: nobody could reach the provider", name, d.From), "both in the same one, or both in none", "")
		case from.DHCPv6.PrefixLength != 0 && d.Subnet >= 1<<(64-from.DHCPv6.PrefixLength):
			c.refuse(at+".subnet", fmt.Sprintf("a prefix of length %d has no network %d of length 64", from.DHCPv6.PrefixLength, d.Subnet), fmt.Sprintf("0 to %d", 1<<(64-from.DHCPv6.PrefixLength)-1), "")
		case taken[*d] != "":
			c.refuse(at+".subnet", fmt.Sprintf("%s has network %d of this prefix already", taken[*d], d.Subnet), "each network once", "")
		}
		taken[*d] = name
	}
}
