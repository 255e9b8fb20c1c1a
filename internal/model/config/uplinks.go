// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Uplink is one line to the Internet: an interface that leads to a provider. With two of them or more, packets leave by
// another one in the moment in which one fails.
type Uplink struct {
	Priority int           `yaml:"priority" json:"priority,omitempty" doc:"Which uplink takes over when another one fails: the one with the lowest number that works." default:"100" min:"1" max:"65535"`
	Gateways []netip.Addr  `yaml:"gateways" json:"gateways,omitempty" doc:"The provider's router, at most one address of each family. Absent: BGP peers on the interface, static default routes, and what the provider gives (DHCP, router advertisements, PPPoE)." example:"198.51.100.1"`
	Health   *UplinkHealth `yaml:"health" json:"health,omitempty" doc:"Checks whether packets come back by this uplink. Absent: an uplink fails with its link, and with BFD of BGP peers on it."`
}

// UplinkHealth is how an uplink is checked: by pings that leave by it, whatever the routes say.
type UplinkHealth struct {
	Ping     []netip.Addr `yaml:"ping" json:"ping" doc:"Addresses in the Internet that answer pings. The uplink works while one of them answers. Use several, of different operators." required:"true" example:"192.0.2.53"`
	Interval Duration     `yaml:"interval" json:"interval,omitempty" doc:"Time between two pings to a target, 100ms to 1m." default:"1s"`
	Fail     int          `yaml:"fail" json:"fail,omitempty" doc:"After this many intervals without any answer the uplink has failed." default:"3" min:"1" max:"100"`
	Recover  int          `yaml:"recover" json:"recover,omitempty" doc:"After this many intervals in a row with an answer a failed uplink works again." default:"5" min:"1" max:"1000"`
	Loss     int          `yaml:"loss" json:"loss,omitempty" doc:"The uplink has also failed while more than this part of the pings of the last 30 intervals is lost, in percent. Absent: only silence counts." min:"1" max:"99"`
	Delay    Duration     `yaml:"delay" json:"delay,omitempty" doc:"The uplink has also failed while the median delay of the last 30 intervals is above this. Absent: any delay is good."`
}

// mostTargets bounds the pings of an uplink.
const mostTargets = 8

// uplinks checks the lines to the Internet.
func (c *checker) uplinks() {
	for _, name := range sortedKeys(c.cfg.Uplinks) {
		path, u := joinPath("uplinks", name), c.cfg.Uplinks[name]
		i := c.cfg.Interfaces[name]
		if i == nil {
			continue // said already
		}
		switch vrf := c.tableOf(name); {
		case vrf != "":
			c.refuse(path, fmt.Sprintf("%s is in VRF %s, whose routes are not in the main table, where uplinks take over from each other", name, vrf), "an interface outside of VRFs", "")
		case c.cfg.Kind(name).Name == "vrf" || c.masters[name].Kind.Bundles:
			c.refuse(path, name+" has no packets of its own", "a port, VLAN, bond, bridge, PPPoE session or tunnel", "")
		}
		if len(c.cfg.Uplinks) == 1 {
			c.refuse(path, "one uplink alone has nothing to fall back on", "a second uplink, or no section uplinks", "")
		}
		c.uplinkGateways(path+".gateways", name, u.Gateways)
		if u.Health != nil {
			c.uplinkHealth(path+".health", u.Health)
		}
	}
}

func (c *checker) uplinkGateways(path, name string, list []netip.Addr) {
	seen := map[bool]bool{}
	for k, g := range list {
		at := indexPath(path, k)
		if seen[g.Is4()] {
			c.refuse(at, "a second gateway of the same family", "at most one IPv4 and one IPv6 address", "")
		}
		seen[g.Is4()] = true
		i := c.cfg.Interfaces[name]
		_, connected := c.networkOf(name, g)
		switch {
		case g.IsUnspecified() || g.IsMulticast() || g.IsLoopback() || g.Zone() != "":
			c.refuse(at, g.String()+" can't be a gateway", "the address of the provider's router", "")
		case !c.cfg.UplinkNeedsGateway(name):
			c.refuse(at, name+" needs no gateway: packets go to its other end", "no gateways", "")
		case connected || g.IsLinkLocalUnicast() || i.leases():
		default:
			c.refuse(at, fmt.Sprintf("%s is in no network of %s", g, name), c.ownNetworks(name, g.Is4()), "")
		}
		if c.owners[place{"", g}] != "" {
			c.refuse(at, g.String()+" is the router's own address", "the address of the provider's router", "")
		}
	}
}

