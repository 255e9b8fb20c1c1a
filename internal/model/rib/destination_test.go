// SPDX-License-Identifier: Apache-2.0

package rib

import "testing"

func TestParseDestination(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/24": "192.0.2.0/24", "2001:db8::1": "2001:db8::1/128", "2001:db8::1/32": "2001:db8::/32",
		"fe80::1%eth0": "", "192.0.2.0/33": "", "router": "", "": "",
	} {
		got, err := ParseDestination(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, expected %q", text, got, err, want)
		}
	}
}
