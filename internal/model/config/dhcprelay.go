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
	Servers  []netip.Addr `yaml:"servers" json:"servers" doc:"IPv4 addresses of the DHCP servers, those that they answer from; each gets every request. They need a pool for the network of the interface's first address, which the router tells them, and a route to that address." required:"true" example:"192.0.2.67"`
	Option82 *Option82    `yaml:"option-82" json:"option-82,omitempty" doc:"Adds the relay agent information option (RFC 3046) to requests, by which servers know where a host is, and takes it off the answers. {}: with the defaults below. Absent: nothing is added."`
}

// Option82 tells servers where a host is.
type Option82 struct {
	CircuitID string `yaml:"circuit-id" json:"circuit-id,omitempty" doc:"Where the host is (sub-option 1). Absent: the name of the interface; of a VLAN that of its parent with the id, as trunk:20." example:"dorm-a"`
	RemoteID  string `yaml:"remote-id" json:"remote-id,omitempty" doc:"Who relays (sub-option 2). Absent: system.hostname." example:"border"`
	Existing  string `yaml:"existing" json:"existing,omitempty" doc:"What becomes of requests that have the option already: drop, because a host made it up; replace it by the router's; keep, where a switch that you trust adds it." default:"drop" enum:"drop,replace,keep"`
}

// maxRelayText bounds what a server is told, in bytes: both fit the 255 of the option.
const maxRelayText = 120

// relayText refuses what can't be written into the option.
func relayText(c *checker, path, text string) {
	if len(text) > maxRelayText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.refuse(path, fmt.Sprintf("servers can't be told %q", text), fmt.Sprintf("up to %d printable characters of ASCII", maxRelayText), "")
	}
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
	if o := d.Option82; o != nil {
		relayText(c, path+".option-82.circuit-id", o.CircuitID)
		relayText(c, path+".option-82.remote-id", o.RemoteID)
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
