// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/model/policy"
)

// The table reads like the configuration. For zones lan and wan:
//
//	chain forward                   state, then: iifname vmap { "eth1" : jump from_lan, … }
//	chain from_lan                  oifname vmap { "eth0" : goto lan_to_wan, … }
//	chain lan_to_wan                the rules in their order, then the default
//	chain input, output             the same for the router itself: lan_to_self, self_to_wan
//	chain services                  what the router's own services need
//	chain rule_7                    of a rule that logs, limits or rejects: what it does
//	chain default_deny, …           the defaults, with their log
//	set web_v4, web_v6, web_ports   the sets by family
//
// Finding the rules of two zones costs two lookups in a hash, however many zones
// and interfaces there are. Each rule has its number and text as a comment, by
// which its counters are found again; one rule may be several of nftables, whose
// counters are then added.

// tableName is the table, in family inet.
const tableName = "minne_policy"

// Bursts of the log, in packets.
const logBurst = 20

// text is a table while it is written.
type text struct {
	b       strings.Builder
	p       *policy.Policy
	written map[int]bool // rules that have a chain of their own already
	clocks  clocks       // that schedules are written by

	untracked []string // lines of the services that are read before the state
}

// Text returns the table of a policy for nft -f, or "" when there is no policy. With
// schedules, it is that of today's difference to UTC.
func Text(p *policy.Policy) string {
	if p == nil {
		return ""
	}
	t := &text{p: p, written: map[int]bool{}, clocks: readClocks(time.Now())}
	t.sets()
	t.defaults()
	t.services()
	for i := range p.Pairs {
		t.pair(&p.Pairs[i])
	}
	early, late := t.limits()
	t.forward(early, late)
	t.input(early, late)
	t.output()
	t.vrfs()
	t.nat()
	t.helpers()
	if p.MSSClamp {
		t.chain("mss", "type filter hook forward priority mangle; policy accept;",
			"tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu")
	}
	return t.b.String()
}

func (t *text) chain(name string, lines ...string) {
	fmt.Fprintf(&t.b, "\tchain %s {\n", name)
	for _, line := range lines {
		t.b.WriteString("\t\t" + line + "\n")
	}
	t.b.WriteString("\t}\n")
}

// sets writes each set for every family it may hold.
func (t *text) sets() {
	for i := range t.p.Sets {
		s := &t.p.Sets[i]
		if s.Kind == policy.PortSet {
			var ports []string
			for _, r := range s.Ports {
				ports = append(ports, r.String())
			}
			t.set(s.Name+"_ports", "inet_service", "flags interval;", ports)
			continue
		}
		flags := "flags timeout;"
		if s.Kind == policy.PrefixSet {
			flags = "flags interval, timeout;"
		}
		var four, six []string
		for _, p := range s.Prefixes {
			if p.Addr().Is4() {
				four = append(four, policy.ElementText(p))
			} else {
				six = append(six, policy.ElementText(p))
			}
		}
		t.set(s.Name+"_v4", "ipv4_addr", flags, four)
		t.set(s.Name+"_v6", "ipv6_addr", flags, six)
		if s.Hosts {
			t.set(s.Name+hostsSuffix+"_v4", "ether_addr . ipv4_addr", flags, nil)
			t.set(s.Name+hostsSuffix+"_v6", "ether_addr . ipv6_addr", flags, nil)
		}
	}
}

func (t *text) set(name, kind, flags string, elements []string) {
	fmt.Fprintf(&t.b, "\tset %s {\n\t\ttype %s; %s\n", name, kind, flags)
	if len(elements) > 0 {
		t.b.WriteString("\t\telements = { " + strings.Join(elements, ",\n\t\t\t") + " }\n")
	}
	t.b.WriteString("\t}\n")
}

// defaults writes the chains that pairs end in. Broadcasts and multicasts of the
// neighbours fill no log.
func (t *text) defaults() {
	log := fmt.Sprintf("limit rate %d/second burst %d packets log prefix ", policy.LogRate, logBurst)
	const quiet = `meta pkttype { broadcast, multicast } counter drop comment "default"`
	for _, c := range []struct {
		name string
		act  []string
	}{{"deny", []string{`counter drop comment "default"`}}, {"reject", rejects("default")}} {
		t.chain("default_"+c.name, append([]string{quiet}, c.act...)...)
		t.chain("default_"+c.name+"_log", append([]string{quiet, log + `"minne default ` + c.name + `: "`}, c.act...)...)
	}
}

// rejects are the lines that drop a packet and tell its sender.
func rejects(comment string) []string {
	return []string{
		fmt.Sprintf("meta l4proto tcp counter reject with tcp reset comment %q", comment),
		fmt.Sprintf("counter reject with icmpx admin-prohibited comment %q", comment),
	}
}

// services writes what may reach the router, and what it may send, whatever the rules say.
func (t *text) services() {
	var in, out []string
	for i := range t.p.Services {
		r := &t.p.Services[i]
		switch {
		case slices.Equal(r.To, []policy.ZoneID{policy.Self}) && r.AnyState:
			t.untracked = append(t.untracked, t.rule(r, true)...)
		case slices.Equal(r.To, []policy.ZoneID{policy.Self}):
			in = append(in, t.rule(r, true)...)
		default:
			out = append(out, t.rule(r, false)...)
		}
	}
	t.chain("services", in...)
	if t.evaluatesOwn() {
		t.chain("services_out", out...)
	}
}

