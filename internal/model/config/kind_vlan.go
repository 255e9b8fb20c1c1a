// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// VLAN says on what a VLAN interface sits. A parent that is itself a VLAN gives QinQ.
type VLAN struct {
	Parent   string    `yaml:"parent" json:"parent" doc:"Interface that carries the tagged frames, also a VLAN (QinQ)." required:"true" names:"interface"`
	ID       int       `yaml:"id" json:"id" doc:"VLAN id." min:"1" max:"4094" required:"true"`
	Protocol VLANProto `yaml:"protocol" json:"protocol,omitempty" doc:"Type of the tag: 802.1q, or 802.1ad for the outer tag of QinQ." default:"802.1q" enum:"802.1q,802.1ad"`
}

// VLANProto is the type of a VLAN's tag.
type VLANProto string

// maxTags is how many VLAN tags a frame may carry (QinQ).
const maxTags = 2

func (v *VLAN) kind() Kind {
	return Kind{Name: "vlan", Parents: []Parent{{"parent", v.Parent}}, FastPath: ParentProgram}
}

func (v *VLAN) check(c *checker, path, name string) {
	if other, taken := c.taken[*v]; taken {
		c.refuse(path+".id", fmt.Sprintf("interface %s is already VLAN %d (%s) on %s", other, v.ID, v.Protocol, v.Parent), "another id", "")
	}
	c.taken[*v] = name
	if p := c.cfg.Interfaces[v.Parent]; p.WiFi != nil && !p.WiFi.bridgeable() {
		c.refuse(path+".parent", fmt.Sprintf("%s is %s, which carries no tags", v.Parent, p.WiFi.uses()), "a port, or an access point", "")
	}
	tags := 1
	for p := c.cfg.Interfaces[v.Parent]; p != nil && p.VLAN != nil && tags <= len(c.cfg.Interfaces); p = c.cfg.Interfaces[p.VLAN.Parent] {
		tags++
	}
	if tags > maxTags {
		c.refuse(path+".parent", fmt.Sprintf("%s would carry %d tags", name, tags), fmt.Sprintf("at most %d (QinQ)", maxTags), "")
	}
}

func (v *VLAN) odd(c *checker, path, _ string) {
	if p := c.cfg.Interfaces[v.Parent]; p != nil && p.VLAN != nil && v.Protocol == "802.1ad" {
		c.refuse(path+".protocol", "802.1ad is the inner tag here; normally it is the outer one", "", "")
	}
}
