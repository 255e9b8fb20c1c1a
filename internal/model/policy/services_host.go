// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"

	"minne/internal/model/config"
)

// The services that hosts around the router use open their ports on the
// interfaces that they are configured for, and on no other: what is served in the
// LAN is not there for the WAN, whatever the zones' rules say.

// Ports of those services.
var (
	sshPort        = PortRange{22, 22}
	dnsPort        = PortRange{53, 53}
	dhcpServerPort = PortRange{67, 67} // RFC 2131 section 4.1
	dhcpClientPort = PortRange{68, 68}
	ntpPort        = PortRange{123, 123}
)

func (c *compiler) hostServices() {
	s := c.cfg.Services
	c.dhcpService("DHCP client", leasing(c.cfg), dhcpServerPort, dhcpClientPort)
	c.dhcpService("DHCP server", slices.Sorted(maps.Keys(s.DHCP)), dhcpClientPort, dhcpServerPort)
	if s.DNS != nil {
		c.portService("DNS", s.DNS.Interfaces, dnsPort, protoUDP, protoTCP)
		c.serviceOut(Rule{Text: "DNS queries", Protocols: []uint8{protoUDP, protoTCP}, Ports: Ports{Ranges: []PortRange{dnsPort}}})
	}
	if s.NTP != nil {
		c.portService("NTP", s.NTP.Interfaces, ntpPort, protoUDP)
		c.serviceOut(Rule{Text: "NTP queries", Protocols: []uint8{protoUDP}, Ports: Ports{Ranges: []PortRange{ntpPort}}})
	}
	if s.SSH != nil {
		port := sshPort
		if s.SSH.Port != 0 {
			port = PortRange{uint16(s.SSH.Port), uint16(s.SSH.Port)}
		}
		c.portService("SSH", s.SSH.Interfaces, port, protoTCP)
	}
}

// leasing are the interfaces that ask a DHCP server for their address.
func leasing(cfg *config.Config) (list []string) {
	for name, i := range cfg.Interfaces {
		if i != nil && i.DHCP.Or(false) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// portService opens a port on interfaces. Answers belong to known connections.
func (c *compiler) portService(text string, interfaces []string, port PortRange, protocols ...uint8) {
	if len(interfaces) > 0 {
		c.serviceIn(Rule{Text: text, Protocols: protocols, Interfaces: slices.Sorted(slices.Values(interfaces)), Ports: Ports{Ranges: []PortRange{port}}})
	}
}

// dhcpService opens both ways, since DHCP's broadcasts make no connections.
func (c *compiler) dhcpService(text string, interfaces []string, theirs, ours PortRange) {
	if len(interfaces) == 0 {
		return
	}
	r := Rule{Text: text, Protocols: []uint8{protoUDP}, Interfaces: interfaces, IPv4: true}
	in, out := r, r
	in.SourcePorts, in.Ports = Ports{Ranges: []PortRange{theirs}}, Ports{Ranges: []PortRange{ours}}
	out.SourcePorts, out.Ports = in.Ports, in.SourcePorts
	c.serviceIn(in)
	c.serviceOut(out)
}
