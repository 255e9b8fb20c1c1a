// SPDX-License-Identifier: Apache-2.0

// Package ruleset writes firewalls like those of real routers as a user would
// write them, for measurements: rules as the table of a rules-file, and lists of
// addresses to block.
//
// The rules have the shapes that package rulegen knows, a third each, but their
// networks are moved into those in which the lab's hosts are. Of packets from and to
// random hosts some meet a rule; were the rules about all of the Internet, none would.
package ruleset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"minne/internal/fastpath/classify"
	"minne/internal/fastpath/classify/rulegen"
)

// Rules makes n rules about IPv4 packets from hosts of one network to hosts of another.
func Rules(n int, from, to netip.Prefix, seed uint64) []classify.Rule {
	var all []classify.Rule
	for i, shape := range rulegen.Shapes {
		part := (n*(i+1))/len(rulegen.Shapes) - len(all)
		rules := rulegen.Rules(shape, part+1, false, seed) // the last one takes every packet
		all = append(all, rules[:part]...)
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		move(all[i].Source, from)
		move(all[i].Destination, to)
	}
	return all
}

// move puts prefixes into a network: they keep their low bits, and their length unless it is shorter.
func move(list []netip.Prefix, into netip.Prefix) {
	network := into.Masked().Addr().As4()
	for i, p := range list {
		a := p.Addr().As4()
		for b := range a {
			mask := byte(0xff)
			if left := into.Bits() - 8*b; left <= 0 {
				mask = 0
			} else if left < 8 {
				mask <<= 8 - left
			}
			a[b] = network[b]&mask | a[b]&^mask
		}
		list[i] = netip.PrefixFrom(netip.AddrFrom4(a), max(p.Bits(), into.Bits())).Masked()
	}
}

// CSV writes rules that all permit as a rules-file.
func CSV(rules []classify.Rule) string {
	var b strings.Builder
	b.WriteString("action,protocol,source,source-port,destination,port,options\n")
	for i := range rules {
		r := &rules[i]
		protocol, port := upper(r)
		fmt.Fprintf(&b, "permit,%s,%s,%s,%s,%s,\n", protocol, addresses(r.Source), ports(r.SourcePorts), addresses(r.Destination), port)
	}
	return b.String()
}

var icmpTypes = map[uint8]string{0: "echo-reply", 3: "destination-unreachable", 8: "echo-request", 11: "time-exceeded"}

// upper is the protocol of a rule, and its ports or ICMP type.
func upper(r *classify.Rule) (protocol, port string) {
	switch {
	case r.Protocols == classify.Protocols{}:
		return "any", ""
	case r.Protocols.Has(6):
		return "tcp", ports(r.DestinationPorts)
	case r.Protocols.Has(17):
		return "udp", ports(r.DestinationPorts)
	case r.Protocols.Has(1) && len(r.ICMP) > 0:
		return "icmp", icmpTypes[r.ICMP[0].Type]
	}
	for n := range 256 {
		if r.Protocols.Has(uint8(n)) {
			return fmt.Sprint(n), ""
		}
	}
	return "any", ""
}

func addresses(list []netip.Prefix) string {
	if len(list) == 0 {
		return "any"
	}
	return list[0].String()
}

func ports(list []classify.Range) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", list[0].First, list[0].Last)
}

// Blocklist makes n different IPv4 addresses outside of a network, an address a line.
func Blocklist(n int, outside netip.Prefix, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	world := netip.MustParsePrefix("0.0.0.0/0")
	seen := make(map[netip.Addr]bool, n)
	var b strings.Builder
	for len(seen) < n {
		a := rulegen.Inside(world, random)
		if outside.Contains(a) || seen[a] || !a.IsGlobalUnicast() {
			continue
		}
		seen[a] = true
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}
