// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// LLDP tells the neighbours on a cable who the router is and which port this is, and hears the same of
// them (IEEE 802.1AB).
type LLDP struct {
	Interfaces []string `yaml:"interfaces" json:"interfaces" doc:"Ports that send and receive LLDP; no others do. A neighbour on the port learns the router's name, addresses and port name: name a port to the Internet only if it may." required:"true" example:"lan" names:"interface"`
}

func (l *LLDP) check(c *checker, path string) {
	if len(l.Interfaces) == 0 {
		c.refuse(path+".interfaces", "no port is named", "the ports that send and receive LLDP, or no services.lldp", "")
	}
	for i, name := range l.Interfaces {
		at := indexPath(path+".interfaces", i)
		switch kind := c.cfg.Kind(name); {
		case kind.Alone || kind.Routed:
			c.refuse(at, name+" has no neighbours", "a port", "")
		case len(kind.Parents) > 0:
			c.refuse(at, fmt.Sprintf("LLDP frames belong to ports, and %s sits on another interface", name), "its port", kind.Parents[0].Name)
		}
	}
	once(c, path+".interfaces", l.Interfaces, func(s string) string { return s })
}
