// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// Tunnel carries packets inside packets to a far end, without encryption: GRE (RFC 2784, RFC 2890), IP in IP (RFC 2003),
// IPv6 in IPv4 (RFC 4213), and Ethernet frames in UDP (VXLAN, RFC 7348) with a fixed list of far ends.
type Tunnel struct {
	Type       TunnelType   `yaml:"type" json:"type" doc:"gre: IPv4 and IPv6. ipip: IPv4. 6in4: IPv6. vxlan: Ethernet frames; it can be a port of a bridge." required:"true" enum:"gre,ipip,6in4,vxlan"`
	Local      netip.Addr   `yaml:"local" json:"local,omitzero" doc:"This router's address that the tunnel uses. Absent: that of the route to the far end." example:"198.51.100.1"`
	Remote     netip.Addr   `yaml:"remote" json:"remote,omitzero" doc:"Address of the far end." example:"203.0.113.9"`
	Remotes    []netip.Addr `yaml:"remotes" json:"remotes,omitempty" doc:"Addresses of several far ends (vxlan only): broadcasts and frames to unknown hosts go to each of them. Every end lists all the others."`
	Key        int          `yaml:"key" json:"key,omitempty" doc:"Key that both ends share, so that several GRE tunnels lie between two addresses (RFC 2890). It is no secret." min:"1" max:"4294967295"`
	ID         int          `yaml:"id" json:"id,omitempty" doc:"VXLAN network identifier (VNI)." min:"1" max:"16777215" example:"100"`
	Port       int          `yaml:"port" json:"port,omitempty" doc:"UDP port of VXLAN, at both ends." default:"4789" min:"1" max:"65535"`
	TTL        int          `yaml:"ttl" json:"ttl,omitempty" doc:"TTL of the outer packets." default:"64" min:"1" max:"255"`
	Interfaces []string     `yaml:"interfaces" json:"interfaces,omitempty" doc:"Interfaces that lead to the far end: the firewall lets the tunnel's packets in there, from the far end alone. Absent: none, so they come in only where a firewall rule permits it." example:"wan" names:"interface"`
}

// TunnelType is how a tunnel wraps packets.
type TunnelType string

// Ends are the addresses of the far ends.
func (t *Tunnel) Ends() []netip.Addr {
	if t.Remote.IsValid() {
		return []netip.Addr{t.Remote}
	}
	return t.Remotes
}

func (t *Tunnel) kind() Kind {
	return Kind{Name: "tunnel", Routed: t.Type != "vxlan", Kernel: "the kernel carries what goes through tunnels"}
}

// maxVXLANRemotes bounds what one broadcast frame becomes.
const maxVXLANRemotes = 64

// kernelTunnels are links that the kernel makes by itself with the first tunnel of their kind.
var kernelTunnels = []string{"gre0", "gretap0", "erspan0", "tunl0", "sit0", "ip6tnl0", "ip6gre0"}

// wrapping is what makes a tunnel another one to the kernel: with all of it the same, packets could be for either.
type wrapping struct {
	kind          TunnelType
	local, remote netip.Addr
	number        int
}

func (t *Tunnel) check(c *checker, path, name string) {
	if slices.Contains(kernelTunnels, name) {
		c.refuse(joinPath("interfaces", name), fmt.Sprintf("%s is the name of a link that the kernel makes by itself", name), "another name", "")
	}
	only := func(key string, of TunnelType) {
		if c.cfg.Chosen(path+"."+key) && t.Type != of {
			c.refuse(path+"."+key, fmt.Sprintf("a tunnel of type %s has no %s", t.Type, key), "type: "+string(of), "")
		}
	}
	only("key", "gre")
	only("id", "vxlan")
	only("port", "vxlan")
	if t.Type == "vxlan" && t.ID == 0 {
		c.refuse(path, "id is missing", "the VXLAN network identifier, as id: 100", "")
	}
	t.checkEnds(c, path, name)
	once(c, path+".interfaces", t.Interfaces, func(s string) string { return s })
	for n, at := range t.Interfaces {
		if at == name {
			c.refuse(indexPath(path+".interfaces", n), name+" can't carry its own packets", "the interface that leads to the far end", "")
		}
	}
	if i := c.cfg.Interfaces[name]; i.DHCP.On() && t.Type != "vxlan" {
		c.refuse(joinPath("interfaces", name)+".dhcp", name+" carries no Ethernet frames, and DHCP needs them", "addresses", "")
	}
	if i, mtu := c.cfg.Interfaces[name], c.cfg.tunnelMTU(name, t); i.MTU > mtu {
		c.refuse(joinPath("interfaces", name)+".mtu", fmt.Sprintf("mtu %d does not fit into the tunnel", i.MTU), fmt.Sprintf("at most %d, which it has without mtu", mtu), "")
	} else if mtu < 1280 && t.Type != "ipip" && c.hasIPv6(name, i) {
		c.refuse(path, fmt.Sprintf("the tunnel's MTU is %d, which is too small for IPv6", mtu), "1280 or more (RFC 8200 section 5)", "")
	}
}

