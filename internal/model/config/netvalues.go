// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// This file reads and writes addresses, prefixes and next hops. IPv4 addresses
// inside IPv6 (::ffff:192.0.2.1) are refused everywhere: the kernel and FRR take
// them for IPv6, operators for IPv4.

const addrForm = "an IPv4 or IPv6 address"

// parseAddr reads an address without a zone.
func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil && strings.Contains(text, "/"):
		bare, _, _ := strings.Cut(text, "/")
		return a, &wrongValue{fmt.Sprintf("address %q has a prefix length", text), addrForm + " without length", bare}
	case err != nil && addrWithoutZeros(text) != "":
		return a, &wrongValue{fmt.Sprintf("%q has a number with a leading zero", text), addrForm + "; some programs read 010 as eight", addrWithoutZeros(text)}
	case err != nil:
		return a, &wrongValue{fmt.Sprintf("%q is not an address", text), addrForm, ""}
	case a.Zone() != "":
		return a, &wrongValue{fmt.Sprintf("address %q names an interface", text), addrForm + " alone; the interface has its own key", a.WithZone("").String()}
	case a.Is4In6():
		return a, &wrongValue{fmt.Sprintf("address %q is IPv4 inside IPv6", text), addrForm, a.Unmap().String()}
	}
	return a, nil
}

// addrWithoutZeros returns 192.0.2.1 for 192.000.002.001, and "" when that does not help.
func addrWithoutZeros(text string) string {
	parts := strings.Split(text, ".")
	for i, p := range parts {
		if zeros := trimZeros(p); zeros != "" {
			parts[i] = zeros
		}
	}
	a, err := netip.ParseAddr(strings.Join(parts, "."))
	if err != nil || !a.Is4() {
		return ""
	}
	return a.String()
}

// parsePrefix reads address/length; form is what to expect when it is unreadable.
func parsePrefix(text, form string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() {
		return p, &wrongValue{fmt.Sprintf("%q is IPv4 inside IPv6", text), form, ""}
	}
	if err == nil {
		return p, nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.Is4In6() {
		return p, &wrongValue{fmt.Sprintf("%q has no prefix length", text), form, ""}
	}
	if right := prefixWithoutZeros(text); right != "" {
		return p, &wrongValue{fmt.Sprintf("%q has a number with a leading zero", text), form + "; some programs read 010 as eight", right}
	}
	if addr, length, ok := strings.Cut(text, "/"); ok {
		if p, ok := withNetmask(addr, length); ok {
			return p, &wrongValue{fmt.Sprintf("%q has a netmask instead of a prefix length", text), form, p.String()}
		}
		if a, err := netip.ParseAddr(addr); err == nil && a.Zone() == "" {
			return p, &wrongValue{fmt.Sprintf("prefix length %q of %q is not a number from 0 to %d", length, text, a.BitLen()), form, ""}
		}
	}
	return p, &wrongValue{fmt.Sprintf("%q is not a prefix", text), form, ""}
}

// WithoutZeros returns the address or prefix that a word with leading zeros probably means, "" for others.
func WithoutZeros(text string) string { return prefixWithoutZeros(text) }

// prefixWithoutZeros returns 192.0.2.1/24 for 192.000.002.001/24, and "" when that does not help.
func prefixWithoutZeros(text string) string {
	addr, length, cut := strings.Cut(text, "/")
	if right := addrWithoutZeros(addr); right != "" && cut {
		addr = right
	} else if right != "" {
		return right
	}
	if zeros := trimZeros(length); zeros != "" {
		length = zeros
	}
	p, err := netip.ParsePrefix(addr + "/" + length)
	if err != nil || !p.Addr().Is4() {
		return ""
	}
	return p.String()
}

// withNetmask reads 192.0.2.0 and 255.255.255.0.
func withNetmask(addr, mask string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(addr)
	m, err2 := netip.ParseAddr(mask)
	if err != nil || err2 != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	for bits := 0; bits <= 32; bits++ {
		all := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits)
		if all.Masked().Addr() == m {
			return netip.PrefixFrom(a, bits), true
		}
	}
	return netip.Prefix{}, false
}

