// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"time"
)

// Babel is the Babel process, which speaks for both families of addresses.
type Babel struct {
	Interfaces   map[string]*BabelInterface `yaml:"interfaces" json:"interfaces" doc:"Interfaces with Babel neighbours. {} means all defaults. IPv4 needs an IPv4 address on each." required:"true" names:"interface"`
	Redistribute []Redistribute             `yaml:"redistribute" json:"redistribute,omitempty" doc:"Routes that are redistributed into Babel. connected: the router's networks; static: static routes, and default routes from providers (DHCP, DHCPv6, PPPoE), as a gateway of a mesh has them." enum:"connected,static,ospf,bgp"`
}

// BabelInterface is Babel on one interface.
type BabelInterface struct {
	Type   BabelType `yaml:"type" json:"type,omitempty" doc:"wired: a neighbour is there or not. wireless: links lose packets, their cost follows the loss (ETX), and routes are told back to where they came from, as others there hear them." default:"wired" enum:"wired,wireless"`
	Cost   int       `yaml:"cost" json:"cost,omitempty" doc:"Cost of receiving on this interface (rxcost). Absent: 96 on wired, 256 on wireless interfaces." min:"1" max:"65534"`
	Hello  Duration  `yaml:"hello" json:"hello,omitempty" doc:"Hello interval." default:"4s"`
	Update Duration  `yaml:"update" json:"update,omitempty" doc:"Update interval: all routes are told again this often." default:"16s"`
}

// BabelType is the kind of an interface's link.
type BabelType string

// FRR's bounds of both intervals (babeld's commands babel hello-interval and babel update-interval).
const minBabelInterval, maxBabelInterval = 20 * time.Millisecond, 655340 * time.Millisecond

// babel checks the Babel process.
func (c *checker) babel(path string, b *Babel) {
	if b == nil {
		return
	}
	if len(b.Interfaces) == 0 {
		c.refuse(path+".interfaces", "Babel without an interface does nothing", "interfaces with at least one interface", "")
	}
	once(c, path+".redistribute", b.Redistribute, func(r Redistribute) string { return string(r) })
	for _, need := range []struct {
		word Redistribute
		on   bool
		key  string
	}{{"bgp", c.cfg.Routing.BGP != nil, "routing.bgp"}, {"ospf", c.cfg.Routing.OSPF != nil || c.cfg.Routing.OSPF3 != nil, "routing.ospf"}} {
		if i := slices.Index(b.Redistribute, need.word); i >= 0 && !need.on {
			c.refuse(indexPath(path+".redistribute", i), need.key+" is not configured, so there are no routes to redistribute", need.key+", or another word", "")
		}
	}
	for _, name := range sortedKeys(b.Interfaces) {
		if c.cfg.Interfaces[name] == nil {
			continue
		}
		at := joinPath(path+".interfaces", name)
		if in := c.tableOf(name); in != "" {
			c.refuse(at, fmt.Sprintf("%s is in VRF %s, and FRR's babeld knows no VRFs", name, in), "an interface outside of VRFs", "")
		}
		for key, d := range map[string]Duration{"hello": b.Interfaces[name].Hello, "update": b.Interfaces[name].Update} {
			if t := time.Duration(d); t < minBabelInterval || t > maxBabelInterval || t%time.Millisecond != 0 {
				c.refuse(at+"."+key, fmt.Sprintf("%s is out of range", d), "20ms to 655s", "")
			}
		}
	}
}

// oddBabel warns of what does nothing or too much.
func (c *checker) oddBabel(path string, b *Babel) {
	if b == nil {
		return
	}
	for _, name := range sortedKeys(b.Interfaces) {
		if i := c.cfg.Interfaces[name]; i != nil && i.Disabled {
			c.refuse(joinPath(path+".interfaces", name), fmt.Sprintf("%s is disabled, so Babel does not run on it", name), "", "")
		}
	}
	if i := slices.Index(b.Redistribute, "bgp"); i >= 0 && takesWholeTable(c.cfg.Routing.BGP) {
		c.refuse(indexPath(path+".redistribute", i), "redistributing BGP puts the whole Internet table into Babel, which small routers cannot hold", "static instead, with a static default route", "")
	}
}
