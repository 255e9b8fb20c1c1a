// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"context"
	"slices"

	"minne/internal/model/policy"
)

// What show firewall tells: the policy in use with what its rules have counted.

// Observed is the firewall as it is. The counters begin anew when a changed policy is loaded.
type Observed struct {
	On      bool           `json:"on"`                // there is a policy
	Problem string         `json:"problem,omitempty"` // what is loaded is not the policy, and why
	Zones   []ObservedZone `json:"zones,omitempty"`
	Pairs   []ObservedPair `json:"pairs,omitempty"` // those with rules
	Rules   []ObservedRule `json:"rules,omitempty"`
	NAT     []ObservedRule `json:"nat,omitempty"`
	Limits  []ObservedRule `json:"limits,omitempty"` // what was dropped beyond them
	Sets    []ObservedSet  `json:"sets,omitempty"`
	Default Count          `json:"default"` // dropped by default, all pairs together
}

// Count is what a counter says.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// ObservedZone is a zone with its interfaces.
type ObservedZone struct {
	Name       string   `json:"name"`
	Interfaces []string `json:"interfaces"`
}

// ObservedPair is the way from one zone to another.
type ObservedPair struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Rules     []int  `json:"rules"` // by number, in the order in which they are read
	Stateless bool   `json:"stateless,omitempty"`
	Default   string `json:"default"`
	Unmatched Count  `json:"unmatched"` // packets that no rule matched
}

// ObservedRule is a rule, a service of the router or a translation.
type ObservedRule struct {
	ID     int    `json:"id"`
	Policy string `json:"policy,omitempty"`
	Name   string `json:"name,omitempty"`
	Text   string `json:"text"`
	Place  string `json:"place"`
	Count
}

// ObservedSet is a set; minne set list shows its elements.
type ObservedSet struct {
	Name       string `json:"name"`
	Holds      string `json:"holds"`      // addresses, prefixes or ports
	Configured int    `json:"configured"` // elements of the configuration
	Live       int    `json:"live"`       // elements that minne set add put in
}

// Observe reads the firewall.
func (f *Firewall) Observe(ctx context.Context) (Observed, error) {
	f.mu.Lock()
	p := f.desired.Policy
	live := map[string]int{}
	for name, set := range f.live.sets {
		live[name] = set.Size()
	}
	f.mu.Unlock()
	if p == nil {
		return Observed{}, nil
	}
	o := Observed{On: true}
	now, err := loaded()
	if err != nil {
		return o, err
	}
	var counters []counted
	switch _, want := named(Text(p)); {
	case now == "":
		o.Problem = "the table is gone, something else removed it; minne apply loads it again"
	case now != want:
		o.Problem = "another table than that of the running configuration is loaded; minne apply loads it again"
	default:
		if counters, err = readCounters(); err != nil {
			return o, err
		}
	}
	for _, z := range p.Zones[1:] {
		o.Zones = append(o.Zones, ObservedZone{z.Name, z.Interfaces})
	}
	for i := range p.Sets {
		s := &p.Sets[i]
		o.Sets = append(o.Sets, ObservedSet{s.Name, kindWords[s.Kind], len(s.Prefixes) + len(s.Ports), live[s.Name]})
	}
	o.observeRules(p, counters)
	return o, nil
}

var kindWords = []string{policy.AddressSet: "addresses", policy.PrefixSet: "prefixes", policy.PortSet: "ports"}

func (o *Observed) observeRules(p *policy.Policy, counters []counted) {
	rules, nat, defaults := map[int]Count{}, map[int]Count{}, map[string]Count{}
	for _, c := range counters {
		n := Count{c.packets, c.bytes}
		switch c.kind {
		case ruleCounter:
			rules[c.id] = n
		case natCounter:
			nat[c.id] = n
		case limitCounter:
			l := p.Limits[c.id-1]
			o.Limits = append(o.Limits, ObservedRule{ID: c.id, Text: c.words, Place: l.Place, Count: n})
		default:
			defaults[c.words] = n
		}
	}
	o.Default = defaults[""]
	for i := range p.Pairs {
		if pair := &p.Pairs[i]; len(pair.Rules) > 0 {
			one := ObservedPair{From: p.Zones[pair.From].Name, To: p.Zones[pair.To].Name, Stateless: pair.Stateless,
				Default: pair.Default.String(), Unmatched: defaults[p.PairName(pair)]}
			for _, r := range pair.Rules {
				one.Rules = append(one.Rules, p.Rules[r].ID)
			}
			o.Pairs = append(o.Pairs, one)
		}
	}
	for _, r := range slices.Concat(p.Rules, p.Services) {
		o.Rules = append(o.Rules, ObservedRule{r.ID, r.Policy, r.Name, r.Text, r.Place, rules[r.ID]})
	}
	for i := range p.NAT {
		n := &p.NAT[i]
		o.NAT = append(o.NAT, ObservedRule{ID: n.ID, Name: n.Name, Text: natWords(p, n), Place: n.Place, Count: nat[n.ID]})
	}
}
