// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
)

// foreign are files of other routers' programs, by what only they look like. They are looked for once a
// file is refused, so that one mistake is told instead of twenty. The first that matches holds.
var foreign = []struct {
	name  string
	looks *regexp.Regexp
}{
	{"VyOS or EdgeOS (config.boot)", regexp.MustCompile(`(?m)vyos-config-version|vyatta-config-version|^interfaces \{\s*\n\s+(ethernet|loopback|bonding|bridge|switch|wireguard) \S+ \{`)},
	{"VyOS or EdgeOS (set commands)", regexp.MustCompile(`(?m)^set (interfaces (ethernet|loopback|bonding|bridge|wireguard|pppoe) |firewall |nat (source|destination) |service |protocols (bgp|ospf|static) (\d|parameters|area|route ))`)},
	{"Junos", regexp.MustCompile(`(?m)^set (interfaces \S+ unit \d|routing-options |policy-options |security |system host-name )|^## Last commit|^(system|interfaces|routing-options) \{\s*\n(.*\n)*?.*;\s*$`)},
	{"RouterOS (MikroTik)", regexp.MustCompile(`(?m)^# .* by RouterOS|^/(ip|interface|routing|system|ipv6)( |$)`)},
	{"OpenWrt (UCI)", regexp.MustCompile(`(?m)^(uci )?set (network|firewall|dhcp|wireless|system)\.|^config (interface|device|globals|defaults|zone|dnsmasq|system|rule|forwarding)\b.*(\n\s*(option|list) .*|\n\s*$)`)},
	{"FRR", regexp.MustCompile(`(?m)^frr (version|defaults) |^router (bgp \d+|ospf6?)\s*$`)},
	{"Cisco IOS or one like it", regexp.MustCompile(`(?mi)^interface (gigabit|fast|ten-?gig|twentyfive|forty|hundred)?(ethernet|gige|vlan|loopback|port-channel)\s*\d|^Building configuration|^ip route \d`)},
	{"pfSense or OPNsense", regexp.MustCompile(`<(pfsense|opnsense)>`)},
	{"nftables", regexp.MustCompile(`(?m)^(add )?table (inet|ip|ip6) \S+ \{|^flush ruleset`)},
	{"ifupdown (/etc/network/interfaces)", regexp.MustCompile(`(?m)^iface \S+ inet6? `)},
	{"iptables", regexp.MustCompile(`(?m)^\*(filter|nat|mangle|raw)\s*$|^(ip6?tables |-A (INPUT|FORWARD|OUTPUT|PREROUTING|POSTROUTING) )`)},
	{"WireGuard", regexp.MustCompile(`(?m)^\[(Interface|Peer)\]\s*$`)},
	{"netplan", regexp.MustCompile(`(?m)^network:\s*\n(\s*#.*\n)*\s+(version: 2|renderer:|ethernets:)`)},
}

// mostForeign bounds how much of a file is looked at, in bytes.
const mostForeign = 64 << 10

// foreignFile names another program's file in one problem, or returns nil.
func foreignFile(file string, data []byte) error {
	head := data[:min(len(data), mostForeign)]
	for _, f := range foreign {
		if at := f.looks.FindIndex(head); at != nil {
			line := 1
			for _, c := range head[:at[0]] {
				if c == '\n' {
					line++
				}
			}
			return &Error{Problems: []Problem{{File: file, Line: line, Column: 1,
				Message:  fmt.Sprintf("this is a configuration of %s, which Minne cannot read", f.name),
				Expected: "a configuration of Minne: begin with one of docs/examples, docs/guides/first-router.md explains it, and minne setup writes one by five questions"}}}
		}
	}
	return nil
}
