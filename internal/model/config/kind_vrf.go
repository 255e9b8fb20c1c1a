// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// VRF makes a routing table of their own for the interfaces in it.
type VRF struct {
	Table      int      `yaml:"table" json:"table" doc:"Number of the VRF's routing table in the kernel. 253 to 255 are the kernel's own." min:"1" max:"2147483647" required:"true" example:"100"`
	Interfaces []string `yaml:"interfaces" json:"interfaces,omitempty" doc:"The interfaces in the VRF. They keep their addresses; SSH can listen on them." names:"interface" example:"mgmt0"`
}

func (v *VRF) kind() Kind {
	return Kind{Name: "vrf", Alone: true, Members: membersOf("interfaces", v.Interfaces)}
}

func (v *VRF) check(c *checker, path, name string) {
	if v.Table >= 253 && v.Table <= 255 {
		c.refuse(path+".table", fmt.Sprintf("table %d is the kernel's own", v.Table), "another number", "")
	}
	type table int
	if other, taken := c.taken[table(v.Table)]; taken {
		c.refuse(path+".table", fmt.Sprintf("table %d is that of %s", v.Table, other), "another number", "")
	}
	c.taken[table(v.Table)] = name
	// The kernel shows the rules of the firewall a packet of a VRF as one that came in by the VRF, not by its port.
	for _, other := range sortedKeys(c.cfg.Interfaces) {
		if c.cfg.Interfaces[other].Zone != "" && len(v.Interfaces) > 0 {
			c.refuse(path, fmt.Sprintf("the firewall does not know VRFs: with the zone of %s, it would drop all packets of %s", other, name), "either VRFs or zones", "")
			break
		}
	}
	for n, member := range v.Interfaces {
		if c.cfg.Kind(member).Name == "vrf" {
			c.refuse(indexPath(path+".interfaces", n), member+" is a VRF itself", "an interface that is none", "")
		}
	}
}

func (v *VRF) odd(c *checker, path, name string) {
	if len(v.Interfaces) == 0 {
		c.refuse(path, name+" has no interfaces: no packet is routed in it", "", "")
	}
}
