// SPDX-License-Identifier: Apache-2.0

package rib

import (
	"fmt"
	"net/netip"
)

// ParseDestination takes a prefix, or an address as its full-length prefix.
func ParseDestination(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q: expected an address or a prefix as 192.0.2.0/24", text)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}
