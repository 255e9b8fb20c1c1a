// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// Which firewalls end a login from the network of an interface, and why.
func TestCuts(t *testing.T) {
	for _, line := range []string{
		"link add kern0 type veth peer name kern1", "link set kern0 up", "link set kern1 up", "link set lo up",
		"addr add 192.0.2.1/24 dev kern0", "route add default via 192.0.2.254",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", line, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "kern0").Run() })
	const head = "version: 1\ninterfaces:\n  lan: {match: {name: kern0}, zone: lan, addresses: [192.0.2.1/24]}\n  wan: {zone: wan}\n"
	for _, c := range []struct{ name, text, client, server, want string }{
		{"no firewall", "version: 1\ninterfaces: {lan: {match: {name: kern0}}}\n", "192.0.2.7:50000", "192.0.2.1:22", ""},
		{"no rule", head, "192.0.2.7:50000", "192.0.2.1:22", "no rule from zone lan to self permits TCP from 192.0.2.7 to port 22"},
		{"behind a router", head, "198.51.100.7:50000", "192.0.2.1:22", "no rule from zone lan to self permits TCP from 198.51.100.7 to port 22"},
		{"no zone", strings.Replace(head, "zone: lan, ", "", 1), "192.0.2.7:50000", "192.0.2.1:22", "lan has no zone"},
		{"permitted", head + "firewall: {policies: [{from: lan, to: self, rules: [permit tcp any self ssh]}]}", "192.0.2.7:50000", "192.0.2.1:22", ""},
		{"another port", head + "firewall: {policies: [{from: lan, to: self, rules: [permit tcp any self ssh]}]}", "192.0.2.7:50000", "192.0.2.1:2222", "to port 2222"},
		{"forbidden", head + "firewall: {policies: [{from: lan, to: self, rules: [deny any 192.0.2.0/28, permit any]}]}", "192.0.2.7:50000", "192.0.2.1:22",
			`"deny any 192.0.2.0/28" (router.yaml:5) forbids it`},
		{"only one way", head + "firewall: {policies: [{from: lan, to: self, stateless: true, default: permit}, {from: self, to: lan, stateless: true, rules: [deny tcp]}]}",
			"192.0.2.7:50000", "192.0.2.1:22", `"deny tcp" (router.yaml:5) forbids it`},
		{"not to the router", head, "192.0.2.7:50000", "192.0.2.9:22", ""},
		{"from itself", head, "192.0.2.1:50000", "192.0.2.1:22", ""},
		{"found by path", strings.Replace(head, "name: kern0", "path: x", 1), "192.0.2.7:50000", "192.0.2.1:22", ""},
	} {
		cfg, err := config.Parse("router.yaml", []byte(c.text))
		must(t, err)
		d, err := Render(cfg, nil, t.TempDir())
		must(t, err)
		must(t, d.Broken)
		got := d.Cuts(cfg, netip.MustParseAddrPort(c.client), netip.MustParseAddrPort(c.server))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
