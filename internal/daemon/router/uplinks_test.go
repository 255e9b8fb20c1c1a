// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestTranslatedTo: connections end that were translated to a dead uplink's address, and not those of the router itself.
func TestTranslatedTo(t *testing.T) {
	t.Parallel()
	dead := translatedTo{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8::2")}
	for _, c := range []struct {
		name, from, back string // the source, and where replies go to
		ends             bool
	}{
		{"masqueraded", "192.168.1.9", "198.51.100.2", true},
		{"by the other uplink", "192.168.1.9", "203.0.113.2", false},
		{"the router's own", "198.51.100.2", "198.51.100.2", false},
		{"IPv6", "fd00::9", "2001:db8::2", true},
		{"not translated", "192.168.1.9", "192.168.1.9", false},
	} {
		f := &netlink.ConntrackFlow{Forward: netlink.IPTuple{SrcIP: net.ParseIP(c.from)}, Reverse: netlink.IPTuple{DstIP: net.ParseIP(c.back)}}
		if got := dead.MatchConntrackFlow(f); got != c.ends {
			t.Errorf("%s: ends %v, expected %v", c.name, got, c.ends)
		}
	}
}
