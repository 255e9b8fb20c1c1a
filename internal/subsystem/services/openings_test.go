// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
)

// What the router serves is open where it serves it and nowhere else, in the same zone too.
func TestHostServices(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat"
	cfg, err := config.Parse("test.yaml", []byte(`version: 1
system: {admin: {ssh-keys: ["`+key+`"]}}
interfaces:
  wan0: {zone: wan, dhcp: on}
  lan0: {zone: lan, addresses: [192.0.2.1/25, "2001:db8::1/64"]}
  lan1: {zone: lan, addresses: [192.0.2.129/25]}
firewall:
  policies: [{from: self, to: wan, default: deny}]
services:
  dhcp: {lan0: {pool: 192.0.2.10-192.0.2.20}}
  dns: {interfaces: [lan0]}
  ntp: {servers: [203.0.113.123], interfaces: [lan0]}
  ssh: {interfaces: [lan0], port: 2222}
`))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := policy.Compile(cfg, Openings(cfg), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, out    string
		protocol   uint8
		from, port uint16
		six        bool
		rule       string // that permits; "" for none
	}{
		{"lan0", "", unix.IPPROTO_UDP, 68, 67, false, "DHCP server"},
		{"lan0", "", unix.IPPROTO_UDP, 40000, 67, false, ""},
		{"lan0", "", unix.IPPROTO_UDP, 68, 67, true, ""},
		{"lan0", "", unix.IPPROTO_UDP, 40000, 53, true, "DNS"},
		{"lan0", "", unix.IPPROTO_TCP, 40000, 53, false, "DNS"},
		{"lan0", "", unix.IPPROTO_UDP, 123, 123, false, "NTP"},
		{"lan0", "", unix.IPPROTO_TCP, 40000, 2222, true, "SSH"},
		{"lan0", "", unix.IPPROTO_TCP, 40000, 22, false, ""},
		{"lan1", "", unix.IPPROTO_UDP, 68, 67, false, ""},
		{"lan1", "", unix.IPPROTO_TCP, 40000, 53, false, ""},
		{"lan1", "", unix.IPPROTO_TCP, 40000, 2222, false, ""},
		{"wan0", "", unix.IPPROTO_UDP, 67, 68, false, "DHCP client"},
		{"wan0", "", unix.IPPROTO_UDP, 40000, 68, false, ""},
		{"wan0", "", unix.IPPROTO_UDP, 68, 67, false, ""},
		{"wan0", "", unix.IPPROTO_UDP, 40000, 53, false, ""},
		{"wan0", "", unix.IPPROTO_TCP, 40000, 53, true, ""},
		{"wan0", "", unix.IPPROTO_UDP, 123, 123, false, ""},
		{"wan0", "", unix.IPPROTO_TCP, 40000, 2222, false, ""},
		{"lan0", "", unix.IPPROTO_UDP, 67, 68, false, ""},
		// What the router itself needs passes its own rules.
		{"", "wan0", unix.IPPROTO_UDP, 68, 67, false, "DHCP client"},
		{"", "wan0", unix.IPPROTO_UDP, 40000, 53, false, "DNS queries"},
		{"", "wan0", unix.IPPROTO_TCP, 40000, 53, true, "DNS queries"},
		{"", "wan0", unix.IPPROTO_UDP, 40000, 123, false, "NTP queries"},
	} {
		from, to := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.1")
		if c.six {
			from, to = netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8::1")
		}
		v := policy.Evaluate(r.Policy, policy.Packet{In: c.in, Out: c.out, Source: from, Destination: to,
			Protocol: c.protocol, SourcePort: c.from, DestPort: c.port, HopLimit: 64}, policy.New)
		rule := ""
		if v.Rule != nil {
			rule = v.Rule.Text
		}
		if rule != c.rule || (v.Action == policy.Permit) != (c.rule != "") {
			t.Errorf("%+v: %v by %q", c, v.Action, rule)
		}
	}
}

