// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/base/pcap"
	"minne/internal/daemon/show"
	"minne/internal/model/packet"
)

const explainedFirewall = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:a::1/64"], zone: inside}
  wan: {addresses: [198.51.100.1/24, "2001:db8:b::1/64"], zone: outside}
firewall:
  policies:
    - {from: inside, to: outside, rules: [deny tcp any any telnet, reject tcp any any smtp, permit tcp any any http name web, permit udp any any dns limit 10/s log]}
    - {from: outside, to: inside, rules: [deny any]}
`

// TestExplainFirewall: what the fast path leaves to the kernel because of the firewall, the rules
// are asked about; in a capture too.
func TestExplainFirewall(t *testing.T) {
	f := newForwarder(t)
	f.want(0, "applied", "apply", f.file("firewall.yaml", explainedFirewall))
	for _, c := range []struct {
		proto, dport string
		verdict      string
		reason       string
		want         *show.Firewalled
	}{
		{"tcp", "23", "dropped", "denied", nil},
		{"tcp", "25", "punted", "beginning", &show.Firewalled{From: "inside", To: "outside", Action: "reject", By: "rule 2 (reject tcp any any smtp)", Rule: 2, State: true}},
		{"tcp", "80", "punted", "beginning", &show.Firewalled{From: "inside", To: "outside", Action: "permit", By: "rule 3 (web)", Rule: 3, State: true}},
		{"udp", "53", "punted", "beginning", &show.Firewalled{From: "inside", To: "outside", Action: "permit", By: "rule 4 (permit udp any any dns limit 10/s log)",
			Rule: 4, State: true, Limit: true, Log: true}},
		{"tcp", "81", "dropped", "denied", nil},
		{"icmp", "0", "punted", "connection", &show.Firewalled{From: "inside", To: "outside", Action: "deny", By: "the default", State: true, Log: true}},
	} {
		x := f.explained("--proto", c.proto, "--dport", c.dport)
		if x.Verdict != c.verdict || x.Reason != c.reason {
			t.Errorf("%s to port %s: %s (%s), expected %s (%s)", c.proto, c.dport, x.Verdict, x.Reason, c.verdict, c.reason)
		}
		if (x.Firewall == nil) != (c.want == nil) || c.want != nil && *x.Firewall != *c.want {
			t.Errorf("%s to port %s: the firewall says %+v, expected %+v", c.proto, c.dport, x.Firewall, c.want)
		}
	}
	said := f.minne("explain", "--in", "lan", "--src", "192.0.2.9", "--dst", "198.51.100.2", "--proto", "tcp", "--dport", "23")
	if !strings.Contains(said.out, "no  inside to outside, rule 1 (deny tcp any any telnet): the firewall denies it") {
		t.Errorf("the rule that drops is not named:\n%s", said.out)
	}

	var file bytes.Buffer
	w, err := pcap.NewWriter(&file, "test", 2000)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []packet.Probe{probe("192.0.2.9", "198.51.100.2", 53), probe("192.0.2.9", "198.51.100.2", 54)} {
		frame, err := p.Frame(f.mac, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(pcap.Packet{Time: time.Unix(1, 0), Interface: "lan", Frame: frame, Wire: len(frame)}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(f.root, "asked.pcap")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f.want(0, "punted (beginning), firewall: permit by rule 4 (permit udp any any dns limit 10/s log)", "explain", "--in", "lan", "--pcap", path)
	f.want(0, "2 packets: 0 forwarded, 1 dropped, 1 punted to the kernel", "explain", "--in", "lan", "--pcap", path)
}
