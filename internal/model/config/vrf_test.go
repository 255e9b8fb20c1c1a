// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// TestVRFsWithTheSameAddresses: an address is one of a table, and so is a next hop.
func TestVRFsWithTheSameAddresses(t *testing.T) {
	const head = `version: 1
interfaces:
  red: {vrf: {table: 100, interfaces: [r0]}}
  blue: {vrf: {table: 101, interfaces: [b0, b1]}}
  r0: {addresses: [192.0.2.1/24, "2001:db8::1/64"]}
  b0: {addresses: [192.0.2.1/24, "2001:db8::1/64"]}
  b1: {addresses: [B1]}
  m0: {addresses: [192.0.2.1/24]}
  m1: {addresses: [198.51.100.1/24]}
routing:
  static:
    - {prefix: 10.0.0.0/8, via: [HOP]VRF}
`
	for _, c := range []struct{ b1, hop, vrf, want string }{
		{"203.0.113.1/24", "192.0.2.2", "", ""},
		{"203.0.113.1/24", "192.0.2.2", ", vrf: red", ""},
		{"203.0.113.1/24", "192.0.2.2", ", vrf: blue", ""},
		{"203.0.113.1/24", "192.0.2.1", ", vrf: blue", "192.0.2.1 is this router itself (b0)"},
		{"203.0.113.1/24", "203.0.113.2", ", vrf: red", "the next hop lies behind b1, which is in VRF blue"},
		{"203.0.113.1/24", "198.51.100.2", ", vrf: red", "the next hop lies behind m1, which is in the main table"},
		{"203.0.113.1/24", "203.0.113.2", "", "the next hop lies behind b1, which is in VRF blue"},
		{"192.0.2.1/32", "192.0.2.2", "", "b0 has the address 192.0.2.1 already"},
		{"192.0.2.129/25", "192.0.2.2", "", "network 192.0.2.128/25 overlaps 192.0.2.1/24 of b0"},
	} {
		cfg, err := Parse("test", []byte(strings.NewReplacer("B1", c.b1, "HOP", c.hop, "VRF", c.vrf).Replace(head)))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v", c, err)
		}
	}
}
