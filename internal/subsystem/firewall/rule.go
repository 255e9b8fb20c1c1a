// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"minne/internal/model/policy"
)

// One rule of a policy in nftables. Where it speaks of several sets, or of
// addresses of both families, it becomes several: nftables has no "or" between them.

// maxComment is what the kernel keeps of a comment, in bytes, and a few to spare.
const maxComment = 120

// comment is how a rule is found again: its number, and its text to read.
func comment(r *policy.Rule) string {
	plain := strings.Map(func(c rune) rune {
		switch {
		case c == '"':
			return '\''
		case c < ' ' || c > '~' || c == '\\':
			return '.'
		}
		return c
	}, r.Text)
	if len(plain) > maxComment-10 {
		plain = plain[:maxComment-10]
	}
	return fmt.Sprintf("#%d %s", r.ID, plain)
}

// rule returns a rule's lines in its chain. Of a service that is bound to interfaces, packets come in by them, or go out.
func (t *text) rule(r *policy.Rule, in bool) []string {
	act, simple := t.act(r)
	if !simple {
		name := fmt.Sprintf("rule_%d", r.ID)
		if !t.written[r.ID] {
			t.written[r.ID] = true
			if prefix := logPrefix(r); strings.Contains(prefix, "$") {
				fmt.Fprintf(&t.b, "\tdefine log_%d = %q\n", r.ID, prefix)
			}
			t.chain(name, act...)
		}
		act = []string{"goto " + name}
	}
	var lines []string
	for _, m := range t.timed(r) {
		for _, bound := range t.bound(r.Interfaces, in) {
			lines = append(lines, strings.TrimSpace(bound+m+" "+act[0]))
		}
	}
	return lines
}

// bound matches the interfaces of a service, each match with a space behind it.
func (t *text) bound(interfaces []string, in bool) (list []string) {
	switch {
	case interfaces == nil:
		return []string{""}
	case !in:
		return []string{"oifname " + oneOf(quoted(interfaces)) + " "}
	}
	main, slaves := t.split(interfaces)
	if len(main) > 0 {
		list = append(list, "iifname "+oneOf(quoted(main))+" ")
	}
	if len(slaves) > 0 {
		list = append(list, "meta sdifname "+oneOf(quoted(slaves))+" ")
	}
	return list
}

// act returns what a rule does, and whether that is a single statement.
func (t *text) act(r *policy.Rule) (lines []string, simple bool) {
	c := strconv.Quote(comment(r))
	if r.Limit != nil {
		lines = append(lines, fmt.Sprintf("limit rate over %d/%s burst %d packets counter drop comment %s", r.Limit.Rate, span(r.Limit.Per), r.Limit.Burst, c))
	}
	if r.Log != nil {
		lines = append(lines, fmt.Sprintf("limit rate %d/second burst %d packets log prefix %q", policy.LogRate, logBurst, quotedPrefix(r)))
	}
	switch {
	case r.Action == policy.Permit:
		lines = append(lines, "counter accept comment "+c)
	case r.Action == policy.Deny:
		lines = append(lines, "counter drop comment "+c)
	default:
		lines = append(lines, rejects(comment(r))...)
	}
	return lines, len(lines) == 1
}

func span(per time.Duration) string {
	return map[time.Duration]string{time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}[per]
}

// logPrefix is what stands in front of a logged packet.
func logPrefix(r *policy.Rule) string {
	switch {
	case r.Log == nil:
		return ""
	case r.Log.Prefix != "":
		return r.Log.Prefix + " "
	case r.Name != "":
		return fmt.Sprintf("minne %s %s: ", r.Action, r.Name)
	}
	return fmt.Sprintf("minne %s #%d: ", r.Action, r.ID)
}

// quotedPrefix is the prefix as it stands in the statement. There a $ begins the name of a variable, so
// a prefix with one is a variable itself, whose value is taken as it is.
func quotedPrefix(r *policy.Rule) string {
	prefix := logPrefix(r)
	if strings.Contains(prefix, "$") {
		return fmt.Sprintf("$log_%d", r.ID)
	}
	return prefix
}

// alternative is one way to match a part of a rule.
type alternative struct {
	four, six bool // families it can match
	text      string
}

// timed returns the matches at the times of the rule.
func (t *text) timed(r *policy.Rule) (list []string) {
	for _, m := range t.matches(r) {
		for _, when := range t.times(r) {
			list = append(list, strings.TrimSpace(m+" "+when))
		}
	}
	return list
}

