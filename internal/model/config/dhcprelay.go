// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// DHCPRelay carries what the hosts of one interface ask by DHCP to servers elsewhere, and their answers back (RFC 1542 section 4,
// RFC 2131).
type DHCPRelay struct {
	Servers []netip.Addr `yaml:"servers" json:"servers" doc:"IPv4 addresses of the DHCP servers, those that they answer from; each gets every request. They need a pool for the network of the interface's first address, which the router tells them, and a route to that address." required:"true" example:"192.0.2.67"`
}

// maxRelayServers bounds what one request becomes.
const maxRelayServers = 8

func (d *DHCPRelay) check(c *checker, path string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if c.cfg.Interfaces[name] == nil || !c.serves(path, name, "DHCP relay") {
		return
	}
	if c.cfg.Services.DHCP[name] != nil {
		c.refuse(path, fmt.Sprintf("this router is the DHCP server of %s itself", name), "services.dhcp or services.dhcp-relay", "")
	}
	if !c.cfg.RelayAddress(name).IsValid() {
		c.refuse(path, fmt.Sprintf("%s has no IPv4 address, by which servers know its network", name), "an IPv4 address under interfaces."+name, "")
	}
	if n := len(d.Servers); n == 0 || n > maxRelayServers {
		c.refuse(path+".servers", fmt.Sprintf("there are %d servers", n), fmt.Sprintf("1 to %d", maxRelayServers), "")
	}
	once(c, path+".servers", d.Servers, netip.Addr.String)
	for n, a := range d.Servers {
		at := indexPath(path+".servers", n)
		switch own := c.cfg.interfaceWith(a); {
		case !a.Is4() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			c.refuse(at, fmt.Sprintf("%s can't be a DHCP server's address", a), "the server's IPv4 address", "")
		case own != "":
			c.refuse(at, fmt.Sprintf("%s is an address of this router (%s)", a, own), "the server's IPv4 address", "")
		}
	}
}

// RelayAddress is by which the servers know the network of an interface: its first IPv4 address.
func (cfg *Config) RelayAddress(name string) netip.Addr {
	for _, a := range cfg.IPv4Addresses(name) {
		return a.Addr()
	}
	return netip.Addr{}
}

// IPv4Addresses are those that an interface has by the configuration.
func (cfg *Config) IPv4Addresses(name string) (list []netip.Prefix) {
	for _, a := range cfg.Interfaces[name].Addresses {
		if a.Addr().Is4() {
			list = append(list, a.Prefix)
		}
	}
	return list
}
