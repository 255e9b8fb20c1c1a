// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"slices"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/filter"
)

// firstDefault is the counter of the default of way number 0; those of rules and
// services are below.
func firstDefault(p *policy.Policy) int { return len(p.Rules) + len(p.Services) + 1 }

// RuleCounter is the fast path's counter of a rule.
func RuleCounter(r *policy.Rule) int { return r.ID }

// Counters says what the fast path's counters of defaults count. It is the same as
// the counters of nftables do, which they are to be added to.
type Counters struct {
	// Unmatched is packets that no rule of a way matched, by way; only of ways with
	// rules. Ways have the same counter when there are too many for one each.
	Unmatched map[filter.ZonePair]int
	// Denied are the counters of all that was dropped by default, those of Unmatched
	// among them.
	Denied []int
}

// CountersOf returns the counters of defaults of a policy and what Lower made of it.
func CountersOf(p *policy.Policy, j *filter.Policy) Counters {
	c := Counters{Unmatched: map[filter.ZonePair]int{}}
	for i := range p.Pairs {
		pair := &p.Pairs[i]
		way := filter.ZonePair{From: uint8(pair.From), To: uint8(pair.To)}
		lowered, ok := j.Pairs[way]
		if !ok || pair.From == policy.Self || pair.To == policy.Self {
			continue
		}
		counter := firstDefault(p) + int(lowered.ID)
		if len(pair.Rules) > 0 {
			c.Unmatched[way] = counter
		}
		if pair.Default != policy.Permit && !slices.Contains(c.Denied, counter) {
			c.Denied = append(c.Denied, counter)
		}
	}
	return c
}
