// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
)

// tcpStates are the words of conntrack -L for enum tcp_conntrack, in small letters.
var tcpStates = []string{"none", "syn-sent", "syn-recv", "established", "fin-wait", "close-wait", "last-ack", "time-wait", "close", "syn-sent2"}

// States of connections of other protocols than TCP.
const (
	unreplied = "unreplied" // one side has spoken
	replied   = "replied"   // both have
	settled   = "assured"   // both have, for long enough that it is not given up when the table is full
)

// states are all words that a connection's state can have.
var states = append(slices.Clone(tcpStates), unreplied, replied, settled)

// State is the connection's state in a word.
func (c *Connection) State() string {
	switch {
	case c.Key[0].Protocol == unix.IPPROTO_TCP && int(c.tcp) < len(tcpStates):
		return tcpStates[c.tcp]
	case c.status&assured != 0:
		return settled
	case c.status&seenReply != 0:
		return replied
	}
	return unreplied
}

// Opener is the address and port of who opened the connection, as it has them itself.
func (c *Connection) Opener() End { return End{c.Key[0].Source, port(&c.Key[0], c.Key[0].SourcePort)} }

// Responder is who is really spoken to: after translation.
func (c *Connection) Responder() End {
	return End{c.Key[1].Source, port(&c.Key[1], c.Key[1].SourcePort)}
}

// translations are what the responder sees in the opener's place, and what the opener spoke to in the
// responder's; nil where it is the same.
func (c *Connection) translations() (source, destination *End) {
	seen := End{c.Key[1].Destination, port(&c.Key[1], c.Key[1].DestinationPort)}
	called := End{c.Key[0].Destination, port(&c.Key[0], c.Key[0].DestinationPort)}
	if seen != c.Opener() {
		source = &seen
	}
	if called != c.Responder() {
		destination = &called
	}
	return source, destination
}

// port is 0 for protocols without.
func port(k *flow.Key, number uint16) uint16 {
	if !hasPorts(k.Protocol) {
		return 0
	}
	return number
}

func hasPorts(protocol uint8) bool {
	switch protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_UDPLITE, unix.IPPROTO_SCTP, unix.IPPROTO_DCCP:
		return true
	}
	return false
}

func isICMP(protocol uint8) bool {
	return protocol == unix.IPPROTO_ICMP || protocol == unix.IPPROTO_ICMPV6
}

// End is an address, with a port where the protocol has them.
type End struct {
	Address netip.Addr `json:"address"`
	Port    uint16     `json:"port,omitempty"`
}

func (e End) String() string {
	if e.Port == 0 {
		return e.Address.String()
	}
	return netip.AddrPortFrom(e.Address, e.Port).String()
}

// protocolNames are those that a filter knows. ICMP is that of both families.
var protocolNames = map[string][]uint8{
	"tcp": {unix.IPPROTO_TCP}, "udp": {unix.IPPROTO_UDP}, "icmp": {unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6},
	"sctp": {unix.IPPROTO_SCTP}, "dccp": {unix.IPPROTO_DCCP}, "udplite": {unix.IPPROTO_UDPLITE}, "gre": {unix.IPPROTO_GRE},
	"esp": {unix.IPPROTO_ESP}, "ah": {unix.IPPROTO_AH}, "ipip": {unix.IPPROTO_IPIP}, "ipv6": {unix.IPPROTO_IPV6},
}

// ProtocolName is a protocol in a word, or its number.
func ProtocolName(protocol uint8) string {
	for name, numbers := range protocolNames {
		if slices.Contains(numbers, protocol) {
			return name
		}
	}
	return strconv.Itoa(int(protocol))
}

func parseProtocol(text string) ([]uint8, error) {
	if numbers, ok := protocolNames[text]; ok {
		return numbers, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("protocol %q: expected tcp, udp, icmp or a number from 0 to 255", text)
	}
	return []uint8{uint8(n)}, nil
}

// States are the words that a connection's state can have.
func States() []string { return slices.Clone(states) }
