// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// compiler makes a Policy of a configuration.
type compiler struct {
	cfg      *config.Config
	openings []Opening // of the services
	dir      string
	reach    []Reach
	p        *Policy
	report   *config.Report // what is refused
	odd      *config.Report // what is warned of
	zoneIDs  map[string]ZoneID
	setIndex map[string]int
	files    map[string]string // path → text of the files read
	places   []place           // of the rules
	policies []compiled
	times    map[string]*Schedule
}

// place is where a rule stands.
type place struct {
	path       string // in the configuration; "" for one in a file
	file, text string
	line       int
}

// compiled is a policy with its zones and rules resolved.
type compiled struct {
	config.FirewallPolicy
	path     string
	from, to []ZoneID
	rules    []int
}

// Result is what Compile made.
type Result struct {
	Policy   *Policy           // nil when the configuration has no zones: everything passes
	Warnings []config.Problem  // legal but odd, such as rules that can never match
	Files    map[string]string // the list and rule files that were read: path → text
}

// Compile makes the intermediate form of a configuration that config.Check
// accepts, with what its services need opened. Files are looked for in dir. The error is a *config.Error with every
// problem found; Files is filled nevertheless.
func Compile(cfg *config.Config, openings []Opening, dir string, reach ...Reach) (Result, error) {
	c := &compiler{
		cfg: cfg, openings: openings, dir: dir, reach: reach, p: &Policy{pair: map[[2]ZoneID]int{}},
		report: config.NewReport(cfg), odd: config.NewReport(cfg),
		zoneIDs: map[string]ZoneID{}, setIndex: map[string]int{}, files: map[string]string{},
	}
	if !c.zones() {
		return Result{}, c.report.Err()
	}
	c.sets()
	c.schedules()
	c.logins()
	c.p.MSSClamp = cfg.Firewall.MSSClamp.On()
	for i, p := range cfg.Firewall.Policies {
		c.policy(fmt.Sprintf("firewall.policies[%d]", i), p)
	}
	c.pairs()
	c.services()
	c.translations()
	c.limits()
	c.helpers()
	err := c.report.Err()
	if err == nil {
		c.shadows()
		c.closedForwards()
		c.unanswered()
	}
	return Result{Policy: c.p, Warnings: c.odd.Problems(), Files: c.files}, err
}

// file reads a file of the configuration and remembers it.
func (c *compiler) file(name string) (path, text string, err error) {
	path, text, err = ReadListed(c.dir, name, c.reach...)
	if err == nil {
		c.files[path] = text
	}
	return path, text, err
}

// zoneName leaves the underscore for the names of pairs.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,14}$`)

// zones finds the zones. false: there are none, and nothing is filtered.
func (c *compiler) zones() bool {
	members := map[string][]string{}
	for name, z := range c.cfg.Zones {
		members[name] = nil
		if len([]rune(z.Description)) > 200 {
			c.report.Refuse("zones."+name+".description", "the description has more than 200 characters", "at most 200", "")
		}
	}
	zoned := false
	for _, name := range words(c.cfg.Interfaces) {
		i := c.cfg.Interfaces[name]
		if i.Zone == "" {
			continue
		}
		zoned = true
		if _, described := c.cfg.Zones[i.Zone]; len(c.cfg.Zones) > 0 && !described {
			c.report.Refuse("interfaces."+name+".zone", fmt.Sprintf("there is no zone %q under zones", abridge(i.Zone)),
				"one of "+strings.Join(words(c.cfg.Zones), ", "), config.Nearest(i.Zone, words(c.cfg.Zones)))
		}
		members[i.Zone] = append(members[i.Zone], name)
	}
	if !zoned {
		for _, at := range []struct {
			path    string
			present bool
		}{{"zones", len(c.cfg.Zones) > 0}, {"firewall", c.cfg.Chosen("firewall")}, {"nat", len(c.cfg.NAT) > 0}, {"limits", len(c.cfg.Limits) > 0}} {
			if at.present {
				c.report.Refuse(at.path, "no interface has a zone", "zone: NAME at the interfaces", "")
			}
		}
		return false
	}
	c.p.Zones = []Zone{{Name: SelfName}}
	c.zoneIDs[SelfName] = Self
	for _, name := range words(members) {
		path := "zones." + name
		if len(members[name]) > 0 {
			path = "interfaces." + members[name][0] + ".zone"
		}
		switch {
		case name == SelfName || name == AnyName:
			c.report.Refuse(path, fmt.Sprintf("%s is a reserved word, not a zone name", name), "another name", "")
		case !zoneName.MatchString(name):
			c.report.Refuse(path, fmt.Sprintf("%q can't name a zone", abridge(name)), "a letter, then letters, digits and dashes, at most 15 in all", "")
		}
		c.zoneIDs[name] = ZoneID(len(c.p.Zones))
		c.p.Zones = append(c.p.Zones, Zone{Name: name, Interfaces: members[name]})
	}
	c.unzoned()
	c.vrfs()
	return true
}

