// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxOSPFKey is the length of a key in bytes: RFC 2328 D.3 for version 2; FRR's limit for version 3.
var maxOSPFKey = map[int]int{4: 16, 6: 64}

// ospf checks one OSPF process; family is 4 for version 2 and 6 for version 3.
func (c *checker) ospf(in Protocols, key string, o *OSPF, family int) {
	if o == nil {
		return
	}
	path := in.Path + "." + key
	if len(o.Areas) == 0 {
		c.refuse(path+".areas", "OSPF without an area does nothing", "areas with at least one area and its interfaces", "")
	}
	areaOf := map[string]AreaID{}
	for _, id := range slices.Sorted(maps.Keys(o.Areas)) {
		area, at := o.Areas[id], joinPath(path+".areas", id.String())
		if id == 0 && area.Type != "normal" {
			c.refuse(at+".type", fmt.Sprintf("area 0 is the backbone and can't be %s", area.Type), "normal", "")
		}
		for _, name := range sortedKeys(area.Interfaces) {
			where := joinPath(at+".interfaces", name)
			if c.cfg.Interfaces[name] == nil {
				continue
			}
			if other, again := areaOf[name]; again {
				c.refuse(where, fmt.Sprintf("%s is in area %s already", name, other), "each interface in one area", "")
			}
			areaOf[name] = id
			c.ospfInterface(where, name, area.Interfaces[name], family)
		}
	}
	c.ospfRoutes(path, o, in)
}

// ospfRoutes checks what the process takes from others.
func (c *checker) ospfRoutes(path string, o *OSPF, in Protocols) {
	once(c, path+".redistribute", o.Redistribute, func(r Redistribute) string { return string(r) })
	if bgp := in.Path + ".bgp"; in.BGP == nil {
		if i := slices.Index(o.Redistribute, "bgp"); i >= 0 {
			c.refuse(indexPath(path+".redistribute", i), bgp+" is not configured, so there are no routes to redistribute", bgp+", or another word", "")
		}
		if o.DefaultRoute == "bgp" {
			c.refuse(path+".default-route", bgp+" is not configured, so there is no default route from BGP", bgp+", or always or never", "")
		}
	}
	const megabit = 1_000_000
	if r := o.ReferenceBandwidth; r == 0 || r%megabit != 0 || r/megabit > 4294967 {
		c.refuse(path+".reference-bandwidth", fmt.Sprintf("reference bandwidth %s is out of range", r), "whole Mbit from 1Mbit to 4294967Mbit", "")
	}
}

func (c *checker) ospfInterface(path, name string, o *OSPFInterface, family int) {
	if family == 4 && !c.hasIPv4(name) {
		c.refuse(path, fmt.Sprintf("%s has no IPv4 address, so OSPFv2 can't run on it", name), "an IPv4 address in interfaces."+name, "")
	}
	good := c.seconds(path+".hello", o.Hello, 1, 65535)
	good = c.seconds(path+".dead", o.Dead, 1, 65535) && good
	if good && o.Dead <= o.Hello {
		at := path + ".dead"
		if !c.cfg.Written(at) {
			at = path + ".hello"
		}
		c.refuse(at, fmt.Sprintf("dead (%s) is not longer than hello (%s)", o.Dead, o.Hello), fmt.Sprintf("dead longer than hello, as a rule four times: %s", 4*o.Hello), "")
	}
	if o.Auth != nil {
		c.ospfAuth(path+".auth", o.Auth, family)
	}
}

func (c *checker) hasIPv4(name string) bool {
	return slices.ContainsFunc(c.cfg.Interfaces[name].Addresses, func(a Address) bool { return a.Addr().Is4() })
}

// ospfAuth checks a key without ever telling it.
func (c *checker) ospfAuth(path string, a *OSPFAuth, family int) {
	if family == 4 && a.Algorithm != "" && a.Algorithm != "md5" {
		c.refuse(path+".algorithm", fmt.Sprintf("OSPFv2 can't authenticate by %s", a.Algorithm), "md5", "")
	}
	value, ok := c.secrets.Get(a.Secret)
	switch {
	case !ok:
	case len(value) > maxOSPFKey[family]:
		c.refuse(path+".secret", "the key in the secrets file is too long", fmt.Sprintf("at most %d bytes", maxOSPFKey[family]), "")
	case strings.ContainsAny(value, " \t"):
		c.refuse(path+".secret", "the key in the secrets file has blanks", "a key without blanks", "")
	}
}
