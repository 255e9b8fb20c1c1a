// SPDX-License-Identifier: Apache-2.0

package ipnet

import (
	"net/netip"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/24": "192.0.2.7/24", "2001:db8::1": "2001:db8::1/128", "2001:db8::/32": "2001:db8::/32",
		"fe80::1%eth0": "", "192.0.2.0/33": "", "::ffff:192.0.2.1": "", "::ffff:192.0.2.0/120": "", "192.0.02.1": "", "router": "", "": "",
	} {
		got, err := Parse(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, expected %q", text, got, err, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.0/24": "192.0.2.255", "192.0.2.9/30": "192.0.2.11", "192.0.2.9/32": "192.0.2.9", "0.0.0.0/0": "255.255.255.255",
		"2001:db8::/32": "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		if got := Last(netip.MustParsePrefix(text)); got.String() != want {
			t.Errorf("the last address of %s: %v, expected %s", text, got, want)
		}
	}
	list := Must("192.0.2.0/24", "192.0.2.128/25", "::/0")
	for i, want := range [][]bool{{true, false, false}, {true, true, false}, {false, false, true}} {
		for k, in := range want {
			if Within(list[i], list[k]) != in {
				t.Errorf("%s within %s: expected %v", list[i], list[k], in)
			}
		}
	}
}
