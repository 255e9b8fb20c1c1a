// SPDX-License-Identifier: Apache-2.0

// Package destinations draws the addresses that a generator sends to: out of a
// routing table, or anywhere on the Internet.
//
// "rDoS" in the papers is a new random destination in every packet, so that no
// cache helps a router. What random means matters: over the addresses that a
// table covers, a /8 gets 65,536 times the packets of a /24, as it would of an
// attacker who draws numbers; over the prefixes, every route is used alike. For
// IPv6 the first would send nearly all packets to the few shortest prefixes.
//
// Addresses that no router forwards to (multicast, loopback, link-local …) are
// never drawn, even when a table covers them, as a default route does.
package destinations

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sort"
)

// Draw returns one destination after the other. What it returns depends on
// nothing but the random source and how often it was called.
type Draw func(random *rand.Rand) netip.Addr

// Take draws n addresses.
func (d Draw) Take(n int, random *rand.Rand) []netip.Addr {
	out := make([]netip.Addr, n)
	for i := range out {
		out[i] = d(random)
	}
	return out
}

// span4 is a range of IPv4 addresses, both ends included.
type span4 struct{ first, last uint32 }

// Outside returns the same draws without addresses of these networks. The draw
// must have others.
func (d Draw) Outside(networks []netip.Prefix) Draw {
	return func(random *rand.Rand) netip.Addr {
		for {
			if a := d(random); !within(a, networks) {
				return a
			}
		}
	}
}

// Covered draws uniformly among the IPv4 addresses that the prefixes cover;
// prefixes of IPv6 are passed over.
func Covered(table []netip.Prefix) (Draw, error) {
	spans := unicastSpans(table)
	upTo := make([]uint64, len(spans)) // addresses in the spans up to and with this one
	total := uint64(0)
	for i, s := range spans {
		total += uint64(s.last-s.first) + 1
		upTo[i] = total
	}
	if total == 0 {
		return nil, errors.New("no IPv4 prefix in the table covers an address that routers forward to")
	}
	return func(random *rand.Rand) netip.Addr {
		k := random.Uint64N(total)
		i := sort.Search(len(upTo), func(i int) bool { return k < upTo[i] })
		return addr4(spans[i].last - uint32(upTo[i]-1-k))
	}, nil
}

// EachPrefix draws a random host of every prefix of a family in turn: the walk
// goes through all of them in random order before one comes again. A host of a
// prefix may belong to a longer one inside it.
func EachPrefix(table []netip.Prefix, ipv6 bool) (Draw, error) {
	var prefixes []netip.Prefix
	for _, p := range table {
		if p.Addr().Is6() == ipv6 && HasUnicast(p) {
			prefixes = append(prefixes, p)
		}
	}
	if len(prefixes) == 0 {
		return nil, errors.New("no prefix of this family in the table holds an address that routers forward to")
	}
	var order []int
	return func(random *rand.Rand) netip.Addr {
		if len(order) == 0 {
			order = random.Perm(len(prefixes))
		}
		p := prefixes[order[0]]
		order = order[1:]
		return HostOf(p, random)
	}, nil
}

// Public draws uniformly among the addresses of the public Internet: for IPv4
// all but the special-purpose ones (RFC 6890), for IPv6 those of 2000::/3
// (global unicast so far, RFC 4291 section 2.4) without what RFC 6890 sets aside.
func Public(ipv6 bool) Draw {
	all := netip.MustParsePrefix("0.0.0.0/0")
	if ipv6 {
		all = netip.MustParsePrefix("2000::/3")
	}
	return func(random *rand.Rand) netip.Addr {
		for {
			if a := fill(all, random); !within(a, special) {
				return a
			}
		}
	}
}

// HostOf returns a random address of the prefix to which routers forward;
// the prefix must hold one.
func HostOf(p netip.Prefix, random *rand.Rand) netip.Addr {
	for {
		if a := fill(p, random); !within(a, martians) {
			return a
		}
	}
}

// fill returns the prefix's address with random bits behind its length.
func fill(p netip.Prefix, random *rand.Rand) netip.Addr {
	a := p.Addr().AsSlice()
	high, low := random.Uint64(), random.Uint64()
	for i := range a {
		word := high
		if i >= 8 {
			word = low
		}
		host := 8*(i+1) - p.Bits() // how many of this byte's low bits are the host's, if above 0
		if host <= 0 {
			continue
		}
		mask := byte(1<<min(host, 8) - 1)
		a[i] = a[i]&^mask | byte(word>>(8*(i%8)))&mask
	}
	out, _ := netip.AddrFromSlice(a)
	return out
}

// unicastSpans returns the ranges that IPv4 prefixes cover, in order, apart from
// each other, and without martians.
func unicastSpans(table []netip.Prefix) []span4 {
	var covered, out []span4
	for _, p := range table {
		if p.Addr().Is4() {
			covered = append(covered, spanOf(p))
		}
	}
	for _, s := range joined(covered) {
		out = append(out, without(s, martianSpans)...)
	}
	return out
}

// joined returns the same addresses as ranges in order that don't overlap.
func joined(spans []span4) (out []span4) {
	slices.SortFunc(spans, func(a, b span4) int { return int(int64(a.first) - int64(b.first)) })
	for _, s := range spans {
		if n := len(out); n > 0 && s.first <= out[n-1].last {
			out[n-1].last = max(out[n-1].last, s.last)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// without returns what is left of a range when others, in order, are taken out.
func without(s span4, holes []span4) (out []span4) {
	for _, h := range holes {
		if h.last < s.first || h.first > s.last {
			continue
		}
		if h.first > s.first {
			out = append(out, span4{s.first, h.first - 1})
		}
		if h.last >= s.last {
			return out
		}
		s.first = h.last + 1
	}
	return append(out, s)
}

func spanOf(p netip.Prefix) span4 {
	b := p.Masked().Addr().As4()
	first := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	return span4{first, first | uint32(uint64(1)<<(32-p.Bits())-1)}
}

func addr4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