// vrfs finds the VRFs. Their tables' numbers are those of conntrack's zones too.
func (c *compiler) vrfs() {
	for _, name := range words(c.cfg.Interfaces) {
		v := c.cfg.Interfaces[name].VRF
		if v == nil {
			continue
		}
		if v.Table > math.MaxUint16 {
			c.report.Refuse("interfaces."+name+".vrf.table", fmt.Sprintf("table %d is too high for a VRF beside zones", v.Table), "a number from 1 to 65535", "")
		}
		c.p.VRFs = append(c.p.VRFs, VRF{Name: name, Table: uint16(v.Table), Interfaces: v.Interfaces})
	}
}

// unzoned warns of interfaces whose packets are all dropped.
func (c *compiler) unzoned() {
	for _, name := range words(c.cfg.Interfaces) {
		i, alone := c.cfg.Interfaces[name], c.cfg.Kind(name).Alone
		if i.Zone == "" && !alone && !i.Disabled && len(i.Addresses) > 0 {
			c.odd.Refuse("interfaces."+name, fmt.Sprintf("%s has no zone, but other interfaces have: all its packets are dropped", name), "zone: NAME", "")
		}
		if i.Zone != "" && alone {
			c.report.Refuse("interfaces."+name+".zone", fmt.Sprintf("%s has no hosts and belongs to no zone", name), "the router itself is called self", "")
		}
	}
}

