// SPDX-License-Identifier: Apache-2.0

// Package ruleset writes firewalls like those of real routers as a user would
// write them, for measurements: rules as the table of a rules-file, and lists of
// addresses to block. The rules have the shapes that package rulegen knows, a third each.
package ruleset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"minne/internal/lab/rulegen"
	"minne/internal/subsystem/fastpath/classify"
)

// Rules makes n rules about IPv4 packets.
func Rules(n int, seed uint64) (all []classify.Rule) {
	for i, shape := range rulegen.Shapes {
		part := share(n, i)
		rules := rulegen.Rules(shape, part+1, false, seed) // the last one takes every packet
		all = append(all, rules[:part]...)
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// Sites are the networks that Rules of the same arguments is about; some sources are anywhere else.
func Sites(n int, seed uint64) (all []netip.Prefix) {
	for i, shape := range rulegen.Shapes {
		all = append(all, rulegen.Sites(shape, share(n, i)+1, false, seed)...)
	}
	return all
}

// share is how many of n rules have the i-th shape.
func share(n, i int) int { return n*(i+1)/len(rulegen.Shapes) - n*i/len(rulegen.Shapes) }

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

// Blocklist makes n different IPv4 addresses, an address a line. None is one of those to be left out.
func Blocklist(n int, without map[netip.Addr]bool, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	seen := make(map[netip.Addr]bool, n)
	var b strings.Builder
	for len(seen) < n {
		a := rulegen.Inside(netip.MustParsePrefix("0.0.0.0/0"), random)
		if without[a] || seen[a] || !a.IsGlobalUnicast() {
			continue
		}
		seen[a] = true
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}
