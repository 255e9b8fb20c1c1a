// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// What a program makes a flow of has both keys where the program looks for them.
func TestNewFlow(t *testing.T) {
	for _, f := range []struct{ from, to, as string }{{"192.0.2.2", "198.51.100.2", "198.51.100.1"}, {"2001:db8:a::2", "2001:db8:b::2", "2001:db8:b::1"}} {
		keys := [2]Key{{Source: netip.MustParseAddr(f.from), Destination: netip.MustParseAddr(f.to), SourcePort: 7, DestinationPort: 7, Protocol: unix.IPPROTO_ICMP},
			{Source: netip.MustParseAddr(f.to), Destination: netip.MustParseAddr(f.as), SourcePort: 900, DestinationPort: 900, EchoReply: true, Protocol: unix.IPPROTO_ICMP}}
		b := NewFlow(keys, 77)
		for i, want := range keys {
			if got, err := KeyOf(b[40*i:]); err != nil || got != want {
				t.Errorf("key %d is %v (%v), want %v", i, got, err, want)
			}
		}
		if now := binary.NativeEndian.Uint16(b[80:]); now != 77 || b[82] != Translated || len(b) != 88 {
			t.Errorf("made at %d, flags %d, %d bytes", now, b[82], len(b))
		}
	}
}
