// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rules by which a card puts packets on a receive queue (ethtool -N, "ntuple"), whatever its hash says.

// Match is which packets a rule is for: all that have what is named here. Zero is not asked for.
type Match struct {
	EtherType    uint16 // alone, for packets that are not IP
	IPv6         bool   // else IPv4
	Protocol     uint8  // of IP
	Source, Port uint16 // of TCP or UDP, where they come from and where they go
	ICMPType     uint8
}

// String writes it in the words of `ethtool -N`.
func (m Match) String() string {
	if m.EtherType != 0 {
		return fmt.Sprintf("ether proto %#04x", m.EtherType)
	}
	version, text := "4", ""
	if m.IPv6 {
		version = "6"
	}
	switch m.Protocol {
	case unix.IPPROTO_TCP:
		text = "tcp" + version
	case unix.IPPROTO_UDP:
		text = "udp" + version
	default:
		text = fmt.Sprintf("ip%s l4proto %d", version, m.Protocol)
	}
	if m.Source != 0 {
		text += fmt.Sprintf(" src-port %d", m.Source)
	}
	if m.Port != 0 {
		text += fmt.Sprintf(" dst-port %d", m.Port)
	}
	if m.ICMPType != 0 {
		text += fmt.Sprintf(" type %d", m.ICMPType)
	}
	return text
}

// Rule is one that a card has.
type Rule struct {
	Location int
	Match    Match // the zero Match: for more or other than a Match can say
	Queue    int
}

// flowSpec is struct ethtool_rx_flow_spec. Headers are in network byte order, with those bits of the mask that count.
type flowSpec struct {
	kind              uint32
	header            [52]byte
	extension         [20]byte
	mask              [52]byte
	extensionMask     [20]byte
	_                 [4]byte // the next is aligned to 8 bytes
	cookie            uint64  // the queue; what is above 32 bits is no queue of this function
	location, context uint32
}

// ruleRequest is struct ethtool_rxnfc as far as it is about rules.
type ruleRequest struct {
	command, flow uint32
	data          uint64
	spec          flowSpec
	count         uint32
	locations     [1 + mostRules]uint32
}

// mostRules bounds what is read of a card; the largest known have 8,192.
const mostRules = 1 << 14

// Kinds of flowSpec: TCP_V4_FLOW and so on.
const (
	tcp4, udp4, tcp6, udp6 = 0x01, 0x02, 0x05, 0x06
	ip4, ip6, ether        = 0x0d, 0x0e, 0x12
)

// Places in the headers of flowSpec.
const (
	etherTypeAt           = 12                // struct ethhdr
	ports4At, ports6At    = 8, 32             // struct ethtool_tcpip4_spec, ethtool_tcpip6_spec
	version4At, proto4At  = 13, 14            // struct ethtool_usrip4_spec
	proto6At              = 37                // struct ethtool_usrip6_spec
	firstBytes6At         = 32                // of what is behind the IPv6 header
	version4              = 1                 // ETH_RX_NFC_IP4
	locationAny           = uint32(1<<32 - 1) // RX_CLS_LOC_ANY
	locationsBySpecialBit = 1 << 31           // RX_CLS_LOC_SPECIAL: the driver chooses
)

// spec writes a Match.
func (m Match) spec() (s flowSpec) {
	number := func(at int, v uint16) {
		if v != 0 {
			binary.BigEndian.PutUint16(s.header[at:], v)
			binary.BigEndian.PutUint16(s.mask[at:], 0xffff)
		}
	}
	octet := func(at int, v uint8) {
		if v != 0 {
			s.header[at], s.mask[at] = v, 0xff
		}
	}
	if m.EtherType != 0 {
		s.kind = ether
		number(etherTypeAt, m.EtherType)
		return s
	}
	kinds := map[uint8][2]uint32{unix.IPPROTO_TCP: {tcp4, tcp6}, unix.IPPROTO_UDP: {udp4, udp6}}
	kind, hasPorts := kinds[m.Protocol]
	switch {
	case hasPorts && m.IPv6:
		s.kind = kind[1]
		number(ports6At, m.Source)
		number(ports6At+2, m.Port)
	case hasPorts:
		s.kind = kind[0]
		number(ports4At, m.Source)
		number(ports4At+2, m.Port)
	case m.IPv6:
		s.kind = ip6
		octet(proto6At, m.Protocol)
		octet(firstBytes6At, m.ICMPType)
	default:
		s.kind, s.header[version4At] = ip4, version4
		octet(proto4At, m.Protocol)
	}
	return s
}

