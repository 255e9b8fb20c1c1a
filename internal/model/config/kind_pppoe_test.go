// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// A session needs frames that are eight bytes larger than its packets.
func TestPPPoEMTU(t *testing.T) {
	secrets, err := ParseSecrets("secrets.yaml", []byte("s: word\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ wan, tag, isp, want string }{
		{"", "", "", ""},
		{"", "", "mtu: 1492, ", ""},
		{"", "", "mtu: 1493, ", "needs frames of 1501 bytes on tag, which carries 1500"},
		{"mtu: 1512", "mtu: 1508, ", "mtu: 1500, ", ""},
		{"mtu: 1508", "", "mtu: 1500, ", ""},
		{"mtu: 1508", "mtu: 1500, ", "mtu: 1500, ", "mtu: 1508 under interfaces.tag"},
		{"mtu: 1512", "mtu: 1512, ", "mtu: 1501, ", "does not fit into a PPPoE session"},
		{"mtu: 1400", "", "", "needs frames of 1500 bytes on tag, which carries 1400"},
		{"mtu: 1400", "", "mtu: 1392, ", ""},
	} {
		text := "version: 1\ninterfaces:\n  wan: {" + c.wan + "}\n  tag: {" + c.tag + "vlan: {parent: wan, id: 7}}\n  isp: {" + c.isp + "pppoe: {parent: tag, user: u, secret: s}}\n"
		cfg, err := Parse("test.yaml", []byte(text))
		if err == nil {
			err = Check(cfg, secrets)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %q", text, err, c.want)
		}
	}
}
