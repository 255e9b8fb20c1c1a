// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The guard is what it says, and no hand but its owner's takes it away.
func TestGuard(t *testing.T) {
	const table = "lab_guard"
	tcp, icmp6, solicitation := uint8(6), uint8(58), uint8(135)
	g := Guard{Table: table, Comment: "a guard", Mark: 1 << 31,
		Self: []Rule{
			{Interface: "lo"},
			{Interface: "lan", Goto: "from_lan"},
			{Family: unix.NFPROTO_IPV6, Protocol: &icmp6, ICMPType: &solicitation, HopLimit: 255},
			{Protocol: &tcp, TCPFlags: 0x10},
		},
		Chains: []Chain{{"from_lan", []Rule{
			{Source: netip.MustParsePrefix("192.0.2.128/25"), Protocol: &tcp, Ports: &Ports{22, 22}},
			{Source: netip.MustParsePrefix("2001:db8::/32"), Destination: netip.MustParsePrefix("2001:db8::1/128"), Protocol: &tcp, SourcePorts: &Ports{1024, 65535}, Drop: true},
		}}},
	}
	list := func() string {
		text, err := Table(t.Context(), table, "-s")
		must(t, err)
		return text
	}
	must(t, g.Write())
	must(t, g.Write())
	for _, want := range []string{
		`comment "a guard"`,
		"type filter hook forward priority filter + 10; policy drop;",
		"meta mark set meta mark & 0x7fffffff accept",
		"meta mark set meta mark & 0x3fffffff accept",
		"type filter hook input priority filter + 10; policy drop;",
		`iifname "lo" counter accept`,
		`iifname "lan" counter goto from_lan`,
		"ip6 hoplimit 255 icmpv6 type nd-neighbor-solicit counter accept",
		"tcp flags ack counter accept",
		"ip saddr 192.0.2.128/25 tcp dport 22 counter accept",
		"ip6 saddr 2001:db8::/32 ip6 daddr 2001:db8::1 tcp sport 1024-65535 counter drop",
	} {
		if !strings.Contains(list(), want) {
			t.Errorf("no %q in\n%s", want, list())
		}
	}
	if text := list(); strings.Count(text, "\t\tcounter drop\n\t}") != 3 {
		t.Errorf("a chain does not end with a rule that drops:\n%s", text)
	}
	for _, script := range []string{"delete table inet " + table, "flush chain inet " + table + " forward", "insert rule inet " + table + " forward accept"} {
		if out, err := exec.Command("nft", script).CombinedOutput(); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	if out, err := exec.Command("nft", "flush ruleset").CombinedOutput(); err != nil || list() == "" {
		t.Errorf("flush ruleset: %v %s, leaves %q", err, out, list())
	}
	g.Shut = true
	must(t, g.Write())
	if text := list(); strings.Contains(text, "0x7fffffff accept") || !strings.Contains(text, "meta mark set meta mark & 0x3fffffff accept") {
		t.Errorf("shut, it is\n%s", text)
	}
	must(t, Remove(table))
	must(t, Remove(table))
	if text := list(); text != "" {
		t.Errorf("left:\n%s", text)
	}
}
