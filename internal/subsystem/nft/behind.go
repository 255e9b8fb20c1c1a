// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// What a guard says of packets to the router itself that nobody has marked: rules of comparisons
// alone, which every kernel with nftables has without a further module.

// Rule is one of them. A packet must match all that is not zero.
type Rule struct {
	Interface           string // by which it has come in
	Slave               bool   // Interface is in a VRF, so that the packet is one of the VRF
	Family              byte   // NFPROTO_IPV4 or NFPROTO_IPV6
	Protocol            *uint8
	Source, Destination netip.Prefix
	SourcePorts, Ports  *Ports // with Protocol
	ICMPType            *uint8 // with Family and Protocol
	HopLimit            uint8  // with NFPROTO_IPV6
	TCPFlags            uint8  // one of them is set; with Protocol

	Drop bool   // else it passes
	Goto string // or a chain decides, whose end drops
}

// Ports is a range, both ends included.
type Ports struct{ First, Last uint16 }

// Chain is a chain that rules go to.
type Chain struct {
	Name  string
	Rules []Rule
}

// Bases of payload, and the longest name of an interface with the zero behind it.
const (
	networkHeader   = 1 // NFT_PAYLOAD_NETWORK_HEADER
	transportHeader = 2 // NFT_PAYLOAD_TRANSPORT_HEADER
	interfaceName   = 16
)

// Places in headers: RFC 791, 8200, 9293.
const (
	source4, destination4 = 12, 16
	source6, destination6 = 8, 24
	hopLimit6             = 7
	tcpFlags              = 13
)

// expressions compiles a rule.
func (b *Rule) expressions() rule {
	r := rule{}
	if b.Interface != "" {
		name := make([]byte, interfaceName)
		copy(name, b.Interface)
		key := uint32(unix.NFT_META_IIFNAME)
		if b.Slave {
			key = metaSlaveName
		}
		r = r.meta(key).compare(unix.NFT_CMP_EQ, name)
	}
	family := b.Family
	for _, p := range []netip.Prefix{b.Source, b.Destination} {
		if p.IsValid() {
			family = map[bool]byte{true: unix.NFPROTO_IPV4, false: unix.NFPROTO_IPV6}[p.Addr().Is4()]
		}
	}
	if family != 0 {
		r = r.meta(unix.NFT_META_NFPROTO).compare(unix.NFT_CMP_EQ, []byte{family})
	}
	r = r.inside(b.Source, source4, source6).inside(b.Destination, destination4, destination6)
	if b.HopLimit != 0 {
		r = r.payload(networkHeader, hopLimit6, 1).compare(unix.NFT_CMP_EQ, []byte{b.HopLimit})
	}
	if b.Protocol != nil {
		r = r.meta(unix.NFT_META_L4PROTO).compare(unix.NFT_CMP_EQ, []byte{*b.Protocol})
	}
	if b.ICMPType != nil {
		r = r.payload(transportHeader, 0, 1).compare(unix.NFT_CMP_EQ, []byte{*b.ICMPType})
	}
	r = r.ports(b.SourcePorts, 0).ports(b.Ports, 2)
	if b.TCPFlags != 0 {
		r = r.payload(transportHeader, tcpFlags, 1).maskBytes([]byte{b.TCPFlags}).compare(unix.NFT_CMP_NEQ, []byte{0})
	}
	r = r.counter()
	switch {
	case b.Goto != "":
		return r.immediate(message{}.attribute(unix.NFTA_VERDICT_CODE, be32(goTo)).text(unix.NFTA_VERDICT_CHAIN, b.Goto))
	case b.Drop:
		return r.verdict(dropped)
	}
	return r.verdict(accepted)
}

// goTo is NFT_GOTO.
const goTo = ^uint32(3)

// inside wants an address in a prefix.
func (r rule) inside(p netip.Prefix, four, six uint32) rule {
	if !p.IsValid() || p.Bits() == 0 {
		return r
	}
	at, address := six, p.Masked().Addr().AsSlice()
	if p.Addr().Is4() {
		at = four
	}
	r = r.payload(networkHeader, at, uint32(len(address)))
	if bits := p.Bits(); bits < 8*len(address) {
		mask := make([]byte, len(address))
		for i := range bits {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		r = r.maskBytes(mask)
	}
	return r.compare(unix.NFT_CMP_EQ, address)
}

// ports wants a port in a range.
func (r rule) ports(p *Ports, at uint32) rule {
	if p == nil {
		return r
	}
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	r = r.payload(transportHeader, at, 2)
	if p.First == p.Last {
		return r.compare(unix.NFT_CMP_EQ, port(p.First))
	}
	return r.compare(unix.NFT_CMP_GTE, port(p.First)).compare(unix.NFT_CMP_LTE, port(p.Last))
}

// payload loads a part of the packet. A packet that does not have it does not match.
func (r rule) payload(base, at, length uint32) rule {
	return r.expression("payload", message{}.attribute(unix.NFTA_PAYLOAD_DREG, be32(unix.NFT_REG_1)).attribute(unix.NFTA_PAYLOAD_BASE, be32(base)).
		attribute(unix.NFTA_PAYLOAD_OFFSET, be32(at)).attribute(unix.NFTA_PAYLOAD_LEN, be32(length)))
}
