// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"minne/internal/subsystem/fastpath/filter"
)

// What rules count in the fast path. Each of the two buffers has its counters; those that are in force
// begin at zero. As long as the rules stay the same, and only sets change or tables
// grow, what was counted before is carried on, as nftables' counters go on.

// RuleCount is what a counter of the firewall (filter.Verdict.Counter) has counted in the fast path.
// Bytes are of IP packets.
type RuleCount struct{ Packets, Bytes uint64 }

// RuleCounts are the counters of the firewall that is in force, without those that are zero. They
// begin anew with other rules.
func (f *FastPath) RuleCounts() (map[uint16]RuleCount, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil || f.firewall.policy == nil || f.firewall.kernel != "" {
		return map[uint16]RuleCount{}, nil
	}
	flags, _ := splitPair(f.prog.control.load(controlPolicy))
	counts, err := f.prog.ruleCounts(flags, f.firewall.policy.Counters)
	if err != nil {
		return nil, err
	}
	addCounts(counts, f.firewall.carried)
	return counts, nil
}

func addCounts(to, more map[uint16]RuleCount) {
	for counter, m := range more {
		c := to[counter]
		to[counter] = RuleCount{c.Packets + m.Packets, c.Bytes + m.Bytes}
	}
}

// ruleCounts reads the first counters of the buffer that flags name.
func (p *program) ruleCounts(flags uint32, counters int) (map[uint16]RuleCount, error) {
	counts := map[uint16]RuleCount{}
	base := (flags & policyBuffer) * filter.MaxCounters
	for i := 1; i <= counters; i++ {
		var cpus []routerTally
		key := base + uint32(i)
		if err := p.objects.PolicyCounts.Lookup(&key, &cpus); err != nil {
			return nil, fmt.Errorf("reading the counters of rules: %w", err)
		}
		var sum RuleCount
		for _, c := range cpus {
			sum.Packets += c.Packets
			sum.Bytes += c.Bytes
		}
		if sum.Packets > 0 {
			counts[uint16(i)] = sum
		}
	}
	return counts, nil
}

// counts says that from now on the counters are of the policy that was told, and returns whose they
// were. What was carried goes unless these are the same rules.
func (w *firewall) counts() (before *filter.Policy) {
	before, w.counted = w.counted, w.policy
	if !sameCounters(before, w.policy) {
		w.carried = map[uint16]RuleCount{}
	}
	return before
}

// carry adds what a program counted by the policy before, of which flags were in force there. No
// packet may be counted by it any more.
func (w *firewall) carry(from *program, flags uint32, before *filter.Policy) error {
	if flags&policyOn == 0 || flags&policyKernel != 0 || !sameCounters(before, w.policy) {
		return nil
	}
	counts, err := from.ruleCounts(flags, before.Counters)
	addCounts(w.carried, counts)
	return err
}

// sameCounters reports whether the counters of two policies count the same.
func sameCounters(a, b *filter.Policy) bool {
	return a != nil && b != nil && a.Counters == b.Counters && slices.Equal(a.Names.Counters, b.Names.Counters) &&
		maps.EqualFunc(a.Pairs, b.Pairs, func(x, y filter.Pair) bool { return x.ID == y.ID && x.Stateless == y.Stateless })
}

// clearCounts sets the counters of a buffer to zero.
func (t *tables) clearCounts(buffer int) error {
	m := t.prog.objects.PolicyCounts
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("asking how many processors there are: %w", err)
	}
	zero := make([]routerTally, cpus)
	for i := range t.counters[buffer] {
		key := uint32(buffer*filter.MaxCounters + i + 1)
		if err := m.Put(&key, zero); err != nil {
			return fmt.Errorf("setting the counters of rules to zero: %w", err)
		}
	}
	return nil
}
