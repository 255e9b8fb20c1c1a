// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// The words of the grammar. The reference page is made from these tables.

// IP protocol numbers that the package knows more about.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoDCCP   = 33
	protoICMPv6 = 58
	protoOSPF   = 89
	protoSCTP   = 132
)

// protocolWord is a word in the place of a protocol.
type protocolWord struct {
	protocols []uint8
	icmp      []ICMPType // messages it stands for; nil for all
	meaning   string
}

// protocolWords are the protocols by name; a number from 0 to 255 stands for itself.
var protocolWords = map[string]protocolWord{
	"any":     {nil, nil, "every protocol"},
	"tcp":     {[]uint8{protoTCP}, nil, "TCP"},
	"udp":     {[]uint8{protoUDP}, nil, "UDP"},
	"tcp/udp": {[]uint8{protoTCP, protoUDP}, nil, "TCP and UDP"},
	"icmp":    {[]uint8{protoICMP}, nil, "ICMP of IPv4; a type may follow the destination"},
	"icmpv6":  {[]uint8{protoICMPv6}, nil, "ICMP of IPv6; a type may follow the destination"},
	"ping":    {[]uint8{protoICMP, protoICMPv6}, []ICMPType{{protoICMP, 8}, {protoICMPv6, 128}}, "echo requests of both families"},
	"sctp":    {[]uint8{protoSCTP}, nil, "SCTP"},
	"dccp":    {[]uint8{protoDCCP}, nil, "DCCP"},
	"esp":     {[]uint8{50}, nil, "IPsec ESP"},
	"ah":      {[]uint8{51}, nil, "IPsec AH"},
	"gre":     {[]uint8{47}, nil, "GRE"},
	"igmp":    {[]uint8{2}, nil, "IGMP"},
	"ipip":    {[]uint8{4}, nil, "IPv4 in IP"},
	"ipv6":    {[]uint8{41}, nil, "IPv6 in IP"},
	"ospf":    {[]uint8{protoOSPF}, nil, "OSPF"},
	"pim":     {[]uint8{103}, nil, "PIM"},
	"vrrp":    {[]uint8{112}, nil, "VRRP"},
}

// serviceWords are ports by name.
var serviceWords = map[string]uint16{
	"ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "dns": 53, "dhcp": 67, "tftp": 69, "http": 80,
	"kerberos": 88, "pop3": 110, "ntp": 123, "imap": 143, "snmp": 161, "snmptrap": 162, "bgp": 179, "ldap": 389,
	"https": 443, "smb": 445, "submissions": 465, "syslog": 514, "submission": 587, "ipp": 631, "ldaps": 636,
	"dns-tls": 853, "imaps": 993, "pop3s": 995, "openvpn": 1194, "radius": 1812, "nfs": 2049, "rdp": 3389,
	"sip": 5060, "sips": 5061, "postgresql": 5432, "wireguard": 51820,
}

// icmpWords are message types by name (RFC 792, RFC 4443, RFC 4861).
var icmpWords = map[uint8]map[string]uint8{
	protoICMP: {
		"echo-reply": 0, "destination-unreachable": 3, "redirect": 5, "echo-request": 8, "router-advertisement": 9,
		"router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12, "timestamp-request": 13, "timestamp-reply": 14,
	},
	protoICMPv6: {
		"destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4,
		"echo-request": 128, "echo-reply": 129, "mld-query": 130, "mld-report": 131, "mld-done": 132,
		"router-solicitation": 133, "router-advertisement": 134, "neighbour-solicitation": 135, "neighbour-advertisement": 136,
		"redirect": 137, "mld2-report": 143,
	},
}

// spans are the times of a limit.
var spans = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// options are the words that may follow what a rule matches.
var options = []string{"log", "limit", "name", "schedule"}

// words returns the keys of a table in their order.
func words[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }

// hasPorts reports whether all of the protocols have ports at the same place.
func hasPorts(protocols []uint8) bool {
	for _, p := range protocols {
		if p != protoTCP && p != protoUDP && p != protoSCTP && p != protoDCCP {
			return false
		}
	}
	return len(protocols) > 0
}

// protocolName is the word for a protocol's number.
func protocolName(number uint8) string {
	for word, p := range protocolWords {
		if len(p.protocols) == 1 && p.protocols[0] == number && p.icmp == nil {
			return word
		}
	}
	return strconv.Itoa(int(number))
}
