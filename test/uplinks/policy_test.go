// SPDX-License-Identifier: Apache-2.0

package uplinks_test

import (
	"fmt"
	"strings"
	"testing"
)

const policyConfig = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  isp-a: {addresses: [198.51.100.2/30, "2001:db8:a::2/64"]}
  isp-b: {addresses: [198.51.100.6/30, "2001:db8:b::2/64"]}
uplinks:
  isp-a: {priority: 1, gateways: [198.51.100.1, "2001:db8:a::1"]}
  isp-b: {priority: 2, gateways: [198.51.100.5, "2001:db8:b::1"]}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [198.51.100.1]}
    - {prefix: "::/0", via: ["2001:db8:a::1"]}
    - {prefix: 203.0.113.1/32, via: [198.51.100.1]}
  policy:
    - {from: [192.0.2.2/32, "2001:db8:1::2/128"], interfaces: lan, protocol: udp, ports: [9000-9009, 9999], uplink: isp-b}
    - {to: 203.0.113.2/32, protocol: tcp, ports: 443, uplink: isp-b, only: true}
    - {dscp: 46, uplink: isp-b}
    - {to: 203.0.113.2/32, protocol: icmp, uplink: isp-b}
`

// chosen is a packet, and the uplink by which it is to leave.
type chosen struct {
	from, to string
	selects  string // as ip route get has it
	uplink   string // "" for none
}

// chooses waits until the kernel sends packets where they are to leave.
func (n *network) chooses(list ...chosen) {
	n.Helper()
	for _, c := range list {
		n.until(fmt.Sprintf("%+v", c), func() error {
			argv := append([]string{"ip", "route", "get", c.to, "from", c.from, "iif", "lan"}, strings.Fields(c.selects)...)
			out, err := n.lab.Node("border").Run(n.Context(), argv...)
			if c.uplink == "" && (err == nil || !strings.Contains(err.Error()+out, "Network is unreachable")) {
				return fmt.Errorf("expected an error: %s %v", out, err)
			}
			if c.uplink != "" && (err != nil || !strings.Contains(out, "dev "+c.uplink+" ")) {
				return fmt.Errorf("%s %w", out, err)
			}
			return nil
		})
	}
}

// TestPolicyRouting: rules choose uplinks in the kernel, are put back, and pass packets on when their uplink is out of use.
func TestPolicyRouting(t *testing.T) {
	t.Parallel()
	n := start(t, policyConfig)
	apply := func(text string) {
		t.Helper()
		file, err := n.border.Write(t.Context(), "next.yaml", text)
		n.must(err)
		_, err = n.border.Command(t.Context(), "apply", file)
		n.must(err)
	}
	apply(policyConfig)
	const d4, d6, w4, w6 = "192.0.2.2", "2001:db8:1::2", "203.0.113.2", "2001:db8:f::2"
	whole := []chosen{
		{d4, w4, "ipproto udp sport 5 dport 9000", "isp-b"},
		{d4, w4, "ipproto udp sport 5 dport 9009", "isp-b"},
		{d4, w4, "ipproto udp sport 5 dport 9999", "isp-b"},
		{d4, w4, "ipproto udp sport 5 dport 9010", "isp-a"},
		{d4, w4, "ipproto tcp sport 5 dport 9000", "isp-a"},
		{"192.0.2.3", w4, "ipproto udp sport 5 dport 9000", "isp-a"},
		{d6, w6, "ipproto udp sport 5 dport 9000", "isp-b"},
		{d6, w6, "ipproto udp sport 5 dport 53", "isp-a"},
		{d4, w4, "ipproto tcp sport 5 dport 443", "isp-b"},
		{d4, w4, "ipproto udp sport 5 dport 53 tos 0xb8", "isp-b"},
		{d6, w6, "ipproto udp sport 5 dport 53 tos 0xb8", "isp-b"},
		{d4, "203.0.113.1", "ipproto udp sport 5 dport 9000", "isp-a"},  // a route other than the default route
		{d4, "198.51.100.1", "ipproto udp sport 5 dport 9000", "isp-a"}, // a network of the router
		{"192.0.2.3", "192.0.2.9", "ipproto udp sport 5 dport 53 tos 0xb8", "lan"},
	}
	n.chooses(whole...)
	out, _ := n.lab.Node("desk").Run(t.Context(), "ping", "-c1", "-W9", "-t2", w4) // the second hop answers
	if !strings.Contains(out, "198.51.100.5") {
		n.until("a ping by isp-b", func() error {
			out, err := n.lab.Node("desk").Run(t.Context(), "ping", "-c1", "-W9", "-t2", w4)
			if !strings.Contains(fmt.Sprint(out, err), "198.51.100.5") {
				return fmt.Errorf("%s %w", out, err)
			}
			return nil
		})
	}
	rules := func() string { return n.run("border", "ip", "rule") + n.run("border", "ip", "-6", "rule") }
	before := rules()

	t.Log("rules and routes that somebody takes away come back")
	n.run("border", "ip", "rule", "del", "priority", "20001")
	n.run("border", "ip", "-6", "rule", "del", "priority", "20000")
	n.until("the rules to be back", func() error {
		if now := rules(); now != before {
			return fmt.Errorf("%s\nbefore:\n%s", now, before)
		}
		return nil
	})
	n.border.KillDaemon()
	n.must(n.border.StartDaemon(t.Context()))
	n.shows("isp-b", "up", false)
	if now := rules(); now != before {
		t.Errorf("after a crash the rules are\n%s\nbefore:\n%s", now, before)
	}

	t.Log("an uplink out of use")
	_, err := n.border.Command(t.Context(), "uplink", "isp-b", "off")
	n.must(err)
	n.chooses(chosen{d4, w4, "ipproto udp sport 5 dport 9000", "isp-a"}, chosen{d6, w6, "ipproto udp sport 5 dport 9000", "isp-a"},
		chosen{d4, w4, "ipproto tcp sport 5 dport 443", ""})
	shown, err := n.border.Command(t.Context(), "show", "policy-routing")
	n.must(err)
	if !strings.Contains(string(shown), "passed on") || !strings.Contains(string(shown), "unreachable") {
		t.Errorf("show policy-routing:\n%s", shown)
	}
	_, err = n.border.Command(t.Context(), "uplink", "isp-b", "on")
	n.must(err)
	n.chooses(whole...)

	t.Log("other rules, and none")
	first := strings.Index(policyConfig, "    - {from: [192")
	apply(policyConfig[:first] + policyConfig[strings.Index(policyConfig, "    - {to: 203.0.113.2/32, protocol: tcp"):])
	n.chooses(chosen{d4, w4, "ipproto udp sport 5 dport 9000", "isp-a"}, chosen{d4, w4, "ipproto tcp sport 5 dport 443", "isp-b"})
	if now := rules(); strings.Contains(now, "9000") || strings.Count(now, "dport 443 ") != 2 {
		t.Errorf("rules:\n%s", now)
	}
	apply(policyConfig[:strings.Index(policyConfig, "  policy:")])
	n.chooses(chosen{d4, w4, "ipproto tcp sport 5 dport 443", "isp-a"})
	if now := rules(); strings.Contains(now, "\n2") {
		t.Errorf("rules are left:\n%s", now)
	}
}
