// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// maxPassword is the kernel's limit of a TCP MD5 key (TCP_MD5SIG_MAXKEYLEN), in bytes.
const maxPassword = 80

// peerName is what a peer can be called in FRR's names of route maps and prefix lists.
var peerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c *checker) bgp(in Protocols) {
	b, path := in.BGP, in.Path+".bgp"
	c.asn(path+".asn", b.ASN)
	c.seconds(path+".restart-time", b.RestartTime, 1, 4095) // 12 bits, RFC 4724 section 3
	once(c, path+".announce", b.Announce, Prefix.String)
	for i, p := range b.Announce {
		at := indexPath(path+".announce", i)
		switch {
		case p.Bits() == 0:
			c.refuse(at, fmt.Sprintf("%s cannot be in the announce list", p), "the default route by export: {routes: default} of a peer", "")
		case p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast():
			c.refuse(at, fmt.Sprintf("%s is not routed between networks", p), "unicast prefixes", "")
		}
	}
	type session struct {
		address netip.Addr
		iface   string
	}
	seen := map[session]string{}
	for _, name := range sortedKeys(b.Peers) {
		p, at := b.Peers[name], joinPath(path+".peers", name)
		if !peerName.MatchString(name) {
			c.refuse(at, fmt.Sprintf("%q can't name a peer", abridge(name)), "1 to 63 letters, digits, dots, dashes and underscores", "")
		}
		c.peerAddress(at, p, in)
		c.peerSession(at, p, in)
		c.peerPolicy(at, p)
		key := session{p.Address, p.Interface}
		if other, again := seen[key]; again {
			c.refuse(at+".address", fmt.Sprintf("peer %s has the address %s already", other, p.Address), "one session with each address", "")
		}
		seen[key] = name
	}
}

// asn refuses reserved AS numbers: 0 (RFC 7607), 23456 (RFC 6793), 65535 and 4294967295 (RFC 7300).
func (c *checker) asn(path string, n ASN) {
	switch n {
	case 0, 23456, 65535, 4294967295:
		c.refuse(path, fmt.Sprintf("AS number %s is reserved", n), asnForm, "")
	}
}

// peerAddress checks that a session with this address can come up.
func (c *checker) peerAddress(path string, p *BGPPeer, in Protocols) {
	a, at := p.Address, path+".address"
	if p.Interface != "" && c.cfg.Interfaces[p.Interface] == nil {
		return
	}
	if reason := notUnicast(a); reason != "" {
		c.refuse(at, fmt.Sprintf("peer address %s %s", a, reason), "the address of a router", "")
		return
	}
	if a.Is6() && a.IsLinkLocalUnicast() {
		if p.Interface == "" {
			c.refuse(at, fmt.Sprintf("link-local peer address %s exists on every interface", a), "interface: with the interface of this peer", "")
		}
		return
	}
	if p.Interface != "" {
		c.refuse(path+".interface", fmt.Sprintf("peer address %s is not link-local and needs no interface", a), "interface only with addresses of fe80::/10", "")
		return
	}
	if owner, own := c.owners[place{in.VRF, a}]; own {
		c.refuse(at, fmt.Sprintf("peer address %s is this router itself (%s)", a, owner), "the address of another router", "")
		return
	}
	n, found := c.connectedIn(in.VRF, a)
	if found {
		if reason := edge(netip.PrefixFrom(a, n.address.Bits())); reason != "" {
			c.refuse(at, fmt.Sprintf("peer address %s is %s of %s", a, reason, n.address.Masked()), "the address of a router", "")
		}
		return
	}
	if p.Multihop == 0 && p.ASN != in.BGP.ASN {
		if other, elsewhere := c.reachedIn(in.VRF, a); elsewhere {
			c.refuse(at, fmt.Sprintf("peer %s lies in %s", a, tableWords(other)), "an address in "+tableWords(in.VRF)+"; the place for this peer is "+protocolsOf(other)+"bgp", "")
			return
		}
		c.refuse(at, fmt.Sprintf("external peer %s is on no connected network", a),
			"an address in "+c.networkList(a.Is4())+"; or multihop: with the number of hops", "")
	}
}

