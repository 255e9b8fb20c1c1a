// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"testing"
)

// What the router serves is open where it serves it and nowhere else, in the same zone too.
func TestHostServices(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat"
	r, err := compileText(t, `version: 1
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
`)
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
		{"lan0", "", protoUDP, 68, 67, false, "DHCP server"},
		{"lan0", "", protoUDP, 40000, 67, false, ""},
		{"lan0", "", protoUDP, 68, 67, true, ""},
		{"lan0", "", protoUDP, 40000, 53, true, "DNS"},
		{"lan0", "", protoTCP, 40000, 53, false, "DNS"},
		{"lan0", "", protoUDP, 123, 123, false, "NTP"},
		{"lan0", "", protoTCP, 40000, 2222, true, "SSH"},
		{"lan0", "", protoTCP, 40000, 22, false, ""},
		{"lan1", "", protoUDP, 68, 67, false, ""},
		{"lan1", "", protoTCP, 40000, 53, false, ""},
		{"lan1", "", protoTCP, 40000, 2222, false, ""},
		{"wan0", "", protoUDP, 67, 68, false, "DHCP client"},
		{"wan0", "", protoUDP, 40000, 68, false, ""},
		{"wan0", "", protoUDP, 68, 67, false, ""},
		{"wan0", "", protoUDP, 40000, 53, false, ""},
		{"wan0", "", protoTCP, 40000, 53, true, ""},
		{"wan0", "", protoUDP, 123, 123, false, ""},
		{"wan0", "", protoTCP, 40000, 2222, false, ""},
		{"lan0", "", protoUDP, 67, 68, false, ""},
		// What the router itself needs passes its own rules.
		{"", "wan0", protoUDP, 68, 67, false, "DHCP client"},
		{"", "wan0", protoUDP, 40000, 53, false, "DNS queries"},
		{"", "wan0", protoTCP, 40000, 53, true, "DNS queries"},
		{"", "wan0", protoUDP, 40000, 123, false, "NTP queries"},
	} {
		from, to := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.1")
		if c.six {
			from, to = netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8::1")
		}
		v := Judge(r.Policy, Packet{In: c.in, Out: c.out, Source: from, Destination: to,
			Protocol: c.protocol, SourcePort: c.from, DestPort: c.port, HopLimit: 64}, New)
		rule := ""
		if v.Rule != nil {
			rule = v.Rule.Text
		}
		if rule != c.rule || (v.Action == Permit) != (c.rule != "") {
			t.Errorf("%+v: %v by %q", c, v.Action, rule)
		}
	}
}
