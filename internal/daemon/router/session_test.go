// SPDX-License-Identifier: Apache-2.0

package router

import "testing"

func TestLoginOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7 50000 192.0.2.1 22":               "192.0.2.7:50000 192.0.2.1:22",
		"2001:db8::7 50000 2001:db8::1 2222":         "[2001:db8::7]:50000 [2001:db8::1]:2222",
		"::ffff:192.0.2.7 50000 ::ffff:192.0.2.1 22": "192.0.2.7:50000 192.0.2.1:22",
		"fe80::7%eth0 50000 fe80::1%eth0 22":         "[fe80::7]:50000 [fe80::1]:22",
		"":                                           "",
		"192.0.2.7 50000 192.0.2.1":                  "",
		"192.0.2.7 50000 192.0.2.1 22 23":            "",
		"192.0.2.7 x 192.0.2.1 22":                   "",
		"host 50000 192.0.2.1 22":                    "",
		"192.0.2.7 99999 192.0.2.1 22":               "",
		"192.0.2.7 50000 \x00 22":                    "",
	} {
		got := ""
		if client, server, ok := loginOf(text); ok {
			got = client.String() + " " + server.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