func (c *checker) uplinkHealth(path string, h *UplinkHealth) {
	if len(h.Ping) == 0 || len(h.Ping) > mostTargets {
		c.refuse(path+".ping", fmt.Sprintf("%d targets", len(h.Ping)), fmt.Sprintf("1 to %d addresses", mostTargets), "")
	}
	once(c, path+".ping", h.Ping, netip.Addr.String)
	for k, a := range h.Ping {
		if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() || c.owners[place{"", a}] != "" {
			c.refuse(indexPath(path+".ping", k), a.String()+" says nothing about the way into the Internet", "an address behind the provider", "")
		}
	}
	if t := h.Interval.Std(); t < 100*time.Millisecond || t > time.Minute {
		c.refuse(path+".interval", fmt.Sprintf("interval %s is out of range", h.Interval), "100ms to 1m", "")
	}
	if t := h.Delay.Std(); t < 0 || t > 10*time.Second {
		c.refuse(path+".delay", fmt.Sprintf("delay %s is out of range", h.Delay), "at most 10s", "")
	}
}

// oddUplinks warns of source checks that drop what comes in by an uplink that packets don't leave by.
func (c *checker) oddUplinks() {
	for _, name := range sortedKeys(c.cfg.Uplinks) {
		if i := c.cfg.Interfaces[name]; i != nil && i.AntiSpoof == "strict" {
			c.refuse(joinPath("interfaces", name)+".anti-spoof", fmt.Sprintf("%s is an uplink: while packets leave by another one, what comes in by it is dropped", name), "loose or off", "")
		}
	}
	if b := c.cfg.Routing.BGP; b != nil && b.Multipath > 1 && len(c.cfg.Uplinks) > 1 {
		c.refuse("routing.bgp.multipath", "routes over several uplinks at once wait for BGP when one of them fails: the kernel can't pass over a part of a route", "multipath 1 with uplinks", "")
	}
}

// UplinkGateways are the gateways of an uplink that the configuration knows, the better ones first: those that it names, its BGP
// peers, and static default routes.
func (cfg *Config) UplinkGateways(name string) (list []netip.Addr) {
	add := func(a netip.Addr) {
		if a.IsValid() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for _, g := range cfg.Uplinks[name].Gateways {
		add(g)
	}
	for _, p := range cfg.UplinkPeers(name) {
		add(p.Address)
	}
	for _, r := range cfg.Routing.Static {
		if r.Prefix.Bits() != 0 || r.VRF != "" {
			continue
		}
		for _, via := range r.Via {
			if _, connected := NetworkOf(cfg.Interfaces[name], via.Address); via.Interface == name || via.Interface == "" && connected {
				add(via.Address)
			}
		}
	}
	return list
}

// UplinkNeedsGateway says whether packets by an uplink need one: not by a link with two ends.
func (cfg *Config) UplinkNeedsGateway(name string) bool {
	k := cfg.Kind(name)
	return !k.Routed && !k.Dialed
}

// UplinkPeers are the enabled BGP peers on the network of an uplink, in the order of their names.
func (cfg *Config) UplinkPeers(name string) (list []*BGPPeer) {
	if cfg.Routing.BGP == nil {
		return nil
	}
	for _, peer := range sortedKeys(cfg.Routing.BGP.Peers) {
		p := cfg.Routing.BGP.Peers[peer]
		_, connected := NetworkOf(cfg.Interfaces[name], p.Address)
		if !p.Disabled && p.Multihop == 0 && p.ASN != cfg.Routing.BGP.ASN && (p.Interface == name || p.Interface == "" && connected) {
			list = append(list, p)
		}
	}
	return list
}
