// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
)

// shadows warns of rules that can never decide, because an earlier rule of every
// one of their pairs takes all that they match, and names that rule. Only single
// rules are compared: what several rules take together is not found.
func (c *compiler) shadows() {
	for _, pair := range c.p.Pairs {
		if len(pair.Rules) > maxCompared {
			return // a comparison of each with each would take seconds
		}
	}
	for i := range c.p.Rules {
		r := &c.p.Rules[i]
		if by := c.shadowOf(i); by != nil {
			message := fmt.Sprintf("this rule never decides: %q (%s) takes all that it matches", by.Text, by.Place)
			if by.Action != r.Action {
				message += ", and does the opposite"
			}
			if at := c.places[i]; at.path != "" {
				c.odd.RefuseWord(at.path, 0, message, "the narrower rule first, or only one of the two", "")
			} else {
				c.odd.RefuseLine(at.file, at.text, at.line, 1, message, "the narrower rule first, or only one of the two", "")
			}
		}
	}
}

// maxCompared bounds the rules of a pair that are compared each with each.
const maxCompared = 20_000

// shadowOf returns the rule that takes everything from rule i on all of its pairs, or nil.
func (c *compiler) shadowOf(i int) *Rule {
	r := &c.p.Rules[i]
	for j := range i {
		by := &c.p.Rules[j]
		if covered(r, by) && readFirst(r, by) {
			return by
		}
	}
	return nil
}

// readFirst reports whether by is read on all pairs of r. Rules of a pair are
// read in the order of their numbers.
func readFirst(r, by *Rule) bool {
	for _, from := range r.From {
		for _, to := range r.To {
			if from == Self && to == Self {
				continue
			}
			if !slices.Contains(by.From, from) || !slices.Contains(by.To, to) {
				return false
			}
		}
	}
	return true
}

// covered reports whether every packet that r matches is matched by by.
func covered(r, by *Rule) bool {
	return by.Limit == nil && by.Interfaces == nil && (by.Schedule == nil || by.Schedule == r.Schedule) && (by.IPv4 || !r.IPv4) && (by.IPv6 || !r.IPv6) &&
		coversProtocols(by, r) && coversAddresses(by.Source, r.Source) && coversAddresses(by.Destination, r.Destination) &&
		coversPorts(by.SourcePorts, r.SourcePorts) && coversPorts(by.Ports, r.Ports)
}

func coversProtocols(by, r *Rule) bool {
	if by.Protocols == nil {
		return true
	}
	if r.Protocols == nil {
		return false
	}
	for _, p := range r.Protocols {
		if !slices.Contains(by.Protocols, p) {
			return false
		}
	}
	if by.ICMP == nil {
		return true
	}
	return r.ICMP != nil && !slices.ContainsFunc(r.ICMP, func(t ICMPType) bool { return !slices.Contains(by.ICMP, t) })
}

// coversAddresses compares sets by name: their elements change while the router runs.
func coversAddresses(by, r Addresses) bool {
	if by.Any {
		return true
	}
	if by.Not || r.Not {
		return by.Not && r.Not && slices.Equal(by.Sets, r.Sets)
	}
	if r.Any || len(r.Prefixes) > 0 && (len(by.Prefixes) == 0 || !covers(by.Prefixes, r.Prefixes)) {
		return false
	}
	return !slices.ContainsFunc(r.Sets, func(s int) bool { return !slices.Contains(by.Sets, s) })
}

func coversPorts(by, r Ports) bool {
	if by.Any {
		return true
	}
	if r.Any || slices.ContainsFunc(r.Sets, func(s int) bool { return !slices.Contains(by.Sets, s) }) {
		return false
	}
	return !slices.ContainsFunc(r.Ranges, func(q PortRange) bool {
		return !slices.ContainsFunc(by.Ranges, func(p PortRange) bool { return p.First <= q.First && q.Last <= p.Last })
	})
}
