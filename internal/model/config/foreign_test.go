// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"
)

// Files of other programs are told by their name, in one problem.
func TestForeignFiles(t *testing.T) {
	for text, name := range map[string]string{
		"interfaces {\n    ethernet eth0 {\n        address dhcp\n    }\n}\n":                                  "VyOS",
		"firewall {\n}\n// vyos-config-version: \"bgp@5\"\n":                                                   "VyOS",
		"set interfaces ethernet eth0 address '192.0.2.1/24'\nset system host-name gw\n":                       "VyOS or EdgeOS (set",
		"set system host-name gw\nset interfaces ge-0/0/0 unit 0 family inet address 192.0.2.1/24\n":           "Junos",
		"system {\n    host-name gw;\n}\ninterfaces {\n    ge-0/0/0 {\n        unit 0;\n    }\n}\n":            "Junos",
		"!\nversion 15.2\nhostname gw\n!\ninterface GigabitEthernet0/1\n ip address 192.0.2.1 255.255.255.0\n": "Cisco",
		"# nov/22/2026 10:00:00 by RouterOS 7.16\n/interface bridge\nadd name=lan\n":                           "RouterOS",
		"/ip address\nadd address=192.0.2.1/24 interface=ether1\n":                                             "RouterOS",
		"config interface 'lan'\n\toption proto 'static'\n\toption ipaddr '192.0.2.1'\n":                       "OpenWrt",
		"frr version 8.4\nfrr defaults traditional\nrouter bgp 64500\n":                                        "FRR",
		"<?xml version=\"1.0\"?>\n<pfsense>\n  <version>22.9</version>\n":                                      "pfSense",
		"#!/usr/sbin/nft -f\nflush ruleset\ntable inet filter {\n}\n":                                          "nftables",
		"router bgp 64500\n neighbor 192.0.2.9 remote-as 64496\n":                                              "FRR",
		"*filter\n-A INPUT -j DROP\nCOMMIT\n":                                                                  "iptables",
		"iptables -A FORWARD -j DROP\n":                                                                        "iptables",
		"[Interface]\nPrivateKey = x\n":                                                                        "WireGuard",
		"set firewall.@zone[0].input='DROP'\n":                                                                 "OpenWrt",
		"auto eth0\niface eth0 inet dhcp\n":                                                                    "ifupdown",
		"network:\n  version: 2\n  ethernets:\n    eth0: {dhcp4: true}\n":                                      "netplan",
	} {
		_, err := Parse("other.conf", []byte(text))
		var wrong *Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || !strings.Contains(err.Error(), "a configuration of "+name) || !strings.Contains(err.Error(), "docs/examples") {
			t.Errorf("%s:\n%v", name, err)
		}
	}
	// What is Minne's and wrong keeps its own messages.
	for _, text := range []string{"version: 1\ninterfacess: {}\n", "version: 1\ninterfaces:\n  lan: {addresses: [192.0.2.1]}\n  # set interfaces of the old router\n", ""} {
		if _, err := Parse("minne.yaml", []byte(text)); err == nil || strings.Contains(err.Error(), "this is a configuration of") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
