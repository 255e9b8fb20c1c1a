// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
)

// Bridge makes one network of several ports (IEEE 802.1Q bridge).
type Bridge struct {
	Ports    []string               `yaml:"ports" json:"ports,omitempty" doc:"The ports of the bridge: ports, bonds, VLANs and Wi-Fi. They have no addresses, zone or services of their own. The bridge has the MAC address of the first." ordered:"true" names:"interface" example:"eth1"`
	VLANs    map[string]*BridgeVLAN `yaml:"vlans" json:"vlans,omitempty" doc:"Makes the bridge VLAN-aware: which VLANs each of its ports carries. The router's own interfaces on the bridge's VLANs are interfaces with vlan: {parent: BRIDGE, id: N}." names:"interface"`
	Isolated []string               `yaml:"isolated" json:"isolated,omitempty" doc:"Ports whose hosts reach the router and the other ports, but not each other." names:"interface"`
	STP      bool                   `yaml:"stp" json:"stp,omitempty" doc:"Spanning tree (IEEE 802.1D): finds loops and opens them. A port forwards 30 seconds after its cable is there." default:"off"`
	Snooping *OnOff                 `yaml:"multicast-snooping" json:"multicast-snooping,omitempty" doc:"Sends multicast only to the ports that asked for it (IGMP and MLD snooping)." default:"on" enum:"on,off"`
}

// BridgeVLAN says which VLANs a port of a bridge carries: one without a tag (access), or several with tags (trunk).
type BridgeVLAN struct {
	Access int         `yaml:"access" json:"access,omitempty" doc:"The VLAN of an access port: its frames have no tag." min:"1" max:"4094"`
	Trunk  []VLANRange `yaml:"trunk" json:"trunk,omitempty" doc:"The VLANs of a trunk: ids, and ranges as 100-199. Their frames are tagged." example:"10"`
	Native int         `yaml:"native" json:"native,omitempty" doc:"Native VLAN of a trunk: that of frames without a tag. Absent: frames without a tag are dropped." min:"1" max:"4094"`
}

func (b *Bridge) kind() Kind {
	return Kind{Name: "bridge", Members: membersOf("ports", b.Ports), Bundles: true, FastPath: OwnProgram}
}

// bridged are the kinds of interfaces that a bridge takes besides ports: those with Ethernet frames.
var bridged = []string{"bond", "vlan", "tunnel", "wifi"}

func (b *Bridge) check(c *checker, path, name string) {
	for n, p := range b.Ports {
		if k := c.cfg.Kind(p); c.cfg.Interfaces[p] != nil && !k.Port && p != loopback && !slices.Contains(bridged, k.Name) {
			c.refuse(indexPath(path+".ports", n), fmt.Sprintf("%s is a %s, which is no port of a bridge", p, k.Name), "a port, a bond, a VLAN, a tunnel of type vxlan or Wi-Fi", "")
		}
		if i := c.cfg.Interfaces[p]; i != nil && i.WiFi != nil && !i.WiFi.bridgeable() {
			c.refuse(indexPath(path+".ports", n), fmt.Sprintf("%s is %s, whose frames have its own MAC address alone", p, i.WiFi.uses()), "an access point", "")
		}
	}
	for n, p := range b.Isolated {
		if c.cfg.Interfaces[p] != nil && !slices.Contains(b.Ports, p) {
			c.refuse(indexPath(path+".isolated", n), p+" is no port of "+name, "one of ports", "")
		}
	}
	once(c, path+".isolated", b.Isolated, func(s string) string { return s })
	if len(b.VLANs) == 0 {
		return
	}
	for n, p := range b.Ports {
		if b.VLANs[p] == nil {
			c.refuse(indexPath(path+".ports", n), fmt.Sprintf("%s is VLAN-aware, and %s is in no VLAN", name, p), "its line in vlans, as "+p+": {access: 10}", "")
		}
	}
	for _, p := range slices.Sorted(maps.Keys(b.VLANs)) {
		at := joinPath(path+".vlans", p)
		if c.cfg.Interfaces[p] != nil && !slices.Contains(b.Ports, p) {
			c.refuse(at, p+" is no port of "+name, "one of ports", "")
		}
		b.VLANs[p].check(c, at)
	}
	if i := c.cfg.Interfaces[name]; len(i.Addresses) > 0 || i.DHCP.On() {
		key := "addresses"
		if len(i.Addresses) == 0 {
			key = "dhcp"
		}
		c.refuse(joinPath("interfaces", name)+"."+key, fmt.Sprintf("%s is VLAN-aware and has no VLAN itself", name), "an interface with vlan: {parent: "+name+", id: N}", "")
	}
}

func (v *BridgeVLAN) check(c *checker, path string) {
	switch {
	case v == nil || v.Access == 0 && len(v.Trunk) == 0:
		c.refuse(path, "the port is in no VLAN", "access: ID, or trunk: [IDs]", "")
	case v.Access != 0 && len(v.Trunk) > 0:
		c.refuse(path+".access", "the port is an access port and a trunk", "either access, or trunk with native", "")
	case v.Access != 0 && v.Native != 0:
		c.refuse(path+".native", "an access port has no native VLAN", "access alone", "")
	}
}

// IDs are the VLANs that the port carries; untagged is the one without a tag, 0 for none.
func (v *BridgeVLAN) IDs() (ids []int, untagged int) {
	if v.Access != 0 {
		return []int{v.Access}, v.Access
	}
	for _, r := range v.Trunk {
		for id := r.First; id <= r.Last; id++ {
			ids = append(ids, id)
		}
	}
	if v.Native != 0 {
		ids = append(ids, v.Native)
	}
	slices.Sort(ids)
	return slices.Compact(ids), v.Native
}

func (b *Bridge) odd(c *checker, path, name string) {
	if len(b.Ports) == 0 {
		c.refuse(path, name+" has no ports: it has no carrier", "", "")
	}
	if b.VLANs == nil {
		return
	}
	carried := map[int]bool{}
	for _, v := range b.VLANs {
		ids, _ := v.IDs()
		for _, id := range ids {
			carried[id] = true
		}
	}
	for _, other := range sortedKeys(c.cfg.Interfaces) {
		if v := c.cfg.Interfaces[other].VLAN; v != nil && v.Parent == name && !carried[v.ID] {
			c.refuse(joinPath("interfaces", other)+".vlan.id", fmt.Sprintf("no port of %s is in VLAN %d", name, v.ID), "", "")
		}
	}
}
