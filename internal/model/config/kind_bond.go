// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Bond makes one link of several ports (IEEE 802.1AX link aggregation, or one port in use at a time).
type Bond struct {
	Mode     BondMode `yaml:"mode" json:"mode,omitempty" doc:"802.3ad: all ports are used, and LACP agrees with the switch on them. active-backup: one port is used, another one takes over when it fails; the switch needs no setting. balance-xor: all ports are used without LACP, as a switch has it that calls it static." default:"802.3ad" enum:"802.3ad,active-backup,balance-xor"`
	Ports    []string `yaml:"ports" json:"ports" doc:"The ports of the bond. They have no addresses, zone or services of their own. The bond has the MAC address of the first." required:"true" ordered:"true" names:"interface" example:"eth1"`
	LACPRate LACPRate `yaml:"lacp-rate" json:"lacp-rate,omitempty" doc:"How often the other side sends LACP: fast is each second, slow each 30 seconds. A silent side is given up after three." default:"fast" enum:"fast,slow"`
	MinLinks int      `yaml:"min-links" json:"min-links,omitempty" doc:"With fewer ports in use than this, the bond is down (802.3ad only)." default:"1" min:"1" max:"16"`
	Hash     BondHash `yaml:"hash" json:"hash,omitempty" doc:"What chooses the port of a packet: layer2 are MAC addresses, layer2+3 IP addresses too, layer3+4 IP addresses and ports of TCP and UDP. The packets of one flow keep to one port." default:"layer3+4" enum:"layer2,layer2+3,layer3+4"`
	Primary  string   `yaml:"primary" json:"primary,omitempty" doc:"The port that is used whenever it works (active-backup only). Absent: the one in use stays until it fails." names:"interface"`
	MIIMon   Duration `yaml:"miimon" json:"miimon,omitempty" doc:"How often each port's carrier is looked at: a lost cable is noticed within this time." default:"50ms"`
}

// BondMode is how a bond uses its ports.
type BondMode string

// LACPRate is how often LACP speaks.
type LACPRate string

// BondHash is what chooses the port of a packet.
type BondHash string

// maxBondPorts is where switches end, too.
const maxBondPorts = 16

func (b *Bond) kind() Kind {
	return Kind{Name: "bond", Members: membersOf("ports", b.Ports), Bundles: true, FastPath: OwnProgram}
}

// membersOf are the members that a list names.
func membersOf(key string, names []string) (list []Parent) {
	for n, name := range names {
		list = append(list, Parent{indexPath(key, n), name})
	}
	return list
}

func (b *Bond) check(c *checker, path, name string) {
	if n := len(b.Ports); n == 0 || n > maxBondPorts {
		c.refuse(path+".ports", fmt.Sprintf("%s has %d ports", name, n), fmt.Sprintf("1 to %d", maxBondPorts), "")
	}
	for n, p := range b.Ports {
		if k := c.cfg.Kind(p); c.cfg.Interfaces[p] != nil && !k.Port && p != loopback {
			c.refuse(indexPath(path+".ports", n), fmt.Sprintf("%s is a %s, and a bond is made of ports", p, k.Name), "a port", "")
		}
	}
	only := func(key string, mode BondMode) {
		if c.cfg.Chosen(path+"."+key) && b.Mode != mode {
			c.refuse(path+"."+key, fmt.Sprintf("a bond of mode %s has no %s", b.Mode, key), "mode: "+string(mode), "")
		}
	}
	only("lacp-rate", "802.3ad")
	only("min-links", "802.3ad")
	only("primary", "active-backup")
	if c.cfg.Chosen(path+".hash") && b.Mode == "active-backup" {
		c.refuse(path+".hash", "a bond of mode active-backup uses one port and has no hash", "mode: 802.3ad or balance-xor", "")
	}
	if b.Primary != "" && c.cfg.Interfaces[b.Primary] != nil && c.masters[b.Primary].Name != name {
		c.refuse(path+".primary", b.Primary+" is no port of "+name, "one of ports", "")
	}
	if c.cfg.Chosen(path+".min-links") && b.MinLinks > len(b.Ports) {
		c.refuse(path+".min-links", fmt.Sprintf("min-links %d is more than the ports of %s", b.MinLinks, name), fmt.Sprintf("at most %d", len(b.Ports)), "")
	}
	if ms := b.MIIMon.Std().Milliseconds(); ms < 10 || ms > 10000 {
		c.refuse(path+".miimon", fmt.Sprintf("miimon %s is out of range", b.MIIMon), "10ms to 10s", "")
	}
}

func (b *Bond) odd(c *checker, path, name string) {
	if len(b.Ports) == 1 {
		c.refuse(path+".ports", fmt.Sprintf("%s has one port: nothing takes over when it fails", name), "", "")
	}
}
