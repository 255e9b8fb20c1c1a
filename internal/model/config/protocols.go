// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// VRFRouting holds the routing protocols in one VRF.
type VRFRouting struct {
	RouterID netip.Addr `yaml:"router-id" json:"router-id,omitzero" doc:"Router ID of BGP and OSPF in the VRF, an IPv4 address. Absent: system.router-id." example:"192.0.2.7"`
	BGP      *BGP       `yaml:"bgp" json:"bgp,omitempty" doc:"BGP in the VRF, with an AS number of its own, which may be that of routing.bgp. All keys are those of routing.bgp."`
	OSPF     *OSPF      `yaml:"ospf" json:"ospf,omitempty" doc:"OSPFv2 in the VRF. All keys are those of routing.ospf."`
	OSPF3    *OSPF      `yaml:"ospf3" json:"ospf3,omitempty" doc:"OSPFv3 in the VRF. All keys are those of routing.ospf3."`
}

// Protocols are the routing protocols of one table, the main one or that of a VRF. They know nothing of those of others.
type Protocols struct {
	VRF      string // "" for the main table
	Path     string // of the section that they stand in
	RouterID netip.Addr
	BGP      *BGP
	OSPF     *OSPF
	OSPF3    *OSPF
}

// NeedRouterID says whether a protocol among them has a router ID.
func (p Protocols) NeedRouterID() bool { return p.BGP != nil || p.OSPF != nil || p.OSPF3 != nil }

// Protocols returns the protocols of the main table, and behind them those of each VRF by name.
func (cfg *Config) Protocols() []Protocols {
	r := cfg.Routing
	list := []Protocols{{"", "routing", cfg.System.RouterID, r.BGP, r.OSPF, r.OSPF3}}
	for _, name := range sortedKeys(r.VRFs) {
		v := r.VRFs[name]
		id := v.RouterID
		if !id.IsValid() {
			id = cfg.System.RouterID
		}
		list = append(list, Protocols{name, joinPath("routing.vrfs", name), id, v.BGP, v.OSPF, v.OSPF3})
	}
	return list
}

// protocols checks what each table's protocols mean, and that they keep to their table.
func (c *checker) protocols() {
	all := c.cfg.Protocols()
	for _, p := range all {
		switch {
		case p.VRF == "":
		case c.cfg.Interfaces[p.VRF] == nil: // the walk of names says so
			continue
		case c.cfg.Kind(p.VRF).Name != "vrf":
			c.refuse(p.Path, p.VRF+" is no VRF", "an interface with vrf: {table: N}", "")
			continue
		case !p.NeedRouterID():
			c.refuse(p.Path, fmt.Sprintf("there is no routing protocol for VRF %s", p.VRF), "bgp, ospf or ospf3", "")
		default:
			c.routerID(p.Path+".router-id", c.cfg.Routing.VRFs[p.VRF].RouterID)
		}
		if p.BGP != nil {
			c.bgp(p)
		}
		c.ospf(p, "ospf", p.OSPF, 4)
		c.ospf(p, "ospf3", p.OSPF3, 6)
		c.ownTable(p)
	}
	c.sameRestart(all)
}

// ownTable refuses interfaces of another table.
func (c *checker) ownTable(p Protocols) {
	for _, use := range InterfaceUses(c.cfg) {
		rest, found := strings.CutPrefix(use.Path, p.Path+".")
		protocol, _, _ := strings.Cut(rest, ".")
		if !found || !slices.Contains([]string{"bgp", "ospf", "ospf3"}, protocol) || c.cfg.Interfaces[use.Name] == nil {
			continue
		}
		if in := c.tableOf(use.Name); in != p.VRF {
			c.refuse(use.Path, fmt.Sprintf("%s is in %s", use.Name, tableWords(in)), "an interface in "+tableWords(p.VRF)+"; the place for this one is "+protocolsOf(in)+protocol, "")
		}
	}
}

// sameRestart refuses tables that differ in graceful restart: one daemon serves all of them, and zebra holds
// all routes of a daemon that has died, or none.
func (c *checker) sameRestart(all []Protocols) {
	type speaker struct {
		path string
		on   bool
	}
	for _, of := range []func(Protocols) (speaker, bool){
		func(p Protocols) (speaker, bool) {
			return speaker{p.Path + ".bgp", p.BGP != nil && p.BGP.GracefulRestart.On()}, p.BGP != nil
		},
		func(p Protocols) (speaker, bool) {
			return speaker{p.Path + ".ospf", p.OSPF != nil && p.OSPF.GracefulRestart.On()}, p.OSPF != nil
		},
		func(p Protocols) (speaker, bool) {
			return speaker{p.Path + ".ospf3", p.OSPF3 != nil && p.OSPF3.GracefulRestart.On()}, p.OSPF3 != nil
		},
	} {
		var first *speaker
		for _, p := range all {
			s, speaks := of(p)
			switch {
			case !speaks:
			case first == nil:
				first = &s
			case s.on != first.on:
				word := map[bool]string{true: "on", false: "off"}
				c.refuse(s.path+".graceful-restart", fmt.Sprintf("graceful restart is %s here and %s in %s: one daemon serves both", word[s.on], word[first.on], first.path), "the same in all tables", "")
			}
		}
	}
}

// tableWords names a table: that of a VRF, or the main one.
func tableWords(vrf string) string {
	if vrf == "" {
		return "the main table"
	}
	return "VRF " + vrf
}

// inVRF says in which VRF something is, "" for the main table.
func inVRF(vrf string) string {
	if vrf == "" {
		return ""
	}
	return " in VRF " + vrf
}

// protocolsOf is the path of the section of a table's protocols, with a dot behind it.
func protocolsOf(vrf string) string {
	if vrf == "" {
		return "routing."
	}
	return joinPath("routing.vrfs", vrf) + "."
}

// reachedIn says in which table a peer lies on a connected network, where it is not in its own.
func (c *checker) reachedIn(vrf string, a netip.Addr) (table string, elsewhere bool) {
	if _, here := c.connectedIn(vrf, a); here {
		return "", false
	}
	n, found := c.connected(a)
	return n.vrf, found
}
