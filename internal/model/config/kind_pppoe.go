// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"strings"
)

// PPPoE makes an interface of a session with a provider (RFC 2516).
type PPPoE struct {
	Parent       string `yaml:"parent" json:"parent" doc:"Interface that carries the session: a port, or a VLAN where the provider wants a tag." required:"true" names:"interface" example:"wan"`
	User         string `yaml:"user" json:"user" doc:"User name at the provider." required:"true" example:"line-4711@isp.example"`
	Secret       string `yaml:"secret" json:"secret" doc:"Name of the secret that holds the password." required:"true" names:"secret" example:"isp-password"`
	Service      string `yaml:"service" json:"service,omitempty" doc:"Service name to ask for. Absent: any."`
	Concentrator string `yaml:"concentrator" json:"concentrator,omitempty" doc:"Name of the access concentrator to use. Absent: the first that answers."`
	DefaultRoute *OnOff `yaml:"default-route" json:"default-route,omitempty" doc:"IPv4 default route by the session, of the distance dhcp-distance." default:"on" enum:"on,off"`
	IPv6         *OnOff `yaml:"ipv6" json:"ipv6,omitempty" doc:"IPv6 on the session, with link-local addresses (IPv6CP, RFC 5072)." default:"on" enum:"on,off"`
}

// A session's packets share the frame with six bytes of PPPoE and two of PPP. Without a larger frame that leaves 1492
// bytes (RFC 2516 section 7); with one, both ends can agree on up to 1500 (RFC 4638).
const (
	ethernetMTU = 1500 // of a port whose MTU nobody has set
	pppoeHeader = 8
	PPPoEMTU    = ethernetMTU - pppoeHeader
)

func (p *PPPoE) kind() Kind {
	return Kind{Name: "pppoe", Parents: []Parent{{"parent", p.Parent}}, Brought: true, Dialed: true, FastPath: ParentProgram}
}

func (p *PPPoE) check(c *checker, path, name string) {
	for _, text := range []struct{ key, value string }{{"user", p.User}, {"service", p.Service}, {"concentrator", p.Concentrator}} {
		if odd := strings.ContainsFunc(text.value, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' || r == '\'' }); odd || len(text.value) > 200 {
			c.refuse(path+"."+text.key, fmt.Sprintf("%q can't be sent", abridge(text.value)), "at most 200 letters, digits and signs, without blanks, quotes and backslashes", "")
		}
	}
	i, at := c.cfg.Interfaces[name], joinPath("interfaces", name)
	if k := c.cfg.Kind(p.Parent); !k.Port && k.Name != "vlan" && k.Name != "bond" && k.Name != "bridge" {
		c.refuse(path+".parent", fmt.Sprintf("%s is a %s, which has no Ethernet frames", p.Parent, k.Name), "a port, a VLAN, a bond or a bridge", "")
	}
	switch {
	case i.MTU > ethernetMTU:
		c.refuse(at+".mtu", fmt.Sprintf("mtu %d does not fit into a PPPoE session", i.MTU), fmt.Sprintf("at most %d", ethernetMTU), "")
	case cmp.Or(i.MTU, PPPoEMTU)+pppoeHeader > c.carries(p.Parent):
		need := cmp.Or(i.MTU, PPPoEMTU) + pppoeHeader
		c.refuse(path+".parent", fmt.Sprintf("a session with mtu %d needs frames of %d bytes on %s, which carries %d", need-pppoeHeader, need, p.Parent, c.carries(p.Parent)),
			fmt.Sprintf("mtu: %d under interfaces.%s, or mtu: %d or less here", need, p.Parent, c.carries(p.Parent)-pppoeHeader), "")
	case i.DHCP.On():
		c.refuse(at+".dhcp", name+" gets its address by PPPoE", "no dhcp", "")
	}
}

func (p *PPPoE) odd(*checker, string, string) {}
