// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// PolicyRoute is a rule of policy routing: packets that match leave by an uplink, before the default route is asked. A rule
// matches when each of its selectors does; a selector with several values matches when one of them does.
type PolicyRoute struct {
	From        []Prefix       `yaml:"from" json:"from,omitempty" doc:"Source networks. Absent: any." single:"true" example:"192.0.2.128/25"`
	To          []Prefix       `yaml:"to" json:"to,omitempty" doc:"Destination networks. Absent: any." single:"true" example:"203.0.113.0/24"`
	Interfaces  []string       `yaml:"interfaces" json:"interfaces,omitempty" doc:"Interfaces by which the packets come in. Absent: any, and packets of the router itself." single:"true" names:"interface" example:"lan"`
	Zones       []string       `yaml:"zones" json:"zones,omitempty" doc:"Zones from which the packets come in: all their interfaces." single:"true" example:"guests"`
	Protocol    PolicyProtocol `yaml:"protocol" json:"protocol,omitempty" doc:"Protocol. Absent: any." enum:"tcp,udp,sctp,icmp,icmpv6,gre,esp"`
	SourcePorts []string       `yaml:"source-ports" json:"source-ports,omitempty" doc:"Source ports, or ranges of ports, of TCP, UDP or SCTP." single:"true" example:"5060"`
	Ports       []string       `yaml:"ports" json:"ports,omitempty" doc:"Destination ports, or ranges of ports, of TCP, UDP or SCTP." single:"true" example:"8000-8080"`
	DSCP        *int           `yaml:"dscp" json:"dscp,omitempty" doc:"Value of the DSCP field (RFC 2474), such as 46 for EF." min:"0" max:"63" example:"46"`
	Uplink      string         `yaml:"uplink" json:"uplink" doc:"The uplink by which these packets leave: a name of section uplinks." required:"true" names:"interface" example:"lte"`
	Only        bool           `yaml:"only" json:"only,omitempty" doc:"When the uplink does not work, or has no gateway of the packet's family, senders get an error (destination unreachable). Otherwise the next rules decide, and in the end the other routes." default:"off"`
	Description string         `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters."`
}

// PolicyProtocol is the name of a protocol in a rule.
type PolicyProtocol string

