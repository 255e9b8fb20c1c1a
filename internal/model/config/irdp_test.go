// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"
)

func TestIRDP(t *testing.T) {
	for _, c := range []struct {
		services, want string
		lifetime       time.Duration
	}{
		{"irdp: {lan: {}}", "", 30 * time.Minute},
		{"irdp: {lan: {interval: 4s, preference: 2147483647}}", "", 12 * time.Second},
		{"irdp: {lan: {interval: 30m}}", "", 90 * time.Minute},
		{"irdp: {red0: {interval: 30m, lifetime: 2h30m}}", "", 150 * time.Minute},
		{"irdp: {lan: {interval: 3s}}", "interval 3s is out of range", 0},
		{"irdp: {lan: {interval: 31m}}", "interval 31m is out of range", 0},
		{"irdp: {lan: {interval: 30m, lifetime: 29m}}", "for 29m after an advertisement", 0},
		{"irdp: {lan: {lifetime: 3h}}", "for 3h after an advertisement", 0},
		{"irdp: {lan: {preference: 2147483648}}", "preference 2147483648 is out of range", 0},
		{"irdp: {six: {}}", "no IPv4 address", 0},
		{"irdp: {wan: {}}", "gets its address from a DHCP server", 0},
		{"irdp: {lam: {}}", "lam", 0},
	} {
		cfg, err := Parse("test.yaml", []byte(`version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  six: {addresses: ["2001:db8:6::1/64"]}
  wan: {dhcp: on}
  red0: {addresses: [198.51.100.1/24]}
  red: {vrf: {table: 5, interfaces: [red0]}}
services: {`+c.services+"}\n"))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", c.services, err, c.want)
		}
		if err != nil {
			continue
		}
		for _, r := range cfg.Services.IRDP {
			if r.AdvertisedLifetime() != c.lifetime {
				t.Errorf("%s: lifetime %v", c.services, r.AdvertisedLifetime())
			}
		}
	}
}