// matches returns the match expressions of a rule; a packet matches the rule when
// it matches one of them.
func (t *text) matches(r *policy.Rule) (list []string) {
	for _, src := range t.addresses(r.Source, "saddr") {
		for _, dst := range t.addresses(r.Destination, "daddr") {
			for _, up := range t.upper(r) {
				four := r.IPv4 && src.four && dst.four && up.four
				six := r.IPv6 && src.six && dst.six && up.six
				if !four && !six {
					continue
				}
				parts := []string{src.text, dst.text, up.text}
				if four != six && src.text == "" && dst.text == "" {
					parts[0] = map[bool]string{true: "meta nfproto ipv4", false: "meta nfproto ipv6"}[four]
				}
				if r.HopLimit255 {
					parts = append(parts, "ip6 hoplimit 255")
				}
				list = append(list, strings.Join(strings.Fields(strings.Join(parts, " ")), " "))
			}
		}
	}
	return list
}

func (t *text) addresses(a policy.Addresses, field string) (list []alternative) {
	if a.Any {
		return []alternative{{true, true, ""}}
	}
	var four, six []string
	for _, p := range a.Prefixes {
		if p.Addr().Is4() {
			four = append(four, policy.ElementText(p))
		} else {
			six = append(six, policy.ElementText(p))
		}
	}
	if len(four) > 0 {
		list = append(list, alternative{true, false, "ip " + field + " " + oneOf(four)})
	}
	if len(six) > 0 {
		list = append(list, alternative{false, true, "ip6 " + field + " " + oneOf(six)})
	}
	for _, s := range a.Sets {
		list = append(list, t.inSet(s, field, "ip", "_v4", a.Not), t.inSet(s, field, "ip6", "_v6", a.Not))
	}
	return list
}

// inSet asks whether the address of one family is in a set, or is not. The source of a host is one with its MAC address.
func (t *text) inSet(set int, field, ip, suffix string, not bool) alternative {
	s := &t.p.Sets[set]
	what, name, is := ip+" "+field, s.Name+suffix, " @"
	if s.Hosts && field == "saddr" {
		what, name = "ether saddr . "+what, s.Name+hostsSuffix+suffix
	}
	if not {
		is = " != @"
	}
	return alternative{ip == "ip", ip == "ip6", what + is + name}
}

// hostsSuffix is in the names of the sets with MAC addresses.
const hostsSuffix = "_mac"

// upper matches protocols, ports and types.
func (t *text) upper(r *policy.Rule) (list []alternative) {
	if r.ICMP != nil {
		for _, one := range []struct {
			protocol uint8
			words    string
		}{{1, "icmp type "}, {58, "icmpv6 type "}} {
			var types []string
			for _, i := range r.ICMP {
				if i.Protocol == one.protocol {
					types = append(types, strconv.Itoa(int(i.Type)))
				}
			}
			if len(types) > 0 {
				list = append(list, alternative{one.protocol == 1, one.protocol == 58, one.words + oneOf(types)})
			}
		}
		return list
	}
	if r.Protocols == nil {
		return []alternative{{true, true, ""}}
	}
	var numbers []string
	for _, p := range r.Protocols {
		numbers = append(numbers, protocolText(p))
	}
	head := "meta l4proto " + oneOf(numbers)
	for _, source := range t.ports(r.SourcePorts, "th sport") {
		for _, port := range t.ports(r.Ports, "th dport") {
			list = append(list, alternative{true, true, head + " " + source + " " + port})
		}
	}
	return list
}

// protocolText is a protocol as nftables prints it.
func protocolText(p uint8) string {
	if name := map[uint8]string{6: "tcp", 17: "udp", 1: "icmp", 58: "ipv6-icmp"}[p]; name != "" {
		return name
	}
	return strconv.Itoa(int(p))
}

func (t *text) ports(p policy.Ports, field string) (list []string) {
	if p.Any {
		return []string{""}
	}
	var ranges []string
	for _, r := range p.Ranges {
		ranges = append(ranges, r.String())
	}
	if len(ranges) > 0 {
		list = append(list, field+" "+oneOf(ranges))
	}
	for _, s := range p.Sets {
		list = append(list, field+" @"+t.p.Sets[s].Name+"_ports")
	}
	return list
}
