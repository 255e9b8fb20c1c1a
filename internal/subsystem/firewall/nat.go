// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/model/policy"
)

// Translations of addresses in nftables.

// nat writes the translations. Those of destinations come before routing, those of
// sources after; a pair of zones is matched by its interfaces.
func (t *text) nat() {
	var before, after []string
	for i := range t.p.Portals {
		before = append(before, t.portal(&t.p.Portals[i])...)
	}
	for i := range t.p.NAT {
		n := &t.p.NAT[i]
		if t.empty(n.From) || n.Kind != policy.PortForward && t.empty(n.To) {
			continue
		}
		switch n.Kind {
		case policy.PortForward:
			before = append(before, t.forwarding(n))
			if n.Hairpin {
				after = append(after, t.hairpin(n)...)
			}
		case policy.OneToOne:
			in, out := t.oneToOne(n)
			before, after = append(before, in), append(after, out...)
		default:
			after = append(after, t.sourceNAT(n)...)
		}
	}
	if len(before) > 0 {
		t.chain("translate_in", append([]string{"type nat hook prerouting priority dstnat; policy accept;"}, before...)...)
	}
	if len(after) > 0 {
		t.chain("translate_out", append([]string{"type nat hook postrouting priority srcnat; policy accept;"}, after...)...)
	}
}

// portal are the lines that lead who asks for a page to the login page, but for pages that are free.
func (t *text) portal(p *policy.Portal) (lines []string) {
	from := "iifname " + oneOf(quoted(p.Interfaces)) + " tcp dport 80"
	if !p.Free.Any && len(p.Free.Prefixes)+len(p.Free.Sets) > 0 {
		for _, free := range t.addresses(p.Free, "daddr") {
			lines = append(lines, from+" "+free.text+" accept")
		}
	}
	for _, who := range t.addresses(policy.Addresses{Sets: []int{p.Admitted}, Not: true}, "saddr") {
		lines = append(lines, from+" "+who.text+` fib daddr type != local counter redirect to :80 comment "login page"`)
	}
	return lines
}

// empty reports whether zones have no interfaces: no packet comes from there.
func (t *text) empty(zones []policy.ZoneID) bool {
	return !slices.ContainsFunc(zones, func(z policy.ZoneID) bool { return len(t.p.Zones[z].Interfaces) > 0 })
}

func natComment(n *policy.NAT) string { return strconv.Quote(fmt.Sprintf("nat#%d %s", n.ID, n.Name)) }

func (t *text) forwarding(n *policy.NAT) string {
	ip, to := family(n.Target), n.Target.String()
	local := "fib daddr type local"
	if n.Address.IsValid() {
		local = ip + " daddr " + n.Address.String()
	} else {
		local = "meta nfproto " + map[string]string{"ip": "ipv4", "ip6": "ipv6"}[ip] + " " + local
	}
	if n.NewPort != 0 {
		if n.Target.Is6() {
			to = "[" + to + "]"
		}
		to += ":" + strconv.Itoa(int(n.NewPort))
	}
	match := t.from(beforeRouting, n.From)[0]
	if source := sources(n.Source, n.Target.Is4()); source != "" {
		match += " " + source
	}
	return fmt.Sprintf("%s %s %s dport %s counter dnat %s to %s comment %s", match, local,
		protocolText(n.Protocol), n.Ports, ip, to, natComment(n))
}

// hairpin gives connections that go back to where they came from the router's
// address: the target would else answer around the router.
func (t *text) hairpin(n *policy.NAT) (lines []string) {
	port := n.Ports.String()
	if n.NewPort != 0 {
		port = strconv.Itoa(int(n.NewPort))
	}
	for _, z := range n.From {
		zone := []policy.ZoneID{z}
		if t.empty(zone) {
			continue
		}
		for _, from := range t.from(afterRouting, zone) {
			lines = append(lines, fmt.Sprintf("%s %s ct status dnat %s daddr %s %s dport %s masquerade comment %s", from,
				t.to(zone), family(n.Target), n.Target, protocolText(n.Protocol), port, natComment(n)))
		}
	}
	return lines
}

func (t *text) sourceNAT(n *policy.NAT) (lines []string) {
	for _, four := range []bool{true, false} {
		source := sources(n.Source, four)
		if four && !n.IPv4 || !four && !n.IPv6 || n.Source != nil && source == "" {
			continue
		}
		if source == "" {
			source = map[bool]string{true: "meta nfproto ipv4", false: "meta nfproto ipv6"}[four]
		}
		act := "masquerade"
		for _, p := range n.Pool {
			if p.Addr().Is4() == four {
				act = "snat " + family(p.Addr()) + " to " + addressRange(p) + " persistent"
			}
		}
		for _, from := range t.from(afterRouting, n.From) {
			lines = append(lines, fmt.Sprintf("%s %s %s counter %s comment %s", from, t.to(n.To), source, act, natComment(n)))
		}
	}
	return lines
}

// oneToOne exchanges two networks. Connections that go back to the zone where they
// came from get an outside address, or the target would answer around the router.
func (t *text) oneToOne(n *policy.NAT) (before string, after []string) {
	ip, inside, outside := family(n.Inside.Addr()), policy.ElementText(n.Inside), policy.ElementText(n.Outside)
	inward := fmt.Sprintf("%s daddr %s counter dnat %s prefix to %s comment %s", ip, outside, ip, n.Inside, natComment(n))
	outward := fmt.Sprintf("%s saddr %s counter snat %s prefix to %s comment %s", ip, inside, ip, n.Outside, natComment(n))
	for _, from := range t.from(afterRouting, n.From) {
		after = append(after, fmt.Sprintf("%s %s %s", from, t.to(n.To), outward))
	}
	if !n.Hairpin {
		return t.from(beforeRouting, n.To)[0] + " " + inward, after
	}
	for _, z := range n.From {
		zone := []policy.ZoneID{z}
		if t.empty(zone) {
			continue
		}
		for _, from := range t.from(afterRouting, zone) {
			beside := fmt.Sprintf("%s %s ct status dnat %s daddr %s", from, t.to(zone), ip, inside)
			after = append(after, beside+" "+strings.Replace(outward, " counter ", " ", 1), // counted on its way in
				fmt.Sprintf("%s masquerade comment %s", beside, natComment(n)))
		}
	}
	return inward, after
}

// sources matches the networks of one family; "" when there are none.
func sources(list []netip.Prefix, four bool) string {
	var texts []string
	for _, p := range list {
		if p.Addr().Is4() == four {
			texts = append(texts, policy.ElementText(p))
		}
	}
	switch {
	case len(texts) == 0:
		return ""
	case four:
		return "ip saddr " + oneOf(texts)
	}
	return "ip6 saddr " + oneOf(texts)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ip"
	}
	return "ip6"
}

// addressRange writes a network as the range of its addresses.
func addressRange(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Addr().String() + "-" + ipnet.Last(p).String()
}