// evaluatesOwn reports whether some rule is about what the router itself sends.
func (t *text) evaluatesOwn() bool {
	return slices.ContainsFunc(t.p.Pairs, func(p policy.Pair) bool { return p.From == policy.Self && len(p.Rules) > 0 })
}

// chained reports whether a pair has a chain: one without rules needs none, but
// for services that are to be looked at where there is no state.
func chained(pair *policy.Pair) bool {
	return len(pair.Rules) > 0 || pair.Stateless && pair.To == policy.Self
}

// pair writes the rules between two zones.
func (t *text) pair(pair *policy.Pair) {
	if !chained(pair) {
		return
	}
	var lines []string
	if pair.To == policy.Self && pair.Stateless { // the others come by them on their way here
		lines = append(lines, "jump services")
	}
	if pair.From == policy.Self {
		lines = append(lines, "jump services_out")
	}
	for _, i := range pair.Rules {
		lines = append(lines, t.rule(&t.p.Rules[i], false)...)
	}
	name := t.p.PairName(pair)
	t.chain(name, append(lines, fmt.Sprintf("counter %s comment %q", defaultOf(pair), "default "+name))...)
}

// defaultOf is the verdict for what no rule of a pair matches.
func defaultOf(pair *policy.Pair) string {
	switch {
	case pair.Default == policy.Permit:
		return "accept"
	case pair.Log:
		return "goto default_" + pair.Default.String() + "_log"
	}
	return "goto default_" + pair.Default.String()
}

// target is where packets of a pair go in a verdict map.
func (t *text) target(pair *policy.Pair) string {
	if chained(pair) {
		return "goto " + t.p.PairName(pair)
	}
	return defaultOf(pair)
}

const byState = "ct state vmap { established : accept, related : accept, invalid : drop }"

func (t *text) forward(early, late []string) {
	lines := []string{"type filter hook forward priority filter; policy drop;", markLine}
	for _, stateless := range []bool{true, false} {
		prefix := map[bool]string{true: "stateless_from_", false: "from_"}[stateless]
		var main, slaves []string
		for from := range t.p.Zones[1:] {
			zone := t.p.Zones[from+1]
			var ways []string
			for to := range t.p.Zones[1:] {
				pair := t.p.Pair(policy.ZoneID(from+1), policy.ZoneID(to+1))
				if pair.Stateless == stateless {
					ways = append(ways, verdicts(t.p.Zones[to+1].Interfaces, t.target(pair))...)
				}
			}
			if len(ways) > 0 && len(zone.Interfaces) > 0 {
				t.chain(prefix+zone.Name, "oifname vmap "+braces(ways))
				outside, inside := t.split(zone.Interfaces)
				main = append(main, verdicts(outside, "jump "+prefix+zone.Name)...)
				if len(inside) > 0 {
					slaves = append(slaves, verdicts(inside, "jump "+t.marked(policy.ZoneID(from+1), prefix+zone.Name))...)
				}
			}
		}
		if !stateless {
			lines = slices.Concat(lines, early, []string{byState}, late)
		}
		lines = append(lines, dispatch(main, slaves)...)
	}
	t.chain("forward", append(lines, "goto default_deny_log")...)
}

// input puts the services before the limits: neighbour discovery and routing
// protocols must live through a flood of their zone.
func (t *text) input(early, late []string) {
	lines := append([]string{"type filter hook input priority filter; policy drop;", markLine, `iifname "lo" accept`}, t.loops()...)
	lines = append(lines, t.untracked...)
	for _, stateless := range []bool{true, false} {
		var main, slaves []string
		for from := range t.p.Zones[1:] {
			pair := t.p.Pair(policy.ZoneID(from+1), policy.Self)
			if pair.Stateless == stateless {
				outside, inside := t.split(t.p.Zones[from+1].Interfaces)
				main, slaves = append(main, verdicts(outside, t.target(pair))...), append(slaves, verdicts(inside, t.target(pair))...)
			}
		}
		if !stateless {
			lines = slices.Concat(lines, early, []string{byState, "jump services"}, late)
		}
		lines = append(lines, dispatch(main, slaves)...)
	}
	t.chain("input", append(lines, "goto default_deny_log")...)
}

// output evaluates what the router itself sends, where a policy says something about it.
func (t *text) output() {
	if !t.evaluatesOwn() {
		return
	}
	lines := []string{"type filter hook output priority filter; policy accept;", `oifname "lo" accept`}
	for _, stateless := range []bool{true, false} {
		var entries []string
		for to := range t.p.Zones[1:] {
			pair := t.p.Pair(policy.Self, policy.ZoneID(to+1))
			if pair.Stateless == stateless && len(pair.Rules) > 0 {
				entries = append(entries, verdicts(t.p.Zones[to+1].Interfaces, t.target(pair))...)
			}
		}
		if !stateless {
			lines = append(lines, "ct state established,related accept")
		}
		if len(entries) > 0 {
			lines = append(lines, "oifname vmap "+braces(entries))
		}
	}
	t.chain("output", lines...)
}

// verdicts are the entries of a verdict map for interfaces.
func verdicts(interfaces []string, verdict string) (list []string) {
	for _, name := range interfaces {
		list = append(list, strconv.Quote(name)+" : "+verdict)
	}
	return list
}

func braces(list []string) string { return "{ " + strings.Join(list, ", ") + " }" }

// oneOf writes one value, or several as a set.
func oneOf(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return braces(list)
}

func quoted(list []string) (all []string) {
	for _, s := range list {
		all = append(all, strconv.Quote(s))
	}
	return all
}
