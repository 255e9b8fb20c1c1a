// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// What may reach the router itself while the rules are not in force: less than they permit, and nothing
// that they deny. It is what the guard can say with comparisons alone, without sets, conntrack
// or a clock, so that it needs no module and no nft(8):
//
//   - the router with itself;
//   - what its services need: neighbour discovery, routing sessions, DHCP, SSH where services.ssh
//     opens it, ... (not ping, which has a limit);
//   - of TCP, segments with ACK, where a pair keeps state: connections that there are go on, none
//     begins. UDP has nothing like it, and an open port behind a well-known source port would be
//     anybody's: no answers to DNS or NTP meanwhile;
//   - what rules to self permit plainly.
//
// A permit with a schedule is left out, and of a set holds what the configuration has in it. A deny with
// a schedule or a set of addresses (in which there may be more) denies whatever else of it matches, and
// so does a permit with a limit. Of a zone with limits of its sources, nothing but services is left.

// mostWays is how many lines a rule of the policy may become here.
const mostWays = 256

// Protocols and flags (IANA).
const (
	protoICMP, protoTCP, protoICMPv6 uint8 = 1, 6, 58
	ackFlag                                = 0x10
)

// alone returns the rules of the guard's input chain, and the chains that they go to.
func alone(p *policy.Policy) (rules []nft.Rule, chains []nft.Chain) {
	rules = []nft.Rule{{Interface: "lo"}}
	if p == nil {
		return rules, nil
	}
	for _, v := range p.VRFs { // by these the router reaches itself in them
		rules = append(rules, nft.Rule{Interface: v.Name, Slave: true})
	}
	for i := range p.Services {
		r := &p.Services[i]
		if !slices.Equal(r.To, []policy.ZoneID{policy.Self}) {
			continue
		}
		interfaces := r.Interfaces
		if interfaces == nil {
			interfaces = []string{""}
		}
		for _, name := range interfaces {
			for _, line := range plainly(p, r) {
				line.Interface, line.Slave = name, p.VRFOf(name) != nil
				rules = append(rules, line)
			}
		}
	}
	var after []nft.Rule
	for from := range p.Zones {
		pair := p.Pair(policy.ZoneID(from), policy.Self)
		if from == int(policy.Self) || pair == nil {
			continue
		}
		zone := &p.Zones[from]
		name := "from_" + zone.Name
		chain := nft.Chain{Name: name, Rules: zoneAlone(p, pair)}
		if len(chain.Rules) > 0 && len(zone.Interfaces) > 0 {
			chains = append(chains, chain)
		}
		for _, i := range zone.Interfaces {
			slave := p.VRFOf(i) != nil
			switch {
			case pair.Stateless && len(chain.Rules) == 0:
				rules = append(rules, nft.Rule{Interface: i, Slave: slave, Drop: true})
			case pair.Stateless:
				rules = append(rules, nft.Rule{Interface: i, Slave: slave, Goto: name})
			case len(chain.Rules) > 0:
				after = append(after, nft.Rule{Interface: i, Slave: slave, Goto: name})
			}
		}
	}
	tcp := protoTCP
	rules = append(rules, nft.Rule{Protocol: &tcp, TCPFlags: ackFlag})
	return append(rules, after...), chains
}

// zoneAlone is what rules permit from a zone.
func zoneAlone(p *policy.Policy, pair *policy.Pair) (lines []nft.Rule) {
	limited := func(l policy.SourceLimit) bool { return slices.Contains(l.From, pair.From) }
	if !pair.Stateless && slices.ContainsFunc(p.Limits, limited) {
		return nil
	}
	permits := false
	for _, i := range pair.Rules {
		more := plainly(p, &p.Rules[i])
		permits = permits || slices.ContainsFunc(more, func(r nft.Rule) bool { return !r.Drop })
		lines = append(lines, more...)
	}
	if pair.Default == policy.Permit {
		return append(lines, nft.Rule{})
	}
	if !permits {
		return nil
	}
	return lines
}

