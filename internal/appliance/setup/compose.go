// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"
	"net/netip"
	"strings"
)

// adminSecret is the name of the secret that holds the hash of admin's password.
const adminSecret = "admin-password"

// providerSecret is the name of the secret that holds the password of a PPPoE session.
const providerSecret = "provider"

// timeServers are asked for the time: Debian's part of the public pool.
const timeServers = "2.debian.pool.ntp.org"

// network is a LAN: one port, or several that are bridged.
type network struct {
	name    string
	ports   []Port
	wifi    bool         // the access point is in it
	address netip.Prefix // the router's, with length
}

// networks puts the ports besides the WAN into one network with the address that was answered, or gives
// each a network of its own: the first that one, the others those that follow it.
func networks(a Answers, ports []Port) (list []network) {
	address := netip.MustParsePrefix(a.LAN)
	for _, p := range ports {
		switch {
		case p.Name == a.WAN:
		case len(list) == 0:
			list = append(list, network{"lan", []Port{p}, false, address})
		case a.LANPorts == separate:
			address = next(address)
			list = append(list, network{fmt.Sprintf("lan%d", len(list)+1), []Port{p}, false, address})
		default:
			list[0].ports = append(list[0].ports, p)
		}
	}
	switch {
	case a.WiFi == "":
	case a.WiFiNetwork == separate:
		list = append(list, network{"wifi", nil, true, next(address)})
	default:
		list[0].wifi = true
	}
	return list
}

// behind names the ports of a network, for the last screen.
func (n network) behind(a Answers) string {
	names := strings.ReplaceAll(portNames(n.ports), ", ", "+")
	switch {
	case !n.wifi:
		return names
	case names == "":
		return "Wi-Fi " + a.WiFi
	}
	return names + "+Wi-Fi"
}

// next is the same host in the network that follows.
func next(p netip.Prefix) netip.Prefix {
	b := p.Addr().As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n += 1 << (32 - p.Bits())
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), p.Bits())
}

// pool is the upper half of a network, without its last address and without the router's own.
func pool(p netip.Prefix) (first, last netip.Addr) {
	base := p.Masked().Addr().As4()
	n := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	size := uint32(1) << (32 - p.Bits())
	from, to := n+size/2, n+size-2
	at := func(n uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	switch own := p.Addr(); {
	case own == at(to):
		to--
	case at(from).Compare(own) <= 0 && own.Compare(at(to)) < 0: // the router sits in the upper half: give the lower one
		from, to = n+1, n+size/2-1
	}
	return at(from), at(to)
}

// Compose writes the configuration that complete answers make, with comments for
// whoever opens it for the first time.
func Compose(a Answers, ports []Port) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	lans := networks(a, ports)
	i, _ := findPort(ports, a.WAN)
	line("# Made by minne setup. Change it as you like, then: minne apply --confirm 5m")
	line("version: 1")
	line("")
	line("system:")
	line("  hostname: %s", a.Hostname)
	if a.setsPassword() || len(a.SSHKeys) > 0 {
		line("  admin:")
	}
	if a.setsPassword() {
		line("    password: %s  # the name of a secret in secrets.yaml", adminSecret)
	}
	if len(a.SSHKeys) > 0 {
		line("    ssh-keys:")
		for _, key := range a.SSHKeys {
			line("      - %q", strings.TrimSpace(key))
		}
	}
	if a.WiFi != "" {
		radios(line, a)
	}
	line("")
	line("interfaces:")
	switch a.WANAddress {
	case byPPPoE:
		session(line, a, ports[i])
	case byDHCP:
		line("  wan:")
		match(line, ports[i])
		line("    zone: wan")
		line("    dhcp: on")
	default:
		line("  wan:")
		match(line, ports[i])
		line("    zone: wan")
		line("    addresses: [%s]", a.WANAddress)
	}
	for _, n := range lans {
		switch {
		case len(n.ports) == 0:
			accessPoint(line, n.name, a)
		case len(n.ports) == 1 && !n.wifi:
			line("  %s:", n.name)
			match(line, n.ports[0])
		default:
			bridge(line, n, a)
		}
		line("    zone: lan")
		line("    addresses: [%s]", n.address)
		line("    anti-spoof: strict")
	}
	line("")
	line("# What comes from the LAN may go anywhere; what comes from the WAN only answers.")
	line("# The services below open their own ports in the LAN.")
	line("firewall:")
	line("  policies:")
	line("    - {from: lan, to: wan, default: permit}")
	line("")
	line("nat:")
	line("  - {from: lan, to: wan, masquerade: true}")
	if a.fixed() {
		line("")
		line("routing:")
		line("  static:")
		line("    - {prefix: 0.0.0.0/0, via: [%s]}", a.WANGateway)
	}
	line("")
	line("services:")
	line("  dhcp:")
	for _, n := range lans {
		first, last := pool(n.address)
		line("    %s: {pool: %s-%s}", n.name, first, last)
	}
	var names []string
	for _, n := range lans {
		names = append(names, n.name)
	}
	on := strings.Join(names, ", ")
	line("  dns:")
	line("    interfaces: [%s]", on)
	if a.fixed() {
		var servers []string
		for _, s := range a.WANDNS {
			servers = append(servers, fmt.Sprintf("%q", s))
		}
		line("    upstream: [%s]", strings.Join(servers, ", "))
	}
	line("    domain: home.arpa")
	line("    names: {%s: %s}", strings.ToLower(a.Hostname), lans[0].address.Addr())
	line("  ntp:")
	line("    servers: [%s]", timeServers)
	line("    interfaces: [%s]", on)
	if a.SSH != "off" {
		line("  ssh:")
		line("    interfaces: [%s]", on)
		if a.SSH == "password" {
			line("    passwords: on")
		}
	}
	return b.String()
}

// session is a WAN that is dialed: the port, a VLAN on it if the provider wants one, and the session, which has
// the address. Nobody needs to reach the modem.
func session(line func(string, ...any), a Answers, p Port) {
	parent := "modem"
	line("  modem:")
	match(line, p)
	line("    zone: modem")
	if a.VLAN != 0 {
		parent = "line"
		line("  line:")
		line("    vlan: {parent: modem, id: %d}", a.VLAN)
		line("    zone: modem")
	}
	line("  wan:")
	line("    pppoe:")
	line("      parent: %s", parent)
	line("      user: %q", a.User)
	line("      secret: %s  # the name of a secret in secrets.yaml", providerSecret)
	line("    zone: wan")
}

// bridge is a network of several ports, each with a name of its own. It does without the spanning tree, as a switch for a house does:
// a port would forward 30 seconds after its cable is there.
func bridge(line func(string, ...any), n network, a Answers) {
	var names []string
	for i, p := range n.ports {
		names = append(names, fmt.Sprintf("%s%d", n.name, i+1))
		line("  %s:", names[i])
		match(line, p)
	}
	if n.wifi {
		names = append(names, "wifi")
		accessPoint(line, "wifi", a)
	}
	line("  %s:", n.name)
	line("    bridge: {ports: [%s]}", strings.Join(names, ", "))
}

// match finds the port again by its MAC address, whatever its name is after the next boot.
func match(line func(string, ...any), p Port) {
	comment := p.Name
	if p.Driver != "" {
		comment += ", " + p.Driver
	}
	line("    match: {mac: %q}  # %s", p.MAC, comment)
}
