// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const capturedFirewall = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:a::1/64"], anti-spoof: strict, zone: inside}
  wan: {addresses: [198.51.100.1/24, "2001:db8:b::1/64"], zone: outside}
firewall:
  policies:
    - {from: inside, to: outside, stateless: true, rules: [deny udp any any dns name names, permit udp any any 80, deny udp any any 81 name twice, deny udp any any 82 name twice]}
    - {from: outside, to: self, rules: [permit tcp any self http name web]}
`

// TestCaptureByRule: each rule has its own packets, with its name, and no other's.
func TestCaptureByRule(t *testing.T) {
	t.Parallel()
	f := newForwarder(t)
	f.want(0, "applied", "apply", f.file("firewall.yaml", capturedFirewall))
	traffic := func() {
		for port, n := range map[uint16]int{53: 30, 80: 40, 81: 50, 9: 60} {
			f.send(n, probe("192.0.2.9", "198.51.100.2", port))
		}
		f.send(20, probe("198.51.100.77", "198.51.100.2", 53)) // spoofed: no rule is asked
		f.settled()
	}
	for _, c := range []struct {
		rule    string
		want    int
		comment string // of every packet
	}{
		{"names", 30, "in lan: dropped (denied: the firewall denies it), rule 1 (names)"},
		{"1", 30, "in lan: dropped (denied: the firewall denies it), rule 1 (names)"},
		{"2", 40, "in lan: forwarded by wan, rule 2 (permit udp any any 80)"},
		{"default", 60, ", the default, deny"}, // one of them goes up to be logged,
	} {
		path := filepath.Join(f.root, c.rule+".pcapng")
		running := f.capture("--rule", c.rule, "-w", path)
		traffic()
		running.end(true)
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if all, named := strings.Count(string(file), "in lan: "), strings.Count(string(file), c.comment); all != c.want || named != c.want {
			t.Errorf("rule %s: %d packets, %d with the comment %q, expected %d", c.rule, all, named, c.comment, c.want)
		}
	}
	lines := f.capture("--reason", "spoofed")
	traffic()
	if out := lines.end(true); strings.Count(out, "\n") != 20 || strings.Contains(out, "rule ") || strings.Contains(out, "default") {
		t.Errorf("what no rule was asked about has one:\n%s", out)
	}

	for rule, want := range map[string]string{
		"nobody": `no rule "nobody"`, "7": `no rule "7"`, "twice": `several rules are named "twice" (3, 4)`,
		"web": `the fast path does not evaluate rule "web"`,
	} {
		f.want(1, want, "capture", "--count", "1", "--rule", rule)
	}

	ended := f.capture("--rule", "2")
	more := strings.Replace(capturedFirewall, "[deny udp any any dns name names,", "[permit tcp any any ssh, deny udp any any dns name names,", 1)
	f.want(0, "applied", "apply", f.file("more.yaml", more))
	if err := ended.cmd.Wait(); err == nil || !ended.says("the capture ended early: the rules have changed") {
		t.Errorf("other rules have these numbers, and the capture goes on: %v", err)
	}
	f.want(0, "applied", "apply", f.file("minne.yaml", forwarderConfig))
	f.want(1, "there is no firewall", "capture", "--count", "1", "--rule", "2")
}
