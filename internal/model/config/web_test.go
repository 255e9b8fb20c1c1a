// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// The web page is where it is named, never on a way to the Internet by slip, and somebody can log in.
func TestWeb(t *testing.T) {
	t.Parallel()
	secrets, err := ParseSecrets("secrets.yaml", []byte("good: \"$6$salt$"+strings.Repeat("a", 86)+"\"\nold: \"$2b$10$abcdefghijklmnopqrstuv\"\nsum: \"sha256:"+strings.Repeat("0", 64)+"\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for web, want := range map[string]string{
		"{interfaces: [lan], users: {ana: {role: read, secret: good}}}":                "",
		"{interfaces: [lan], tokens: {watch: {role: operate, secret: sum}}}":           "",
		"{interfaces: [mgmt0], outside: on, users: {ana: {role: read, secret: good}}}": "",
		"{interfaces: [wan], outside: on, users: {ana: {role: admin, secret: good}}}":  "",
		"{interfaces: [wan], users: {ana: {role: admin, secret: good}}}":               "wan leads to the Internet",
		"{interfaces: [lan, dsl], users: {ana: {role: admin, secret: good}}}":          "dsl leads to the Internet",
		"{interfaces: [mgmt0], users: {ana: {role: admin, secret: good}}}":             "mgmt0 leads to the Internet",
		"{interfaces: [transit], users: {ana: {role: admin, secret: good}}}":           "transit leads to the Internet",
		"{interfaces: [mgmt], users: {ana: {role: admin, secret: good}}}":              "mgmt has no hosts",
		"{interfaces: [], users: {ana: {role: admin, secret: good}}}":                  "the list of interfaces is empty",
		"{interfaces: [lan]}": "nobody can log in",
		"{interfaces: [lan], users: {ana: {role: root, secret: good}}}":                     "root",
		"{interfaces: [lan], users: {Ana: {role: read, secret: good}}}":                     `"Ana" is not a valid name`,
		"{interfaces: [lan], users: {ana: {role: read, secret: old}}}":                      "not a password hash that the web page can check",
		"{interfaces: [lan], users: {ana: {role: read, secret: none}}}":                     "there is no secret of this name",
		"{interfaces: [lan], tokens: {watch: {role: read, secret: good}}}":                  "not the SHA-256 of a token",
		"{interfaces: [lan], certificate: a.pem, users: {ana: {role: read, secret: good}}}": "without its private key",
		"{interfaces: [lan], key: a.key, users: {ana: {role: read, secret: good}}}":         "without its certificate",
		"{interfaces: [lan], port: 22, users: {ana: {role: read, secret: good}}}":           "SSH has the port 22",
		"{interfaces: [lan, lan], users: {ana: {role: read, secret: good}}}":                "lan",
	} {
		cfg, err := Parse("test.yaml", []byte(`version: 1
system: {admin: {ssh-keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat"]}}
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {dhcp: on}
  eth9: {}
  dsl: {pppoe: {parent: eth9, user: me, secret: good}}
  transit: {addresses: [198.51.100.1/30]}
  mgmt0: {addresses: [203.0.113.1/24]}
  mgmt: {vrf: {table: 5, interfaces: [mgmt0]}}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [198.51.100.2]}
    - {prefix: 0.0.0.0/0, via: [203.0.113.2], vrf: mgmt}
services: {ssh: {interfaces: [lan]}, web: `+web+"}\n"))
		if err == nil {
			err = Check(cfg, secrets)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", web, err, want)
		}
	}
}