// checkEnds refuses addresses that can't be a tunnel's.
func (t *Tunnel) checkEnds(c *checker, path, name string) {
	switch n := len(t.Remotes); {
	case n > 0 && t.Type != "vxlan":
		c.refuse(path+".remotes", fmt.Sprintf("a tunnel of type %s has one far end", t.Type), "remote: its address", "")
	case n > 0 && t.Remote.IsValid():
		c.refuse(path+".remotes", name+" has remote and remotes", "one of them", "")
	case n > maxVXLANRemotes:
		c.refuse(path+".remotes", fmt.Sprintf("%s has %d far ends", name, n), fmt.Sprintf("at most %d", maxVXLANRemotes), "")
	case len(t.Ends()) == 0:
		c.refuse(path, name+" has no far end", "remote: its address", "")
	}
	once(c, path+".remotes", t.Remotes, netip.Addr.String)
	unusable := func(a netip.Addr) bool {
		return a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Zone() != ""
	}
	if t.Local.IsValid() && unusable(t.Local) {
		c.refuse(path+".local", fmt.Sprintf("%s can't be a tunnel's end", t.Local), "an address of this router", "")
	}
	for n, r := range t.Ends() {
		at := path + ".remote"
		if !t.Remote.IsValid() {
			at = indexPath(path+".remotes", n)
		}
		switch {
		case unusable(r):
			c.refuse(at, fmt.Sprintf("%s can't be a tunnel's end", r), "an address of the far end", "")
		case t.Type != "vxlan" && !r.Is4():
			c.refuse(at, fmt.Sprintf("a tunnel of type %s goes over IPv4", t.Type), "an IPv4 address, or type: vxlan", "")
		case r.Is4() != t.Ends()[0].Is4() || t.Local.IsValid() && r.Is4() != t.Local.Is4():
			c.refuse(at, "the tunnel's ends are of IPv4 and of IPv6", "all of one of them", "")
		case !r.Is4() && !t.Local.IsValid():
			c.refuse(path, "a tunnel over IPv6 needs its own address", "local: this router's address", "")
		case r == t.Local || c.cfg.interfaceWith(r) != "":
			c.refuse(at, fmt.Sprintf("%s is an address of this router", r), "an address of the far end", "")
		}
		w := wrapping{t.Type, t.Local, r, t.Key}
		if t.Type == "vxlan" { // the kernel has one link for a number on a port
			w = wrapping{kind: t.Type, number: t.ID<<16 | t.Port}
		}
		if other, taken := c.taken[w]; taken && other != name {
			c.refuse(at, fmt.Sprintf("%s is such a tunnel already", other), map[bool]string{true: "another id or port", false: "another address, or a key (gre)"}[t.Type == "vxlan"], "")
		}
		c.taken[w] = name
	}
}

// interfaceWith is the interface that has an address, "" for none.
func (cfg *Config) interfaceWith(a netip.Addr) string {
	for _, name := range sortedKeys(cfg.Interfaces) {
		for _, own := range cfg.Interfaces[name].Addresses {
			if own.Addr() == a {
				return name
			}
		}
	}
	return ""
}

func (t *Tunnel) odd(c *checker, path, _ string) {
	if t.Local.IsValid() && c.cfg.interfaceWith(t.Local) == "" {
		c.refuse(path+".local", fmt.Sprintf("%s is no address of the configuration: the tunnel carries nothing while this router does not have it", t.Local), "", "")
	}
	if len(t.Interfaces) == 0 && slices.ContainsFunc(sortedKeys(c.cfg.Interfaces), func(n string) bool { return c.cfg.Interfaces[n].Zone != "" }) {
		c.refuse(path, "the firewall drops what the far end sends first: the tunnel has no interfaces to let it in", "interfaces: [the one that leads there]", "")
	}
}

// Overhead of a tunnel in bytes: what it puts in front of the inner IP packet.
func (t *Tunnel) overhead() int {
	outer := 20
	if ends := t.Ends(); len(ends) > 0 && ends[0].Is6() {
		outer = 40
	}
	switch {
	case t.Type == "vxlan":
		return outer + 8 + 8 + 14 // UDP, VXLAN, the inner frame's Ethernet header
	case t.Type == "gre" && t.Key != 0:
		return outer + 8
	case t.Type == "gre":
		return outer + 4
	}
	return outer
}

// tunnelMTU is the largest packet that a tunnel carries without fragments: by the smallest MTU of the interfaces that it
// names, else by that of the interface with its own address, else by Ethernet's.
func (cfg *Config) tunnelMTU(name string, t *Tunnel) int {
	below := t.Interfaces
	if len(below) == 0 && t.Local.IsValid() {
		below = []string{cfg.interfaceWith(t.Local)}
	}
	smallest := 0
	for _, n := range below {
		if mtu := cfg.mtuOf(n, map[string]bool{name: true}); mtu != 0 && (smallest == 0 || mtu < smallest) {
			smallest = mtu
		}
	}
	if smallest == 0 {
		smallest = ethernetMTU
	}
	return smallest - t.overhead()
}

// mtuOf is an interface's MTU as far as the configuration says; 0 for unknown.
func (cfg *Config) mtuOf(name string, seen map[string]bool) int {
	i := cfg.Interfaces[name]
	if i == nil || seen[name] {
		return 0
	}
	seen[name] = true
	switch k := cfg.Kind(name); {
	case i.MTU != 0:
		return i.MTU
	case i.PPPoE != nil:
		return PPPoEMTU
	case i.Tunnel != nil:
		return cfg.tunnelMTU(name, i.Tunnel)
	case k.Name == "wireguard":
		return wireGuardMTU
	case len(k.Parents) > 0:
		return cfg.mtuOf(k.Parents[0].Name, seen)
	}
	return 0
}

// wireGuardMTU is what the kernel gives a WireGuard interface: room for IPv6 outside.
const wireGuardMTU = 1420

// MTU is what an interface's link shall have: the configured one, or what its kind computes; 0 for what it has by itself.
func (cfg *Config) MTU(name string) int {
	if i := cfg.Interfaces[name]; i != nil && i.MTU == 0 && i.Tunnel != nil {
		return cfg.tunnelMTU(name, i.Tunnel)
	} else if i != nil {
		return i.MTU
	}
	return 0
}
