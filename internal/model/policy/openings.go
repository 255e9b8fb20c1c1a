// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Opening is what a service of the router needs of the firewall: ports on the interfaces that it is
// configured for, and on no other. What is served in the LAN is not there for the WAN, whatever the
// zones' rules say. Answers belong to known connections and need no opening.
type Opening struct {
	Text       string         // what is permitted, as the rule is called: "DNS"
	Protocols  []uint8        // IP protocols
	From, Port uint16         // source and destination port, 0 for any
	Hosts      []netip.Prefix // at the other end, none for any
	Interfaces []string       // by which the packets come, or with Out leave; none permits nothing
	Out        bool           // the router sends them; else they are for it
	Anywhere   bool           // with Out: by every interface
	IPv4       bool           // only
	ICMP       []ICMPType     // with Protocols 1: these types; nil for all
	Unknown    bool           // hosts that have not logged in need it too (services.login)
}

// Towards lets the router send to a server, by whichever interface it is reached. transport is udp, or what goes over TCP.
func Towards(text, transport string, at netip.AddrPort) Opening {
	protocol := uint8(unix.IPPROTO_TCP)
	if transport == "udp" {
		protocol = unix.IPPROTO_UDP
	}
	return Opening{Text: text, Protocols: []uint8{protocol}, Port: at.Port(), Out: true, Anywhere: true,
		Hosts: []netip.Prefix{netip.PrefixFrom(at.Addr(), at.Addr().BitLen())}}
}

// open permits what services need.
func (c *compiler) open(o Opening) {
	if len(o.Interfaces) == 0 && !(o.Out && o.Anywhere) {
		return
	}
	r := Rule{Text: o.Text, Protocols: o.Protocols, Interfaces: slices.Sorted(slices.Values(o.Interfaces)), IPv4: o.IPv4, ICMP: o.ICMP, Unknown: o.Unknown,
		AnyState: slices.ContainsFunc(o.ICMP, ICMPType.untracked)}
	if o.Port != 0 {
		r.Ports = onePort(o.Port)
	}
	if o.From != 0 {
		r.SourcePorts = onePort(o.From)
	}
	if o.Out {
		r.Destination.Prefixes = o.Hosts
		c.serviceOut(r)
	} else {
		r.Source.Prefixes = o.Hosts
		c.serviceIn(r)
	}
}

func onePort(port uint16) Ports { return Ports{Ranges: []PortRange{{port, port}}} }

// untracked says whether conntrack knows no connections that such a message begins, and calls it invalid: of IPv4 it tracks
// questions and answers, and messages of errors, but not router discovery (RFC 1256).
func (t ICMPType) untracked() bool {
	return t.Protocol == protoICMP && (t.Type == icmpWords[protoICMP]["router-advertisement"] || t.Type == icmpWords[protoICMP]["router-solicitation"])
}