// zoneList resolves the zones of a policy; any is all zones but self.
func (c *compiler) zoneList(path string, names []string) (list []ZoneID) {
	if len(names) == 0 {
		c.report.Refuse(path, "no zone", "a zone, any or self", "")
	}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if name == AnyName {
			for id := range c.p.Zones[1:] {
				list = append(list, ZoneID(id+1))
			}
			continue
		}
		id, ok := c.zoneIDs[name]
		if !ok {
			all := append(words(c.zoneIDs), AnyName)
			near := config.Nearest(name, all)
			expected := ""
			if near == "" && len(all) <= 20 {
				expected = "one of " + strings.Join(all, ", ")
			}
			c.report.Refuse(at, fmt.Sprintf("there is no zone %q", abridge(name)), expected, near)
			continue
		}
		if slices.Contains(list, id) {
			c.report.Refuse(at, fmt.Sprintf("zone %s is given twice", name), "each zone once", "")
		}
		list = append(list, id)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// policy compiles a policy's rules; its default becomes the last of them.
func (c *compiler) policy(path string, f config.FirewallPolicy) {
	p := compiled{FirewallPolicy: f, path: path, from: c.zoneList(path+".from", f.From), to: c.zoneList(path+".to", f.To)}
	if p.Name == "" {
		p.Name = strings.Join(f.From, ",") + " to " + strings.Join(f.To, ",")
	} else if err := plainText(word{text: p.Name}); err != nil {
		c.report.Refuse(path+".name", err.message, err.expected, "")
	}
	if len(f.Rules) == 0 && f.RulesFile == "" && f.Default == "" {
		c.report.Refuse(path, "the policy is empty", "rules, a rules-file or a default", "")
	}
	if f.ExpectRows > 0 && f.RulesFile == "" {
		c.report.Refuse(path+".expect-rows", "expect-rows without rules-file", "rules-file", "")
	}
	add := func(r parsed, where place) { c.addRule(&p, r, where) }
	for i, text := range f.Rules {
		where := place{path: fmt.Sprintf("%s.rules[%d]", path, i)}
		r, err := parseRule(text, c.names())
		if err != nil {
			c.refuseWord(where, err)
			continue
		}
		add(r, where)
	}
	if f.RulesFile != "" {
		c.rulesFile(path, f, add)
	}
	if f.Default != "" {
		everything := Addresses{Any: true}
		add(parsed{rule: Rule{
			Text: "default " + string(f.Default), Action: Action(slices.Index(actionWords, string(f.Default))),
			Source: everything, Destination: everything, SourcePorts: Ports{Any: true}, Ports: Ports{Any: true}, IPv4: true, IPv6: true,
		}}, place{path: path + ".default"})
	}
	c.policies = append(c.policies, p)
}

// refuseWord tells of a wrong word of a rule.
func (c *compiler) refuseWord(at place, e *wordError) {
	if at.path != "" {
		c.report.RefuseWord(at.path, e.word.at, e.message, e.expected, e.nearest)
		return
	}
	c.report.RefuseLine(at.file, at.text, at.line, e.word.at+1, e.message, e.expected, e.nearest)
}

// addRule gives a rule its number and its zones.
func (c *compiler) addRule(p *compiled, r parsed, at place) {
	rule := r.rule
	rule.ID, rule.Policy, rule.Stateless = len(c.p.Rules)+1, p.Name, p.Stateless
	rule.From, rule.To = p.from, p.to
	if r.fromSelf {
		rule.From = []ZoneID{Self}
	}
	if r.toSelf {
		rule.To = []ZoneID{Self}
	}
	rule.Place = fmt.Sprintf("%s:%d", at.file, at.line)
	if at.path != "" {
		rule.Place = c.report.Place(at.path)
	}
	if only(rule.From, Self) && only(rule.To, Self) {
		w := r.source
		if r.toSelf {
			w = r.target
		}
		c.refuseWord(at, wrong(w, "a zone on one of the sides", "", "the rule is from the router to the router"))
		return
	}
	p.rules = append(p.rules, len(c.p.Rules))
	c.p.Rules = append(c.p.Rules, rule)
	c.places = append(c.places, at)
}

func only(list []ZoneID, id ZoneID) bool { return len(list) == 1 && list[0] == id }

// pairs lays out every ordered pair of zones with its rules and its default.
func (c *compiler) pairs() {
	defaults := c.cfg.Firewall.Defaults
	for from := range c.p.Zones {
		for to := range c.p.Zones {
			pair := Pair{From: ZoneID(from), To: ZoneID(to), Log: defaults.Log.On()}
			switch {
			case from == 0 && to == 0:
				continue
			case pair.From == Self, from == to && c.within(defaults.Within, c.p.Zones[from].Name):
				pair.Default = Permit
			case defaults.Action == "reject":
				pair.Default = Reject
			}
			c.p.pair[[2]ZoneID{pair.From, pair.To}] = len(c.p.Pairs)
			c.p.Pairs = append(c.p.Pairs, pair)
		}
	}
	says := map[*Pair]*compiled{} // the first policy of a pair
	for i := range c.policies {
		p := &c.policies[i]
		for _, r := range p.rules {
			rule := c.p.Rules[r]
			for _, from := range rule.From {
				for _, to := range rule.To {
					if pair := c.p.Pair(from, to); pair != nil {
						c.addToPair(pair, p, r, says)
					}
				}
			}
		}
	}
	c.waysBack(says)
}

// within says whether a zone's interfaces, and the neighbours of one of them, may reach each other
// through the router. Where the configuration does not say it, those in a zone that others reach
// by a translation may not: that is somebody else's network, for which this router is not the
// way, and a packet that goes out by the port that it came in by has no business here.
func (c *compiler) within(word config.PassAction, zone string) bool {
	outside := slices.ContainsFunc(c.cfg.NAT, func(n config.NAT) bool {
		return (n.Masquerade || len(n.Pool) > 0) && slices.Contains(n.To, zone) && !slices.Contains(n.From, zone)
	})
	if outside && word == "permit" {
		c.odd.Refuse("firewall.defaults.within", fmt.Sprintf(
			"anybody in zone %s may use this router to reach others in %[1]s, out of the same port too, and it is a network that others are translated to", zone),
			"no within, or within: deny; a policy from a zone to itself permits what is meant", "")
	}
	return word == "permit" || word == "" && !outside
}

func (c *compiler) addToPair(pair *Pair, p *compiled, rule int, says map[*Pair]*compiled) {
	first := says[pair]
	switch {
	case first == nil:
		says[pair], pair.Stateless = p, p.Stateless
	case first.Stateless != p.Stateless:
		c.refuseMixed(p, fmt.Sprintf("policies %s and %s are both about %s to %s, but only one of them is stateless",
			first.Name, p.Name, c.p.Zones[pair.From].Name, c.p.Zones[pair.To].Name))
		return
	}
	pair.Rules = append(pair.Rules, rule)
}

// waysBack makes the way back stateless too. Conntrack would else take packets
// that a stateless rule let pass for the beginning of a connection, and let
// replies pass that no rule permits.
func (c *compiler) waysBack(says map[*Pair]*compiled) {
	for i := range c.p.Pairs {
		pair := &c.p.Pairs[i]
		if !pair.Stateless {
			continue
		}
		back := c.p.Pair(pair.To, pair.From)
		switch {
		case says[back] == nil:
			back.Stateless = true
		case !back.Stateless:
			c.refuseMixed(says[back], fmt.Sprintf("policy %s keeps state, but the way back (%s) is stateless", says[back].Name, says[pair].Name))
		}
	}
}

func (c *compiler) refuseMixed(p *compiled, message string) {
	path := p.path
	if p.Stateless {
		path += ".stateless"
	}
	c.report.Refuse(path, message, "all policies between two zones stateless, or none", "")
}
