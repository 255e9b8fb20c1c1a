// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestDHCPRelayIsRefused(t *testing.T) {
	for _, c := range []struct{ services, want string }{
		{"dhcp-relay: {lan: {servers: [203.0.113.67, 203.0.113.68]}}", ""},
		{"dhcp-relay: {lan: {servers: [203.0.113.67]}}, dhcp: {lan: {pool: 192.0.2.10-192.0.2.20}}", "the DHCP server of lan itself"},
		{"dhcp-relay: {six: {servers: [203.0.113.67]}}", "no IPv4 address"},
		{"dhcp-relay: {wan: {servers: [203.0.113.67]}}", "gets its address from a DHCP server"},
		{"dhcp-relay: {lan: {servers: [\"2001:db8::67\"]}}", "can't be a DHCP server's address"},
		{"dhcp-relay: {lan: {servers: [192.0.2.1]}}", "an address of this router (lan)"},
		{"dhcp-relay: {lan: {servers: []}}", "there are 0 servers"},
		{"dhcp-relay: {red0: {servers: [203.0.113.67]}}", ""},
	} {
		text := `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  six: {addresses: ["2001:db8:6::1/64"]}
  wan: {dhcp: on}
  red0: {addresses: [198.51.100.1/24]}
  red: {vrf: {table: 5, interfaces: [red0]}}
services: {` + c.services + "}\n"
		cfg, err := Parse("test.yaml", []byte(text))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", c.services, err, c.want)
		}
	}
}