var policyProtocols = map[PolicyProtocol]uint8{"": 0, "icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "icmpv6": 58, "sctp": 132}

// MaxPolicySelectors bounds the kernel's rules of one family that the rules of routing.policy become.
const MaxPolicySelectors = 400

// PolicySelector is what one rule of the kernel selects. Zero values select all.
type PolicySelector struct {
	IPv6               bool
	From, To           netip.Prefix
	Interface          string
	Protocol           uint8
	SourcePorts, Ports [2]uint16 // the first and the last; 0, 0: any
	DSCP               int       // -1: any
}

// Selectors are the kernel's rules of one family for a rule; none when it is about the other family only. The configuration
// was checked.
func (r *PolicyRoute) Selectors(cfg *Config, ipv6 bool) (list []PolicySelector) {
	family := func(given []Prefix) (list []netip.Prefix) {
		if len(given) == 0 {
			return []netip.Prefix{{}}
		}
		for _, p := range given {
			if p.Addr().Is6() == ipv6 {
				list = append(list, p.Prefix)
			}
		}
		return list
	}
	if r.Protocol == "icmp" && ipv6 || r.Protocol == "icmpv6" && !ipv6 {
		return nil
	}
	dscp := -1
	if r.DSCP != nil {
		dscp = *r.DSCP
	}
	interfaces := r.incoming(cfg)
	for _, from := range family(r.From) {
		for _, to := range family(r.To) {
			for _, in := range interfaces {
				for _, source := range policyPorts(r.SourcePorts) {
					for _, ports := range policyPorts(r.Ports) {
						list = append(list, PolicySelector{ipv6, from, to, in, policyProtocols[r.Protocol], source, ports, dscp})
					}
				}
			}
		}
	}
	return list
}

// incoming are the interfaces of a rule; "" stands for any.
func (r *PolicyRoute) incoming(cfg *Config) []string {
	if len(r.Interfaces)+len(r.Zones) == 0 {
		return []string{""}
	}
	list := slices.Clone(r.Interfaces)
	for _, name := range sortedKeys(cfg.Interfaces) {
		if i := cfg.Interfaces[name]; i.Zone != "" && slices.Contains(r.Zones, i.Zone) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

func policyPorts(words []string) [][2]uint16 {
	if len(words) == 0 {
		return [][2]uint16{{}}
	}
	var list [][2]uint16
	for _, w := range words {
		if p, ok := policyPort(w); ok {
			list = append(list, p)
		}
	}
	return list
}

// policyPort reads a port or a range of ports.
func policyPort(word string) (p [2]uint16, ok bool) {
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	for k, w := range []string{first, last} {
		n, err := strconv.ParseUint(strings.TrimSpace(w), 10, 16)
		// The kernel's rules know neither port 0 nor 65535.
		if err != nil || n == 0 || n == 65535 {
			return p, false
		}
		p[k] = uint16(n)
	}
	return p, p[0] <= p[1]
}

// policyRouting checks the rules of policy routing.
func (c *checker) policyRouting() {
	count := [2]int{}
	for k := range c.cfg.Routing.Policy {
		r, path := &c.cfg.Routing.Policy[k], indexPath("routing.policy", k)
		c.description(path+".description", r.Description)
		if c.cfg.Uplinks[r.Uplink] == nil {
			c.refuse(path+".uplink", r.Uplink+" is no uplink", "a name of section uplinks", nearest(r.Uplink, sortedKeys(c.cfg.Uplinks)))
		}
		c.policySelectors(path, r)
		for which, ipv6 := range []bool{false, true} {
			n := 0
			if c.problems.err() == nil {
				n = len(r.Selectors(c.cfg, ipv6))
			}
			if r.Only {
				n *= 2
			}
			if count[which] += n; count[which] > MaxPolicySelectors && count[which]-n <= MaxPolicySelectors {
				c.refuse(path, fmt.Sprintf("the rules up to here become %d rules of the kernel: each combination of from, to, interface and ports is one, with only two", count[which]),
					fmt.Sprintf("at most %d for each family", MaxPolicySelectors), "")
			}
		}
	}
}

func (c *checker) policySelectors(path string, r *PolicyRoute) {
	once(c, path+".from", r.From, Prefix.String)
	once(c, path+".to", r.To, Prefix.String)
	for _, name := range append(slices.Clone(r.Interfaces), r.Uplink) {
		if vrf := c.tableOf(name); c.cfg.Interfaces[name] != nil && vrf != "" {
			c.refuse(path, fmt.Sprintf("%s is in VRF %s, whose packets don't come to these rules", name, vrf), "interfaces outside of VRFs", "")
		}
	}
	for k, z := range r.Zones {
		known := false
		for _, i := range c.cfg.Interfaces {
			known = known || i.Zone == z
		}
		if !known {
			c.refuse(indexPath(path+".zones", k), fmt.Sprintf("no interface is in zone %s", z), "a zone that an interface names", "")
		}
	}
	for _, list := range []struct {
		key   string
		words []string
	}{{"source-ports", r.SourcePorts}, {"ports", r.Ports}} {
		for k, w := range list.words {
			if _, ok := policyPort(w); !ok {
				c.refuse(indexPath(path+"."+list.key, k), fmt.Sprintf("%q is no port", w), "a number of 1 to 65534, or a range such as 8000-8080", "")
			}
		}
		if len(list.words) > 0 && !slices.Contains([]PolicyProtocol{"tcp", "udp", "sctp"}, r.Protocol) {
			c.refuse(path+"."+list.key, "only TCP, UDP and SCTP have ports", "protocol: tcp, udp or sctp as well", "")
		}
	}
	if c.problems.err() == nil && len(r.Selectors(c.cfg, false))+len(r.Selectors(c.cfg, true)) == 0 {
		c.refuse(path, "no packet can match: from, to and protocol are of different families", "networks of one family in from and to", "")
	}
}

// String is what a rule selects, as operators read it.
func (r *PolicyRoute) String() string {
	var words []string
	add := func(key, value string) {
		if value != "" {
			words = append(words, key+" "+value)
		}
	}
	prefixes := func(list []Prefix) string {
		var words []string
		for _, p := range list {
			words = append(words, p.String())
		}
		return strings.Join(words, ", ")
	}
	add("from", prefixes(r.From))
	add("to", prefixes(r.To))
	add("in", strings.Join(append(slices.Clone(r.Interfaces), r.Zones...), ", "))
	add("protocol", string(r.Protocol))
	add("source port", strings.Join(r.SourcePorts, ", "))
	add("port", strings.Join(r.Ports, ", "))
	if r.DSCP != nil {
		add("dscp", strconv.Itoa(*r.DSCP))
	}
	if words == nil {
		return "all"
	}
	return strings.Join(words, "; ")
}