// An opening without interfaces permits nothing, unless it says that it means every way out.
func TestOpeningOfNoInterface(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte("version: 1\ninterfaces: {lan0: {zone: lan, addresses: [192.0.2.1/24]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := policy.Compile(cfg, nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy.Opening
		rules int
	}{
		{policy.Opening{}, 0},
		{policy.Opening{Anywhere: true}, 0},
		{policy.Opening{Out: true}, 0},
		{policy.Opening{Out: true, Anywhere: true}, 1},
		{policy.Opening{Interfaces: []string{"lan0"}}, 1},
	} {
		c.Text, c.Protocols, c.Port = "test", []uint8{unix.IPPROTO_UDP}, 53
		r, err := policy.Compile(cfg, []policy.Opening{c.Opening}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.Policy.Services) - len(before.Policy.Services); got != c.rules {
			t.Errorf("%+v: %d rules, want %d", c.Opening, got, c.rules)
		}
	}
}

// The outer packets of tunnels come in from their far ends by the interfaces that are named, and go out.
func TestTunnelOpenings(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`version: 1
interfaces:
  wan: {zone: wan, addresses: [198.51.100.1/24]}
  lan: {zone: lan, addresses: [192.0.2.1/24]}
  a: {zone: lan, tunnel: {type: gre, remote: 203.0.113.9, interfaces: [wan]}}
  b: {zone: lan, tunnel: {type: 6in4, remote: 203.0.113.8}}
  c: {zone: lan, tunnel: {type: vxlan, id: 5, port: 8472, remotes: [203.0.113.7, 203.0.113.6], interfaces: [wan]}}
firewall:
  policies: [{from: self, to: wan, default: deny}]
`))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := policy.Compile(cfg, Openings(cfg), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, far  string
		protocol uint8
		port     uint16
		rule     string
	}{
		{"wan", "203.0.113.9", unix.IPPROTO_GRE, 0, "tunnel a"},
		{"wan", "203.0.113.8", unix.IPPROTO_GRE, 0, ""},
		{"lan", "203.0.113.9", unix.IPPROTO_GRE, 0, ""},
		{"wan", "203.0.113.9", unix.IPPROTO_UDP, 0, ""},
		{"wan", "203.0.113.8", unix.IPPROTO_IPV6, 0, ""}, // it names no interface
		{"wan", "203.0.113.6", unix.IPPROTO_UDP, 8472, "tunnel c"},
		{"wan", "203.0.113.6", unix.IPPROTO_UDP, 4789, ""},
		{"wan", "203.0.113.5", unix.IPPROTO_UDP, 8472, ""},
		{"", "203.0.113.9", unix.IPPROTO_GRE, 0, "tunnel a"},
		{"", "203.0.113.8", unix.IPPROTO_IPV6, 0, "tunnel b"},
		{"", "203.0.113.9", unix.IPPROTO_IPV6, 0, ""},
		{"", "203.0.113.7", unix.IPPROTO_UDP, 8472, "tunnel c"},
	} {
		p := policy.Packet{In: c.in, Source: netip.MustParseAddr(c.far), Destination: netip.MustParseAddr("198.51.100.1"), Protocol: c.protocol, SourcePort: 40000, DestPort: c.port, HopLimit: 64}
		if c.in == "" {
			p.Out, p.Source, p.Destination = "wan", p.Destination, p.Source
		}
		rule := ""
		v := policy.Evaluate(r.Policy, p, policy.New)
		if v.Rule != nil && v.Action == policy.Permit {
			rule = v.Rule.Text
		}
		if rule != c.rule {
			t.Errorf("%+v: %v by %q", c, v.Action, rule)
		}
	}
}

// Conntrack calls router solicitations invalid; they come in all the same, where they are served, and no other message with them.
func TestRouterDiscoveryOpening(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`version: 1
interfaces:
  lan0: {zone: lan, addresses: [192.0.2.1/25]}
  lan1: {zone: lan, addresses: [192.0.2.129/25]}
firewall: {policies: [{from: self, to: lan, default: deny}]}
services: {irdp: {lan0: {}}}
`))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := policy.Compile(cfg, Openings(cfg), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		kind uint8
		want policy.Action
	}{
		{"lan0", 10, policy.Permit},
		{"lan1", 10, policy.Deny},
		{"lan0", 9, policy.Deny}, // what other routers say is not for us
		{"lan0", 13, policy.Deny},
	} {
		p := policy.Packet{In: c.in, Source: netip.MustParseAddr("192.0.2.7"), Destination: netip.MustParseAddr("224.0.0.2"), Protocol: unix.IPPROTO_ICMP, ICMPType: c.kind, HopLimit: 1}
		if v := policy.Evaluate(r.Policy, p, policy.Invalid); v.Action != c.want {
			t.Errorf("type %d by %s: %v", c.kind, c.in, v.Action)
		}
	}
}
