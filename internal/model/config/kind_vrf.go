// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// VRF makes a routing table of their own for the interfaces in it.
type VRF struct {
	Table      int      `yaml:"table" json:"table" doc:"Number of the VRF's routing table in the kernel. 253 to 255 are the kernel's own." min:"1" max:"2147483647" required:"true" example:"100"`
	Interfaces []string `yaml:"interfaces" json:"interfaces,omitempty" doc:"The interfaces in the VRF. They keep their addresses and their services." names:"interface" example:"mgmt0"`
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
	for n, member := range v.Interfaces {
		if c.cfg.Kind(member).Name == "vrf" {
			c.refuse(indexPath(path+".interfaces", n), member+" is a VRF itself", "an interface that is none", "")
		}
		// The kernel looks up the source in the VRF only where it also asks for the interface.
		if i := c.cfg.Interfaces[member]; i != nil && i.AntiSpoof == "loose" {
			c.refuse(joinPath("interfaces", member)+".anti-spoof", fmt.Sprintf("the loose check of %s, which is in a VRF, would look at the main table", member), "strict or off", "")
		}
	}
}

func (v *VRF) odd(c *checker, path, name string) {
	if len(v.Interfaces) == 0 {
		c.refuse(path, name+" has no interfaces: no packet is routed in it", "", "")
	}
}
