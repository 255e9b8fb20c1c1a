// SPDX-License-Identifier: Apache-2.0

// Bogons: prefixes and AS numbers that no external peer should tell us.
package routing

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/base/ipnet"
)

// bogons4 are the IPv4 blocks that are not global unicast (RFC 6890 and its updates, RFC 5771, RFC 1112).
var bogons4 = ipnet.Must(
	"0.0.0.0/8",       // this network, RFC 791
	"10.0.0.0/8",      // private use, RFC 1918
	"100.64.0.0/10",   // shared address space, RFC 6598
	"127.0.0.0/8",     // loopback, RFC 1122
	"169.254.0.0/16",  // link local, RFC 3927
	"172.16.0.0/12",   // private use, RFC 1918
	"192.0.0.0/24",    // protocol assignments, RFC 6890
	"192.0.2.0/24",    // documentation, RFC 5737
	"192.168.0.0/16",  // private use, RFC 1918
	"198.18.0.0/15",   // benchmarking, RFC 2544
	"198.51.100.0/24", // documentation, RFC 5737
	"203.0.113.0/24",  // documentation, RFC 5737
	"224.0.0.0/4",     // multicast, RFC 5771
	"240.0.0.0/4",     // reserved, RFC 1112
)

// bogons6 are the blocks inside 2000::/3 that are not global unicast; all outside of it is bogon anyway.
var bogons6 = ipnet.Must(
	"2001::/23",     // protocol assignments, RFC 2928
	"2001:db8::/32", // documentation, RFC 3849
	"2002::/16",     // 6to4, RFC 3056, deprecated by RFC 7526
	"3ffe::/16",     // former 6bone, RFC 3701
	"3fff::/20",     // documentation, RFC 9637
)

// The longest prefixes that are told between networks.
const (
	longest4 = 24
	longest6 = 48
)

// bogonPrefixes returns the list that permits (that is, matches) bogon prefixes. It never matches a default route.
func bogonPrefixes(v6 bool) prefixList {
	p := prefixList{name: "bogons4", v6: v6}
	if v6 {
		p.name = "bogons6"
		for _, b := range bogons6 {
			p.add("permit", b, 0, 128)
		}
		p.add("deny", netip.MustParsePrefix("2000::/3"), 0, longest6)
		p.add("permit", netip.MustParsePrefix("::/0"), 1, 128)
		return p
	}
	for _, b := range bogons4 {
		p.add("permit", b, 0, 32)
	}
	p.add("permit", netip.MustParsePrefix("0.0.0.0/0"), longest4+1, 32)
	return p
}

// asnRange is a span of AS numbers, both ends included.
type asnRange struct{ lo, hi uint64 }

// bogonASNs are the AS numbers that may not appear in a path of the Internet:
// RFC 7607 (0), RFC 6793 (AS_TRANS), RFC 5398 and RFC 6996 (documentation, private use), reserved up to 131071.
var bogonASNs = []asnRange{
	{0, 0}, {23456, 23456}, {64496, 131071}, {4200000000, 4294967295},
}

// bogonPath returns the regular expression for AS paths with a bogon AS number. The AS numbers in known,
// those that the operator has configured, are no bogons: peering with a private AS is a decision.
func bogonPath(known []uint32) string {
	ranges := slices.Clone(bogonASNs)
	for _, k := range known {
		n := uint64(k)
		var cut []asnRange
		for _, r := range ranges {
			if n < r.lo || n > r.hi {
				cut = append(cut, r)
				continue
			}
			if n > r.lo {
				cut = append(cut, asnRange{r.lo, n - 1})
			}
			if n < r.hi {
				cut = append(cut, asnRange{n + 1, r.hi})
			}
		}
		ranges = cut
	}
	var alternatives []string
	for _, r := range ranges {
		alternatives = append(alternatives, decimalRange(r.lo, r.hi)...)
	}
	return "_(" + strings.Join(alternatives, "|") + ")_"
}

// decimalRange returns patterns that together match exactly the decimal numbers lo to hi.
func decimalRange(lo, hi uint64) []string {
	var out []string
	for lo <= hi {
		// The widest aligned block 10^k that starts at lo and ends within hi, all of one length.
		size, zeros := uint64(1), 0
		for lo%(size*10) == 0 && lo+size*10-1 <= hi && lo >= size*10 {
			size *= 10
			zeros++
		}
		// As many such blocks as share the digits before.
		last := lo/size%10 + (hi-lo+1)/size - 1
		last = min(last, 9)
		head := lo / size / 10
		pattern := ""
		if head > 0 {
			pattern = fmt.Sprint(head)
		}
		first := lo / size % 10
		if first == last {
			pattern += fmt.Sprint(first)
		} else {
			pattern += fmt.Sprintf("[%d-%d]", first, last)
		}
		out = append(out, pattern+strings.Repeat("[0-9]", zeros))
		lo += (last - first + 1) * size
	}
	return out
}
