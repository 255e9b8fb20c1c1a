// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"net/netip"
	"slices"

	"minne/internal/base/ipnet"
)

// martians are destinations that a router must not forward to (RFC 1812 section
// 5.3.7, RFC 4291 section 2.5): a packet to one of them measures nothing.
var martians = ipnet.Must(
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3",
	"::/8", "fe80::/9", "ff00::/8",
)

// special are the addresses that are not the public Internet's (RFC 6890 and the IANA registries that it began).
var special = append(ipnet.Must(
	"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
), martians...)

var martianSpans = func() (out []span4) {
	for _, p := range martians {
		if p.Addr().Is4() {
			out = append(out, spanOf(p))
		}
	}
	return out
}()

func within(a netip.Addr, set []netip.Prefix) bool {
	return slices.ContainsFunc(set, func(p netip.Prefix) bool { return p.Contains(a) })
}

// HasUnicast reports whether a prefix holds an address that is no martian: it does unless a martian prefix holds it whole.
func HasUnicast(p netip.Prefix) bool {
	return !slices.ContainsFunc(martians, func(m netip.Prefix) bool { return ipnet.Within(p, m) })
}
