// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// What cannot be, or would take another's packets, is refused at its line.
func TestWireGuardIsRefused(t *testing.T) {
	const key = `public-key: "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw="`
	secrets, err := ParseSecrets("secrets.yaml", []byte("own: yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nword: hello\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ vpn, more, want string }{
		{"private-key: own, listen-port: 51820, interfaces: [lan], peers: {a: {" + key + ", allowed: [10.2.0.0/24], keepalive: 25s}}", "", ""},
		{"private-key: word", "", "not a WireGuard key"},
		{"private-key: own, interfaces: [lan]", "", "no listen-port"},
		{"private-key: own, listen-port: 5, interfaces: [vpn]", "", "its own packets"},
		{"private-key: own, peers: {a: {public-key: abc, allowed: [10.2.0.0/24]}}", "", "no key"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.2.0.0/24]}, b: {" + key + ", allowed: [10.3.0.0/24]}}", "", "has this key already"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.1.0.0/24]}}", "", "network of lan"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.9.0.1/32]}}", "", "this router itself"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.2.0.0/24], endpoint: \"10.2.0.1:5\"}}", "", "carry its own packets"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.2.0.0/24], endpoint: somewhere}}", "", "no endpoint"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.2.0.0/24], keepalive: 1500ms}}", "", "keepalive"},
		{"private-key: own, peers: {a: {" + key + ", allowed: [10.2.0.0/24]}}", "routing: {static: [{prefix: 10.2.0.0/24, blackhole: true}]}", "leads to 10.2.0.0/24 already"},
		{"private-key: own, routes: off, peers: {a: {" + key + ", allowed: [10.2.0.0/24]}}", "routing: {static: [{prefix: 10.2.0.0/24, blackhole: true}]}", ""},
	} {
		text := "version: 1\ninterfaces:\n  lan: {addresses: [10.1.0.1/24]}\n  vpn: {addresses: [10.9.0.1/24], wireguard: {" + c.vpn + "}}\n" + c.more + "\n"
		cfg, err := Parse("test.yaml", []byte(text))
		if err == nil {
			err = Check(cfg, secrets)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", text, err, c.want)
		}
	}
	cfg, err := Parse("test.yaml", []byte("version: 1\ninterfaces:\n  vpn: {wireguard: {private-key: own}}\n  tag: {vlan: {parent: vpn, id: 5}}\n"))
	if err == nil {
		err = Check(cfg, secrets)
	}
	if err == nil || !strings.Contains(err.Error(), "no Ethernet frames") {
		t.Errorf("a VLAN on WireGuard: %v", err)
	}
}