// peerSession checks the properties of the session.
func (c *checker) peerSession(path string, p *BGPPeer, in Protocols) {
	b := in.BGP
	c.asn(path+".asn", p.ASN)
	c.description(path+".description", p.Description)
	once(c, path+".families", p.Families, func(f Family) string { return string(f) })
	if c.cfg.Written(path+".families") && len(p.Families) == 0 {
		c.refuse(path+".families", "the list of families is empty", "ipv4, ipv6 or both; without families: the family of the address", "")
	}
	if p.Password != "" {
		c.password(path+".password", p.Password)
	}
	c.seconds(path+".hold-time", p.HoldTime, 3, 65535) // RFC 4271 section 4.2
	if p.Multihop != 0 && p.ASN == b.ASN {
		c.refuse(path+".multihop", "an internal session needs no multihop", "multihop only for external peers", "")
	} else if p.Multihop != 0 && p.Address.Is6() && p.Address.IsLinkLocalUnicast() {
		c.refuse(path+".multihop", "a link-local address is never more than one hop away", "no multihop", "")
	}
	if !p.Source.IsValid() {
		return
	}
	switch _, own := c.owners[place{in.VRF, p.Source}]; {
	case p.Source.Is4() != p.Address.Is4():
		c.refuse(path+".source", fmt.Sprintf("source %s and peer %s are of different families", p.Source, p.Address), "both IPv4 or both IPv6", "")
	case !own:
		c.refuse(path+".source", fmt.Sprintf("no interface%s has the source address %s", inVRF(in.VRF), p.Source), "an address of this router", "")
	}
}

// password checks a TCP MD5 password without ever telling it.
func (c *checker) password(path, name string) {
	value, ok := c.secrets.Get(name)
	if ok && len(value) > maxPassword {
		c.refuse(path, "the password in the secrets file is too long", fmt.Sprintf("at most %d bytes", maxPassword), "")
	}
}

// peerPolicy checks the lists of import and export.
func (c *checker) peerPolicy(path string, p *BGPPeer) {
	once(c, path+".import.accept", p.Import.Accept, Prefix.String)
	for i, prefix := range p.Import.Accept {
		if !speaks(p, familyOf(prefix.Addr())) {
			c.refuse(indexPath(path+".import.accept", i), fmt.Sprintf("the session does not exchange %s, so it cannot bring %s", familyOf(prefix.Addr()), prefix),
				fmt.Sprintf("a prefix of its family, or %s in families", familyOf(prefix.Addr())), "")
		}
	}
	if limit := p.Import.MaxPrefixes; limit != nil {
		if limit.IPv4 == 0 && limit.IPv6 == 0 {
			c.refuse(path+".import.max-prefixes", "max-prefixes sets no limit", "ipv4, ipv6 or both with a number of routes", "")
		}
		c.limitFamily(path, p, "ipv4", limit.IPv4)
		c.limitFamily(path, p, "ipv6", limit.IPv6)
		if after := time.Duration(limit.RestartAfter); c.cfg.Written(path+".import.max-prefixes.restart-after") &&
			(after%time.Minute != 0 || after < time.Minute || after > 65535*time.Minute) {
			c.refuse(path+".import.max-prefixes.restart-after", fmt.Sprintf("%s is not a valid restart-after", limit.RestartAfter), "whole minutes, 1m to 65535m", "")
		}
	}
}

func (c *checker) limitFamily(path string, p *BGPPeer, family Family, limit int) {
	if limit != 0 && !speaks(p, family) {
		c.refuse(path+".import.max-prefixes."+string(family), fmt.Sprintf("the session does not exchange %s", family), fmt.Sprintf("%s in families, or no limit for it", family), "")
	}
}

// familyOf returns the address family of an address.
func familyOf(a netip.Addr) Family {
	if a.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// speaks reports whether a session exchanges routes of a family.
func speaks(p *BGPPeer, family Family) bool {
	if len(p.Families) == 0 {
		return familyOf(p.Address) == family
	}
	return slices.Contains(p.Families, family)
}