// plainly writes a rule of the policy without what it can't say: of a permit nothing is left then, of a
// deny more.
func plainly(p *policy.Policy, r *policy.Rule) (lines []nft.Rule) {
	drop := r.Action != policy.Permit || r.Limit != nil
	if !drop && (r.Schedule != nil || r.Source.Not || r.Destination.Not) {
		return nil
	}
	sources, destinations := addresses(p, r.Source, drop), addresses(p, r.Destination, drop)
	fromPorts, toPorts := ports(p, r.SourcePorts), ports(p, r.Ports)
	if len(sources)*len(destinations)*len(fromPorts)*len(toPorts)*max(1, len(r.Protocols), len(r.ICMP)) > mostWays {
		if !drop {
			return nil
		}
		sources, destinations, fromPorts, toPorts = []netip.Prefix{{}}, []netip.Prefix{{}}, []*nft.Ports{nil}, []*nft.Ports{nil}
	}
	for _, source := range sources {
		for _, destination := range destinations {
			if source.IsValid() && destination.IsValid() && source.Addr().Is4() != destination.Addr().Is4() {
				continue
			}
			for _, upper := range uppers(r) {
				for _, from := range fromPorts {
					for _, to := range toPorts {
						line := upper
						line.Source, line.Destination, line.SourcePorts, line.Ports, line.Drop = source, destination, from, to, drop
						if r.HopLimit255 {
							line.HopLimit = 255
						}
						lines = append(lines, ofFamily(line, r.IPv4, r.IPv6)...)
					}
				}
			}
		}
	}
	return lines
}

// ofFamily gives a line the families that it may have.
func ofFamily(line nft.Rule, four, six bool) []nft.Rule {
	for _, p := range []netip.Prefix{line.Source, line.Destination} {
		if p.IsValid() {
			four, six = four && p.Addr().Is4(), six && !p.Addr().Is4()
		}
	}
	if line.ICMPType != nil {
		four, six = four && *line.Protocol == protoICMP, six && *line.Protocol == protoICMPv6
	}
	if line.HopLimit != 0 {
		four = false
	}
	switch {
	case four && !six:
		line.Family = unix.NFPROTO_IPV4
	case six && !four:
		line.Family = unix.NFPROTO_IPV6
	case !four:
		return nil
	}
	return []nft.Rule{line}
}

// uppers are the protocols of a rule, or its types of ICMP.
func uppers(r *policy.Rule) (list []nft.Rule) {
	switch {
	case r.ICMP != nil:
		for i := range r.ICMP {
			list = append(list, nft.Rule{Protocol: &r.ICMP[i].Protocol, ICMPType: &r.ICMP[i].Type})
		}
	case r.Protocols != nil:
		for i := range r.Protocols {
			list = append(list, nft.Rule{Protocol: &r.Protocols[i]})
		}
	default:
		list = []nft.Rule{{}}
	}
	return list
}

// addresses are those that a rule surely matches; to drop, all that it may match.
func addresses(p *policy.Policy, a policy.Addresses, drop bool) []netip.Prefix {
	if a.Any || drop && len(a.Sets) > 0 { // one that must not be in a set is dropped by nothing else
		return []netip.Prefix{{}}
	}
	list := slices.Clone(a.Prefixes)
	for _, s := range a.Sets {
		list = append(list, p.Sets[s].Prefixes...)
	}
	return list
}

// ports are the ranges of a rule; nothing but the configuration puts ports into sets.
func ports(p *policy.Policy, of policy.Ports) (list []*nft.Ports) {
	if of.Any {
		return []*nft.Ports{nil}
	}
	ranges := slices.Clone(of.Ranges)
	for _, s := range of.Sets {
		ranges = append(ranges, p.Sets[s].Ports...)
	}
	for _, r := range ranges {
		list = append(list, &nft.Ports{First: r.First, Last: r.Last})
	}
	return list
}
