// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/policy"
)

// natWords says what a translation does: "lan to wan: masquerade", "wan to any own address tcp 8080:
// forward to 192.0.2.10 port 80".
func natWords(p *policy.Policy, n *policy.NAT) string {
	zones := func(ids []policy.ZoneID) string {
		var names []string
		for _, id := range ids {
			names = append(names, p.Zones[id].Name)
		}
		return strings.Join(names, ", ")
	}
	way := zones(n.From) + " to " + zones(n.To)
	for i, s := range n.Source {
		if i == 0 && n.Kind != policy.OneToOne {
			way += ", source"
		}
		if n.Kind != policy.OneToOne {
			way += " " + s.String()
		}
	}
	switch {
	case n.IPv4 && !n.IPv6:
		way += ", IPv4"
	case n.IPv6 && !n.IPv4:
		way += ", IPv6"
	}
	switch n.Kind {
	case policy.Masquerade:
		return way + ": masquerade"
	case policy.SourcePool:
		var pool []string
		for _, p := range n.Pool {
			pool = append(pool, p.String())
		}
		return way + ": source from the pool " + strings.Join(pool, ", ")
	case policy.OneToOne:
		return fmt.Sprintf("%s: %s is %s outside", way, n.Inside, n.Outside)
	}
	called := "the router's addresses"
	if n.Address.IsValid() {
		called = n.Address.String()
	}
	target := n.Target.String()
	if n.NewPort != 0 {
		target += fmt.Sprintf(" port %d", n.NewPort)
	}
	return fmt.Sprintf("%s to %s %s %s: forward to %s", zones(n.From), called, protocolWord(n.Protocol), n.Ports, target)
}

func protocolWord(protocol uint8) string {
	switch protocol {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	}
	return fmt.Sprintf("protocol %d", protocol)
}
