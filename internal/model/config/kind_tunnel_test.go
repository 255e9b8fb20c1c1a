// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// What can't be a tunnel is refused at its line.
func TestTunnelIsRefused(t *testing.T) {
	for _, c := range []struct{ name, tunnel, more, want string }{
		{"t", "type: gre, remote: 203.0.113.9, key: 5, interfaces: [wan]", "", ""},
		{"t", "type: vxlan, id: 7, local: \"2001:db8::1\", remotes: [\"2001:db8::2\", \"2001:db8::3\"]", "", ""},
		{"t", "type: gre", "", "no far end"},
		{"t", "type: gre, remotes: [203.0.113.9]", "", "one far end"},
		{"t", "type: vxlan, id: 7, remote: 203.0.113.9, remotes: [203.0.113.8]", "", "remote and remotes"},
		{"t", "type: vxlan, id: 7, remotes: [203.0.113.9, 203.0.113.9]", "", "203.0.113.9"},
		{"t", "type: vxlan, id: 7, remotes: [203.0.113.9, \"2001:db8::2\"]", "", "of IPv4 and of IPv6"},
		{"t", "type: vxlan, id: 7, remote: \"2001:db8::2\"", "", "needs its own address"},
		{"t", "type: vxlan, remote: 203.0.113.9", "", "id is missing"},
		{"t", "type: ipip, remote: 203.0.113.9, key: 5", "", "no key"},
		{"t", "type: 6in4, remote: 203.0.113.9, port: 5", "", "no port"},
		{"t", "type: gre, remote: \"2001:db8::2\"", "", "goes over IPv4"},
		{"t", "type: gre, remote: 198.51.100.1", "", "address of this router"},
		{"t", "type: gre, remote: 224.0.0.5", "", "can't be a tunnel's end"},
		{"t", "type: gre, local: 127.0.0.1, remote: 203.0.113.9", "", "can't be a tunnel's end"},
		{"t", "type: gre, remote: 203.0.113.9, interfaces: [t]", "", "its own packets"},
		{"sit0", "type: 6in4, remote: 203.0.113.9", "", "makes by itself"},
		{"t", "type: gre, remote: 203.0.113.9", "u: {tunnel: {type: gre, remote: 203.0.113.9}}", "such a tunnel already"},
		{"t", "type: gre, remote: 203.0.113.9", "u: {tunnel: {type: gre, remote: 203.0.113.9, key: 5}}", ""},
		{"t", "type: vxlan, id: 7, remote: 203.0.113.9", "u: {tunnel: {type: vxlan, id: 7, remote: 203.0.113.8}}", "such a tunnel already"},
		{"t", "type: gre, remote: 203.0.113.9", "u: {vlan: {parent: t, id: 5}}", "no Ethernet frames"},
		{"t", "type: vxlan, id: 7, remote: 203.0.113.9", "u: {vlan: {parent: t, id: 5}}", ""},
		{"t", "type: gre, remote: 203.0.113.9", "u: {bridge: {ports: [t]}}", "no Ethernet frames"},
		{"t", "type: vxlan, id: 7, remote: 203.0.113.9", "u: {bridge: {ports: [t]}}", ""},
	} {
		text := "version: 1\ninterfaces:\n  wan: {addresses: [198.51.100.1/24, \"2001:db8::1/64\"]}\n  " + c.name + ": {tunnel: {" + c.tunnel + "}}\n"
		if c.more != "" {
			text += "  " + c.more + "\n"
		}
		cfg, err := Parse("test.yaml", []byte(text))
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", text, err, c.want)
		}
	}
}

// A tunnel's MTU is what is left of that of the interface that leads to the far end.
func TestTunnelMTU(t *testing.T) {
	const lines = `version: 1
interfaces:
  wan: {addresses: [198.51.100.1/24, "2001:db8::1/64"]}
  jumbo: {addresses: [198.51.101.1/24], mtu: 9000}
  tag: {vlan: {parent: jumbo, id: 5}, addresses: [198.51.102.1/24]}
  isp: {pppoe: {parent: wan, user: u, secret: s}}
  t: {`
	for tunnel, want := range map[string]int{
		"type: gre, remote: 203.0.113.9":                                                       1476,
		"type: gre, remote: 203.0.113.9, key: 1":                                               1472,
		"type: ipip, remote: 203.0.113.9, interfaces: [isp]":                                   1472,
		"type: 6in4, remote: 203.0.113.9, local: 198.51.101.1":                                 8980,
		"type: vxlan, id: 1, remote: 203.0.113.9, local: 198.51.102.1":                         8950,
		"type: vxlan, id: 1, remote: 203.0.113.9, local: 198.51.102.1, interfaces: [wan, tag]": 8950,
		"type: vxlan, id: 1, remote: 203.0.113.9, interfaces: [jumbo, isp]":                    1442,
		"type: vxlan, id: 1, remote: \"2001:db8::2\", local: \"2001:db8::1\"":                  1430,
	} {
		cfg, err := Parse("test.yaml", []byte(lines+"tunnel: {"+tunnel+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.MTU("t"); got != want {
			t.Errorf("%s: %d, want %d", tunnel, got, want)
		}
	}
	cfg, err := Parse("test.yaml", []byte(lines+"mtu: 1477, tunnel: {type: gre, remote: 203.0.113.9}}\n"))
	if err == nil {
		err = Check(cfg, Secrets{})
	}
	if err == nil || !strings.Contains(err.Error(), "at most 1476") {
		t.Errorf("a larger MTU than fits: %v", err)
	}
}
