// SPDX-License-Identifier: Apache-2.0

package sendip

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

// The bytes, sums among them, are those that another program has made.
func TestUDP(t *testing.T) {
	from, to := netip.MustParseAddrPort("192.0.2.1:67"), netip.MustParseAddrPort("192.0.2.9:68")
	for data, want := range map[string]string{
		"":    "45c0001c000040004011b606c0000201c00002090043004400087b4c",
		"abc": "45c0001f000040004011b603c0000201c000020900430044000bb6e3616263",
	} {
		b := UDP(from, to, 64, []byte(data)).bytes()
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%q: %s", data, got)
		}
		if Sum(b[:headerLength]) != 0xffff {
			t.Errorf("%q: sum of the header %x", data, Sum(b[:headerLength]))
		}
	}
	if Sum([]byte{0xff, 0xff, 0x00, 0x01, 0x01}) != 0x0101 {
		t.Errorf("%x", Sum([]byte{0xff, 0xff, 0x00, 0x01, 0x01}))
	}
}
