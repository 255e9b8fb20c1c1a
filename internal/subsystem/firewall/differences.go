// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"minne/internal/model/policy"
)

// beyondRules are the differences of two policies that no rule shows: translations, the clamp of segment
// sizes, limits of hosts, sets, zones. Nothing is said of a policy that is not known (a preview without
// the daemon).
func beyondRules(now, next *policy.Policy) (list []string) {
	if now == nil || next == nil {
		return nil
	}
	list = append(list, comings("NAT ", translationsOf(now), translationsOf(next))...)
	switch {
	case next.MSSClamp && !now.MSSClamp:
		list = append(list, "+ segment sizes of TCP are lowered (mss-clamp)")
	case now.MSSClamp && !next.MSSClamp:
		list = append(list, "- segment sizes of TCP are lowered (mss-clamp)")
	}
	list = append(list, comings("limit ", limitsOf(now), limitsOf(next))...)
	list = append(list, changedSets(now, next)...)
	list = append(list, comings("zone ", zonesOf(now), zonesOf(next))...)
	return append(list, comings("helper ", helpersOf(now), helpersOf(next))...)
}

// comings are the words that come and go, each behind what it is.
func comings(what string, now, next []string) (list []string) {
	for _, w := range next {
		if !slices.Contains(now, w) {
			list = append(list, "+ "+what+w)
		}
	}
	for _, w := range now {
		if !slices.Contains(next, w) {
			list = append(list, "- "+what+w)
		}
	}
	return list
}

func translationsOf(p *policy.Policy) (list []string) {
	for i := range p.NAT {
		list = append(list, natWords(p, &p.NAT[i]))
	}
	return list
}

func limitsOf(p *policy.Policy) (list []string) {
	for i := range p.Limits {
		l := &p.Limits[i]
		var zones, words []string
		for _, z := range l.From {
			zones = append(zones, p.Zones[z].Name)
		}
		for _, one := range []struct {
			name  string
			limit *policy.Limit
		}{{"new connections", l.New}, {"ICMP", l.ICMP}, {"SYN to a host", l.SYN}} {
			if one.limit != nil {
				words = append(words, fmt.Sprintf("%s %d/%s", one.name, one.limit.Rate, span(one.limit.Per)))
			}
		}
		if l.Open > 0 {
			words = append(words, fmt.Sprintf("open connections %d", l.Open))
		}
		list = append(list, strings.Join(zones, ", ")+": "+strings.Join(words, ", "))
	}
	return list
}

// changedSets are sets that come, go, or have other elements.
func changedSets(now, next *policy.Policy) (list []string) {
	words := func(s *policy.Set) string {
		return fmt.Sprintf("set %s of %d %s", s.Name, len(s.Prefixes)+len(s.Ports), kindWords[s.Kind])
	}
	had := map[string]*policy.Set{}
	for i := range now.Sets {
		had[now.Sets[i].Name] = &now.Sets[i]
	}
	for i := range next.Sets {
		s := &next.Sets[i]
		switch old := had[s.Name]; {
		case old == nil:
			list = append(list, "+ "+words(s))
		case !reflect.DeepEqual(old, s):
			list = append(list, "~ "+words(s))
		}
		delete(had, s.Name)
	}
	for i := range now.Sets {
		if s := &now.Sets[i]; had[s.Name] != nil {
			list = append(list, "- "+words(s))
		}
	}
	return list
}

func zonesOf(p *policy.Policy) (list []string) {
	for _, z := range p.Zones[policy.Self+1:] {
		list = append(list, z.Name+" ("+strings.Join(z.Interfaces, ", ")+")")
	}
	return list
}

func helpersOf(p *policy.Policy) (list []string) {
	for _, h := range p.Helpers {
		list = append(list, h.Name)
	}
	return list
}
