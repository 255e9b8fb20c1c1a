// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"minne/internal/model/config"
)

// One-to-one translation: a network inside has the addresses of another outside.
// Of IPv6 it is the translation of prefixes. It is made by conntrack, with state,
// and keeps the last bits of every address as they are. RFC 6296 would change
// some of them, so that the checksum stays the same and no state is needed; here
// the checksum is corrected instead, every host keeps the number it is known by,
// and what carries addresses in its payload can be translated too.

func (c *compiler) oneToOne(path string, n config.NAT, one *NAT) {
	o := n.OneToOne
	one.Kind, one.To = OneToOne, c.natTo(path, n)
	one.Inside, one.Outside, one.Hairpin = o.Inside.Prefix, o.Outside.Prefix, o.Hairpin.On()
	one.IPv4, one.IPv6 = one.Inside.Addr().Is4(), one.Inside.Addr().Is6()
	if len(n.Source) > 0 {
		c.report.Refuse(path+".source", "one-to-one translates the network inside", "no source", "")
	}
	if len(n.Families) > 0 {
		c.report.Refuse(path+".families", "one-to-one has the family of its networks", "no families", "")
	}
	one.Source = []netip.Prefix{one.Inside}
	path += ".one-to-one"
	for i, p := range []netip.Prefix{one.Outside, one.Inside} {
		key := []string{"outside", "inside"}[i]
		if p.Bits() == 0 || p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			c.report.Refuse(path+"."+key, fmt.Sprintf("%s is not a network of hosts", p), "a network of hosts", "")
			return
		}
	}
	switch {
	case one.Inside.Addr().Is4() != one.Outside.Addr().Is4():
		c.report.Refuse(path+".inside", fmt.Sprintf("%s and outside %s are of different families", one.Inside, one.Outside), "both IPv4 or both IPv6", "")
	case one.Inside.Bits() != one.Outside.Bits():
		c.report.Refuse(path+".inside", fmt.Sprintf("%s and outside %s are of different sizes", one.Inside, one.Outside),
			"two networks of the same length", netip.PrefixFrom(one.Inside.Addr(), one.Outside.Bits()).Masked().String())
	case one.Inside.Overlaps(one.Outside):
		c.report.Refuse(path+".inside", fmt.Sprintf("%s and outside %s have addresses in common", one.Inside, one.Outside), "two networks", "")
	}
	c.refuseStateless(strings.TrimSuffix(path, ".one-to-one"), one.From, one.To)
	c.refuseStateless(strings.TrimSuffix(path, ".one-to-one"), one.To, one.From)
}

// sharesAddresses refuses b when its outside addresses, or hosts, are already
// those of the one-to-one translation a, or the other way round.
func (c *compiler) sharesAddresses(path string, a, b NAT) bool {
	switch {
	case a.Kind == OneToOne && b.Kind == OneToOne && overlapZones(a.To, b.To) && a.Outside.Overlaps(b.Outside):
		c.report.Refuse(path+".one-to-one.outside", fmt.Sprintf("%s (%s) translates %s already, to %s", a.Name, a.Place, a.Outside, a.Inside), "addresses that no other translation has", "")
	case a.Kind == OneToOne && b.Kind == OneToOne && overlapZones(a.To, b.To) && overlapZones(a.From, b.From) && a.Inside.Overlaps(b.Inside):
		c.report.Refuse(path+".one-to-one.inside", fmt.Sprintf("the hosts of %s have other addresses already, in %s, by %s (%s)", a.Inside, a.Outside, a.Name, a.Place), "hosts that no other translation has", "")
	case a.Kind == OneToOne && b.Kind == SourcePool && overlapSources(b.Pool, []netip.Prefix{a.Outside}):
		c.report.Refuse(path+".pool", fmt.Sprintf("%s (%s) gives %s to single hosts", a.Name, a.Place, a.Outside), "addresses that no other translation has", "")
	case a.Kind == SourcePool && b.Kind == OneToOne && overlapSources(a.Pool, []netip.Prefix{b.Outside}):
		c.report.Refuse(path+".one-to-one.outside", fmt.Sprintf("%s has addresses of the pool of %s (%s)", b.Outside, a.Name, a.Place), "addresses that no other translation has", "")
	case a.Kind == OneToOne && b.Kind == PortForward && b.Address.IsValid() && a.Outside.Contains(b.Address) && (a.Hairpin || overlapZones(a.To, b.From)):
		c.report.Refuse(path+".forward.address", fmt.Sprintf("%s (%s) takes all connections to %s already", a.Name, a.Place, b.Address), "the forward first, or another address", "")
	default:
		return false
	}
	return true
}

// unanswered warns of outside addresses that hosts beside them can't find, and of
// those that are the router's own.
func (c *compiler) unanswered() {
	for _, t := range config.Translations(c.cfg) {
		switch {
		case t.Own != "" && t.OneToOne:
			c.odd.Refuse(t.Path, fmt.Sprintf("%s is the router's own address on %s: from there the router itself can't be reached by it any more", t.OwnAddress, t.Own), "another address", "")
		case t.TooMany:
			c.odd.Refuse(t.Path, fmt.Sprintf("%s is on the network of %s itself: the router does not answer for so many addresses there, and its neighbours won't find them", t.Outside, t.On),
				fmt.Sprintf("a network that is routed to the router, or one of at most %d addresses", config.MostAnswered), "")
		}
	}
}