// match reads one: the zero Match for what spec does not write.
func (s *flowSpec) match() (m Match) {
	number := func(at int) uint16 {
		return binary.BigEndian.Uint16(s.header[at:]) & binary.BigEndian.Uint16(s.mask[at:])
	}
	octet := func(at int) uint8 { return s.header[at] & s.mask[at] }
	switch s.kind {
	case ether:
		m.EtherType = number(etherTypeAt)
	case tcp4, udp4:
		m.Source, m.Port = number(ports4At), number(ports4At+2)
	case tcp6, udp6:
		m.IPv6, m.Source, m.Port = true, number(ports6At), number(ports6At+2)
	case ip4:
		m.Protocol = octet(proto4At)
	case ip6:
		m.IPv6, m.Protocol, m.ICMPType = true, octet(proto6At), octet(firstBytes6At)
	}
	switch s.kind {
	case tcp4, tcp6:
		m.Protocol = unix.IPPROTO_TCP
	case udp4, udp6:
		m.Protocol = unix.IPPROTO_UDP
	}
	if w := m.spec(); w.kind != s.kind || w.mask != s.mask || s.extensionMask != [20]byte{} {
		return Match{}
	}
	return m
}

// Rules asks a card for its rules; room is how many it takes, and Lacks says of the error that it has none.
func (t Tool) Rules(name string) (rules []Rule, room int, err error) {
	all, _, err := t.locations(name)
	if err != nil {
		return nil, 0, err
	}
	for _, location := range all.locations[:all.count] {
		one := ruleRequest{command: unix.ETHTOOL_GRXCLSRULE}
		one.spec.location = location
		err := t.do(name, unsafe.Pointer(&one))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		r := Rule{Location: int(location), Queue: int(uint32(one.spec.cookie)), Match: one.spec.match()}
		if one.spec.cookie>>32 != 0 {
			r.Match = Match{} // dropped, or for another function of the card
		}
		rules = append(rules, r)
	}
	return rules, int(all.data), nil
}

// locations asks where a card's rules are; chooses says that the driver finds places for more.
func (t Tool) locations(name string) (all *ruleRequest, chooses bool, err error) {
	all = &ruleRequest{command: unix.ETHTOOL_GRXCLSRLCNT}
	if err := t.do(name, unsafe.Pointer(all)); err != nil {
		return nil, false, err
	}
	chooses = all.data&locationsBySpecialBit != 0
	if all.count > mostRules {
		return nil, false, fmt.Errorf("the card has %d rules: expected at most %d", all.count, mostRules)
	}
	all = &ruleRequest{command: unix.ETHTOOL_GRXCLSRLALL, count: min(all.count+1, mostRules)} // drivers refuse room for none
	if err := t.do(name, unsafe.Pointer(all)); err != nil {
		return nil, false, err
	}
	all.count = min(all.count, mostRules)
	all.data &^= locationsBySpecialBit
	return all, chooses, nil
}

// AddRule puts packets on a queue. Rules of the lowest locations are looked at first, so this one has the highest that is free,
// as ethtool(8) chooses: the operator's go before it.
func (t Tool) AddRule(name string, m Match, queue int) error {
	all, chooses, err := t.locations(name)
	if err != nil {
		return err
	}
	r := ruleRequest{command: unix.ETHTOOL_SRXCLSRLINS, spec: m.spec()}
	r.spec.cookie, r.spec.location = uint64(queue), locationAny
	if !chooses {
		at := int64(all.data) - 1
		for at >= 0 && slices.Contains(all.locations[:all.count], uint32(at)) {
			at--
		}
		if at < 0 {
			return unix.ENOSPC
		}
		r.spec.location = uint32(at)
	}
	return t.do(name, unsafe.Pointer(&r))
}

// RemoveRule removes the rule of a location. One that is gone is no error.
func (t Tool) RemoveRule(name string, location int) error {
	r := ruleRequest{command: unix.ETHTOOL_SRXCLSRLDEL}
	r.spec.location = uint32(location)
	err := t.do(name, unsafe.Pointer(&r))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
