// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"net/netip"
	"slices"
)

// mergePrefixes sorts prefixes, IPv4 first, and leaves out those inside others.
func mergePrefixes(list []netip.Prefix) []netip.Prefix {
	list = slices.Clone(list)
	slices.SortFunc(list, comparePrefixes)
	kept := list[:0]
	for _, p := range list {
		if n := len(kept); n > 0 && kept[n-1].Overlaps(p) {
			continue // sorted: the one before is the shorter
		}
		kept = append(kept, p)
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// mergePorts sorts ranges and joins those that overlap or touch.
func mergePorts(list []PortRange) []PortRange {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b PortRange) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	var kept []PortRange
	for _, r := range list {
		if n := len(kept); n > 0 && int(r.First) <= int(kept[n-1].Last)+1 {
			kept[n-1].Last = max(kept[n-1].Last, r.Last)
			continue
		}
		kept = append(kept, r)
	}
	return kept
}
