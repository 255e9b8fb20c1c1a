// SPDX-License-Identifier: Apache-2.0

// Package ipnet has what net/netip lacks for IP networks: a reader that takes an address, too, the last address, and whether
// one network lies in another.
package ipnet

import (
	"fmt"
	"net/netip"
)

// Parse reads a prefix, host bits included, or an address as its full-length prefix. It refuses zones, and IPv4 inside
// IPv6 (::ffff:192.0.2.1), which the kernel takes for IPv6 and operators for IPv4.
func Parse(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if a, failed := netip.ParseAddr(text); failed == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%.60q: expected an address or a prefix as 192.0.2.0/24 or 2001:db8::/32", text)
	}
	return p, nil
}

// Must reads prefixes that the program itself has written.
func Must(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParsePrefix(t)
	}
	return list
}

// Last is the last address of a network; of IPv4, its broadcast address.
func Last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Within says whether p is a part of a network, or the same.
func Within(p, network netip.Prefix) bool {
	return p.Bits() >= network.Bits() && network.Contains(p.Addr())
}
