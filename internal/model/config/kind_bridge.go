// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bridge makes one network of several ports (IEEE 802.1Q bridge).
type Bridge struct {
	Ports        []string               `yaml:"ports" json:"ports,omitempty" doc:"The ports of the bridge: ports, bonds, VLANs and Wi-Fi. They have no addresses, zone or services of their own. The bridge has the MAC address of the first." ordered:"true" names:"interface" example:"eth1"`
	VLANs        map[string]*BridgeVLAN `yaml:"vlans" json:"vlans,omitempty" doc:"Makes the bridge VLAN-aware: which VLANs each of its ports carries. The router's own interfaces on the bridge's VLANs are interfaces with vlan: {parent: BRIDGE, id: N}." names:"interface"`
	Isolated     []string               `yaml:"isolated" json:"isolated,omitempty" doc:"Ports whose hosts reach the router and the other ports, but not each other." names:"interface"`
	STP          SpanningTree           `yaml:"stp" json:"stp,omitempty" doc:"Spanning tree (IEEE 802.1D): finds loops and opens them. A port forwards 30 seconds after its cable is there." default:"off" enum:"on,off"`
	STPPriority  *int                   `yaml:"stp-priority" json:"stp-priority,omitempty" doc:"Bridge priority, in steps of 4096. The bridge with the lowest is the root; among equals, the one with the lowest MAC address." default:"32768" min:"0" max:"61440"`
	Hello        Duration               `yaml:"stp-hello" json:"stp-hello,omitempty" doc:"Hello time: how often the root announces itself, 1s to 10s. All bridges use the root's times." default:"2s"`
	MaxAge       Duration               `yaml:"stp-max-age" json:"stp-max-age,omitempty" doc:"Max age: an announcement that is older is forgotten, 6s to 40s." default:"20s"`
	ForwardDelay Duration               `yaml:"stp-forward-delay" json:"stp-forward-delay,omitempty" doc:"Forward delay: how long a port listens, and then learns, before it forwards, 4s to 30s." default:"15s"`
	STPPorts     map[string]*STPPort    `yaml:"stp-ports" json:"stp-ports,omitempty" doc:"Spanning tree of single ports." names:"interface"`
	Snooping     *OnOff                 `yaml:"multicast-snooping" json:"multicast-snooping,omitempty" doc:"Sends multicast only to the ports that asked for it (IGMP and MLD snooping)." default:"on" enum:"on,off"`
}

// STPPort is the spanning tree of one port of a bridge.
type STPPort struct {
	Cost     int  `yaml:"cost" json:"cost,omitempty" doc:"Path cost: the way to the root of the least sum is used. Absent: by the port's speed, as 19 for 100 Mbit/s, 4 for 1 Gbit/s and 2 for 10 Gbit/s." min:"1" max:"65535"`
	Priority *int `yaml:"priority" json:"priority,omitempty" doc:"Port priority, in steps of 16. Of two cables to the same bridge, the one with the lower number on the side of the root is used." default:"128" min:"0" max:"240"`
}

// SpanningTree is a switch; the words for other protocols are refused with the reason.
type SpanningTree bool

// otherTrees are the spanning trees that the kernel does not speak by itself.
var otherTrees = []string{"rstp", "mstp", "pvst", "rapid-pvst", "pvst+", "rpvst+"}

// UnmarshalText reads a switch.
func (s *SpanningTree) UnmarshalText(b []byte) error {
	word := strings.ToLower(string(b))
	if slices.Contains(otherTrees, word) {
		return &wrongValue{fmt.Sprintf("%s is not there: it needs a daemon (mstpd) that neither Debian 12 nor Debian 13 has", word),
			"on, the spanning tree of the kernel (IEEE 802.1D); bridges with RSTP fall back to it on this cable", "on"}
	}
	if word == "stp" || word == "802.1d" {
		return &wrongValue{"", switchForm, "on"}
	}
	on, err := readSwitch(string(b))
	if err == nil {
		*s = SpanningTree(on)
	}
	return err
}

// MarshalText returns on or off.
func (s SpanningTree) MarshalText() ([]byte, error) { return OnOff(s).MarshalText() }

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
	b.checkTree(c, path, name)
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

// checkTree refuses times and steps that IEEE 802.1D does not allow: bridges that use them make loops.
func (b *Bridge) checkTree(c *checker, path, name string) {
	multipleOf(c, path+".stp-priority", *b.STPPriority, 4096)
	hello := c.seconds(path+".stp-hello", b.Hello, 1, 10)
	age := c.seconds(path+".stp-max-age", b.MaxAge, 6, 40)
	if delay := c.seconds(path+".stp-forward-delay", b.ForwardDelay, 4, 30); hello && age && delay { // IEEE 802.1D-1998 8.10.2
		second := Duration(time.Second)
		at := path + ".stp-max-age"
		if least := 2 * (b.Hello + second); b.MaxAge < least {
			if !c.cfg.Written(at) {
				at = path + ".stp-hello"
			}
			c.refuse(at, fmt.Sprintf("stp-max-age (%s) is too short for stp-hello (%s)", b.MaxAge, b.Hello), fmt.Sprintf("stp-max-age of %s at least: twice stp-hello and one second", least), "")
		} else if most := 2 * (b.ForwardDelay - second); b.MaxAge > most {
			if c.cfg.Written(path + ".stp-forward-delay") {
				at = path + ".stp-forward-delay"
			}
			c.refuse(at, fmt.Sprintf("stp-max-age (%s) is too long for stp-forward-delay (%s): a loop could stand for a while", b.MaxAge, b.ForwardDelay), fmt.Sprintf("stp-max-age of %s at most, or a longer stp-forward-delay", most), "")
		}
	}
	for _, p := range sortedKeys(b.STPPorts) {
		at := joinPath(path+".stp-ports", p)
		if c.cfg.Interfaces[p] != nil && !slices.Contains(b.Ports, p) {
			c.refuse(at, p+" is no port of "+name, "one of ports", "")
		}
		multipleOf(c, at+".priority", *b.STPPorts[p].Priority, 16)
	}
}

// multipleOf refuses a number that is no multiple of a step.
func multipleOf(c *checker, path string, n, step int) {
	if n%step != 0 {
		c.refuse(path, fmt.Sprintf("%s %d is no multiple of %d", path[strings.LastIndexByte(path, '.')+1:], n, step), fmt.Sprintf("%d or %d", n-n%step, n-n%step+step), "")
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
	for _, key := range []string{"stp-priority", "stp-hello", "stp-max-age", "stp-forward-delay", "stp-ports"} {
		if at := joinPath(path, key); !bool(b.STP) && c.cfg.Chosen(at) {
			c.refuse(at, fmt.Sprintf("%s has no effect: the spanning tree of %s is off", key, name), "stp: on", "")
		}
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
