// SPDX-License-Identifier: Apache-2.0

// Package policygen makes random firewalls and packets at the edges of their rules,
// for the tests that ask several voices about the same packet. The same seed makes
// the same firewall.
package policygen

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/model/policy"
)

// Ports is how many interfaces the router has, see PortName. Behind port i are the
// networks Network4(i) and Network6(i).
const Ports = 4

// PortName is the interface of a port.
func PortName(i int) string { return fmt.Sprintf("z%d", i) }

// Network4 is what is behind a port.
func Network4(i int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i)) }

// Network6 is what is behind a port.
func Network6(i int) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/32", i)) }

// Own is the router's address on a port.
func Own(i int, four bool) netip.Addr {
	if four {
		return netip.MustParseAddr(fmt.Sprintf("192.168.%d.1", i))
	}
	return netip.MustParseAddr(fmt.Sprintf("fd01:%d::1", i))
}

// zoneOfPort: two ports in a, one in b, one in c.
var zoneOfPort = [Ports]string{"a", "a", "b", "c"}

// Draft is a firewall in the making: the lines of a configuration that shrinking
// can leave out one by one.
type Draft struct {
	Sets      []string
	Schedules []string
	Policies  []DraftPolicy
	Defaults  string
	NAT       []string
}

// DraftPolicy is a policy of a draft.
type DraftPolicy struct {
	Head  string // from, to and the like
	Rules []string
	Tail  string // the default, or ""
}

// Text is the draft as a configuration.
func (d Draft) Text() string {
	var b strings.Builder
	b.WriteString("version: 1\ninterfaces:\n")
	for i, zone := range zoneOfPort {
		fmt.Fprintf(&b, "  %s: {zone: %s}\n", PortName(i), zone)
	}
	b.WriteString("firewall:\n  icmp-limit: 1000000\n" + d.Defaults)
	if len(d.Sets) > 0 {
		b.WriteString("  sets:\n" + strings.Join(d.Sets, ""))
	}
	if len(d.Schedules) > 0 {
		b.WriteString("  schedules:\n" + strings.Join(d.Schedules, ""))
	}
	if len(d.Policies) > 0 {
		b.WriteString("  policies:\n")
	}
	for _, p := range d.Policies {
		b.WriteString("    - " + p.Head + "\n" + p.Tail)
		if len(p.Rules) > 0 {
			b.WriteString("      rules:\n")
		}
		for _, r := range p.Rules {
			b.WriteString("        - '" + r + "'\n")
		}
	}
	if len(d.NAT) > 0 {
		b.WriteString("nat:\n" + strings.Join(d.NAT, ""))
	}
	return b.String()
}

// Compile reads the draft as minne apply does.
func (d Draft) Compile() (*policy.Policy, error) {
	cfg, err := config.Parse("draft.yaml", []byte(d.Text()))
	if err != nil {
		return nil, err
	}
	if err := config.Check(cfg, config.Secrets{}); err != nil {
		return nil, err
	}
	r, err := policy.Compile(cfg, nil, "/")
	return r.Policy, err
}

// Shrink leaves out lines as long as the draft still fails.
func (d Draft) Shrink(fails func(Draft) bool) Draft {
	for smaller := true; smaller; {
		smaller = false
		for _, next := range d.without() {
			if fails(next) {
				d, smaller = next, true
				break
			}
		}
	}
	return d
}

// without are the drafts with one line less.
func (d Draft) without() (list []Draft) {
	for i := range d.NAT {
		next := d
		next.NAT = slices.Delete(slices.Clone(d.NAT), i, i+1)
		list = append(list, next)
	}
	for i := range d.Policies {
		next := d
		next.Policies = slices.Delete(slices.Clone(d.Policies), i, i+1)
		list = append(list, next)
		for k := range d.Policies[i].Rules {
			next := d
			next.Policies = slices.Clone(d.Policies)
			next.Policies[i].Rules = slices.Delete(slices.Clone(d.Policies[i].Rules), k, k+1)
			list = append(list, next)
		}
	}
	return list
}