const prefixForm = "a network as 192.0.2.0/24 or 2001:db8::/32"

// UnmarshalText reads a network; host bits are refused.
func (p *Prefix) UnmarshalText(b []byte) error {
	net, err := parsePrefix(string(b), prefixForm)
	if w, ok := err.(*wrongValue); ok && w.nearest == "" {
		if a, err := netip.ParseAddr(string(b)); err == nil && a.Zone() == "" && !a.Is4In6() {
			w.nearest = netip.PrefixFrom(a, a.BitLen()).String()
		}
	}
	if err != nil {
		return err
	}
	if net != net.Masked() {
		return &wrongValue{fmt.Sprintf("%s has bits set beyond its length", net), prefixForm, net.Masked().String()}
	}
	p.Prefix = net
	return nil
}

const addressForm = "an address with the length of its network as 192.0.2.1/24 or 2001:db8::1/64"

// UnmarshalText reads an address with its prefix length.
func (a *Address) UnmarshalText(b []byte) error {
	p, err := parsePrefix(string(b), addressForm)
	if err != nil {
		return err
	}
	a.Prefix = p
	return nil
}

const rangeForm = "the first and the last address as 192.0.2.100-192.0.2.199"

// UnmarshalText reads two addresses with a dash between.
func (r *AddressRange) UnmarshalText(b []byte) error {
	text := string(b)
	from, to, ok := strings.Cut(text, "-")
	first, err := parseAddr(strings.TrimSpace(from))
	if err == nil && ok {
		var last netip.Addr
		if last, err = parseAddr(strings.TrimSpace(to)); err == nil {
			if first.Is4() != last.Is4() || last.Less(first) {
				return &wrongValue{fmt.Sprintf("%s does not come before %s", first, last), rangeForm, ""}
			}
			*r = AddressRange{first, last}
			return nil
		}
	}
	return &wrongValue{fmt.Sprintf("%q is not a range of addresses", text), rangeForm, ""}
}

// Contains says whether an address lies in the range.
func (r AddressRange) Contains(a netip.Addr) bool {
	return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// String returns first-last, or "" for the zero value.
func (r AddressRange) String() string {
	if !r.First.IsValid() {
		return ""
	}
	return r.First.String() + "-" + r.Last.String()
}

// MarshalText returns the String form.
func (r AddressRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

const nextHopForm = "an address (198.51.100.1), an address on an interface (fe80::1%lan) or an interface (lan)"

// UnmarshalText reads addr, addr%interface or interface. Text that could only be
// an address written wrong is not taken for an interface.
func (n *NextHop) UnmarshalText(b []byte) error {
	text := string(b)
	addr, iface, zoned := strings.Cut(text, "%")
	switch {
	case text == "":
		return &wrongValue{"the next hop is empty", nextHopForm, ""}
	case zoned && iface == "":
		return &wrongValue{fmt.Sprintf("next hop %q names no interface after %%", text), nextHopForm, ""}
	case !zoned && !looksLikeAddr(text):
		*n = NextHop{Interface: text}
		return nil
	}
	a, err := parseAddr(addr)
	if err != nil {
		w := err.(*wrongValue)
		w.expected = nextHopForm
		if w.nearest != "" && zoned {
			w.nearest += "%" + iface
		}
		return w
	}
	*n = NextHop{Address: a, Interface: iface}
	return nil
}

// looksLikeAddr tells an address, perhaps mistyped, from an interface's name: it
// has a colon or a slash, or consists of digits and dots.
func looksLikeAddr(text string) bool {
	return strings.ContainsAny(text, ":/") || strings.Trim(text, "0123456789.") == "" && strings.Contains(text, ".")
}

// String returns addr, addr%interface or interface.
func (n NextHop) String() string {
	switch {
	case !n.Address.IsValid():
		return n.Interface
	case n.Interface == "":
		return n.Address.String()
	}
	return n.Address.String() + "%" + n.Interface
}

// MarshalText returns the String form.
func (n NextHop) MarshalText() ([]byte, error) { return []byte(n.String()), nil }
