// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/model/config"
)

// A login is rules in front of those of its zones. For the login students of zone dorm:
//
//	dorm to any   permit any any FREE           the walled garden
//	              reject any, source not in @login-students
//	any to dorm   deny any, destination not in @login-students
//
// The set is fed by the login service, with addresses and MAC addresses of hosts. When it is empty nobody is admitted, so
// whatever is wrong with the service, no host passes by it. Rejected are those that ask, not only so that a browser finds the
// login page at once: to answer, the kernel looks for the neighbour, which is how new addresses of known hosts are learned.

// logins adds the sets, the rules and the portals.
func (c *compiler) logins() {
	for _, name := range words(c.cfg.Services.Login) {
		if l := c.cfg.Services.Login[name]; l != nil {
			c.login(name, l)
		}
	}
}

func (c *compiler) login(name string, l *config.Login) {
	path := "services.login." + name
	admitted := c.fed(path, config.LoginSet(name), true)
	free := Addresses{}
	if len(l.GardenNames()) > 0 {
		free.Sets = append(free.Sets, c.fed(path, config.LoginFree(name), false))
	}
	for _, f := range l.Free {
		if set, named := strings.CutPrefix(f, "@"); named {
			if i, ok := c.setIndex[set]; ok {
				free.Sets = append(free.Sets, i)
			}
		} else if p, err := ipnet.Parse(f); err == nil {
			free.Prefixes = append(free.Prefixes, p)
		}
	}
	free.Prefixes = mergePrefixes(free.Prefixes)
	slices.Sort(free.Sets)

	var zones, others []ZoneID
	for id, z := range c.p.Zones[1:] {
		if slices.ContainsFunc(z.Interfaces, func(i string) bool { return slices.Contains(l.Interfaces, i) }) {
			zones = append(zones, ZoneID(id+1))
		}
		others = append(others, ZoneID(id+1))
	}
	if len(zones) == 0 {
		return
	}
	everything, everyPort := Addresses{Any: true}, Ports{Any: true}
	rule := func(text string, action Action, source, destination Addresses) parsed {
		return parsed{rule: Rule{Text: text, Action: action, Source: source, Destination: destination, SourcePorts: everyPort, Ports: everyPort, IPv4: true, IPv6: true}}
	}
	outside := Addresses{Sets: []int{admitted}, Not: true}
	add := func(what string, from, to []ZoneID, rules ...parsed) {
		p := compiled{FirewallPolicy: config.FirewallPolicy{Name: what}, path: path, from: from, to: to}
		for _, r := range rules {
			c.addRule(&p, r, place{path: path})
		}
		c.policies = append(c.policies, p)
	}
	var out []parsed
	if len(free.Prefixes)+len(free.Sets) > 0 {
		out = append(out, rule("login "+name+": free without login", Permit, everything, free))
		out[0].rule.IPv4 = len(free.Sets) > 0 || has(free.Prefixes, true)
		out[0].rule.IPv6 = len(free.Sets) > 0 || has(free.Prefixes, false)
	}
	add("login "+name, zones, others, append(out, rule("login "+name+": who has not logged in", Reject, outside, everything))...)
	add("login "+name+" to the router", zones, []ZoneID{Self}, rule("login "+name+": who has not logged in", Reject, outside, everything))
	add("towards login "+name, others, zones, rule("login "+name+": to who has not logged in", Deny, everything, outside))
	c.p.Portals = append(c.p.Portals, Portal{Interfaces: slices.Sorted(slices.Values(l.Interfaces)), Admitted: admitted, Free: free})
}

// fed adds a set that a service feeds.
func (c *compiler) fed(path, name string, hosts bool) int {
	if _, taken := c.setIndex[name]; taken {
		c.report.Refuse("firewall.sets."+name, fmt.Sprintf("%s is the set of %s", name, path), "another name", "")
	}
	at := len(c.p.Sets)
	c.setIndex[name] = at
	c.p.Sets = append(c.p.Sets, Set{Name: name, Kind: AddressSet, Fed: true, Hosts: hosts})
	return at
}

// keptBack are the sets of the logged in by interface, of interfaces that need a login.
func (c *compiler) keptBack() map[string]int {
	of := map[string]int{}
	for name, l := range c.cfg.Services.Login {
		for _, i := range l.Interfaces {
			of[i] = c.setIndex[config.LoginSet(name)]
		}
	}
	return of
}

// behindLogin splits the rule of a service: on interfaces that need a login it is for those who have logged in. Nothing is split
// where there is no login.
func (c *compiler) behindLogin(r Rule) (list []Rule) {
	kept := c.keptBack()
	if len(kept) == 0 {
		return []Rule{r}
	}
	all := r.Interfaces
	if all == nil {
		for _, z := range c.p.Zones[1:] {
			all = append(all, z.Interfaces...)
		}
	}
	open, behind := []string{}, map[int][]string{}
	for _, i := range all {
		if set, ok := kept[i]; ok {
			behind[set] = append(behind[set], i)
		} else {
			open = append(open, i)
		}
	}
	if len(behind) == 0 {
		return []Rule{r}
	}
	if len(open) > 0 {
		first := r
		first.Interfaces = slices.Sorted(slices.Values(open))
		list = append(list, first)
	}
	for set := range c.p.Sets {
		if interfaces := behind[set]; len(interfaces) > 0 && len(r.Source.Prefixes) == 0 {
			next := r
			next.Interfaces, next.Source = slices.Sorted(slices.Values(interfaces)), Addresses{Sets: []int{set}}
			list = append(list, next)
		}
	}
	return list
}
