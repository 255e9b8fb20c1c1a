// SPDX-License-Identifier: Apache-2.0

package offload_test

import (
	"fmt"
	"testing"

	"minne/internal/lab/rulegen"
	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/offload"
)

// campus is a policy of n rules between four zones, like those of real routers, with a
// blocklist in front.
func campus(n int, stateless bool) *policy.Policy {
	p := zoned(4, noRules)
	p.Rules = nil
	p.Sets = []policy.Set{setOf(9, 60_000, 0)}
	add := func(r policy.Rule) {
		r.ID, r.IPv4 = len(p.Rules)+1, true
		for i := range p.Pairs {
			if pair := &p.Pairs[i]; pair.From != policy.Self && pair.To != policy.Self && pair.From != pair.To {
				pair.Rules, pair.Stateless = append(pair.Rules, len(p.Rules)), stateless
			}
		}
		p.Rules = append(p.Rules, r)
	}
	all, anyPort := policy.Addresses{Any: true}, policy.Ports{Any: true}
	add(policy.Rule{Source: policy.Addresses{Sets: []int{0}}, Destination: all, SourcePorts: anyPort, Ports: anyPort, IPv6: true})
	for i, r := range rulegen.Rules(rulegen.ACL, n-1, false, 1) {
		one := policy.Rule{Source: policy.Addresses{Any: r.Source == nil, Prefixes: r.Source}, Destination: policy.Addresses{Any: r.Destination == nil, Prefixes: r.Destination},
			SourcePorts: policy.Ports{Any: r.SourcePorts == nil}, Ports: policy.Ports{Any: r.DestinationPorts == nil}}
		for _, q := range r.SourcePorts {
			one.SourcePorts.Ranges = append(one.SourcePorts.Ranges, policy.PortRange(q))
		}
		for _, q := range r.DestinationPorts {
			one.Ports.Ranges = append(one.Ports.Ranges, policy.PortRange(q))
		}
		for q := range 256 {
			if r.Protocols.Has(uint8(q)) {
				one.Protocols = append(one.Protocols, uint8(q))
			}
		}
		if i%3 > 0 {
			one.Action = policy.Permit
		}
		add(one)
	}
	return p
}

// What a commit takes: from the policy to tables that are ready to be swapped in.
func BenchmarkLowerAndCompile(b *testing.B) {
	for _, n := range []int{600, 10_000} {
		for _, stateless := range []bool{true, false} {
			p := campus(n, stateless)
			b.Run(fmt.Sprintf("rules=%d/stateless=%t", n, stateless), func(b *testing.B) {
				for b.Loop() {
					j := offload.Lower(p)
					if j.Kernel != "" {
						b.Fatal(j.Kernel)
					}
					t, err := classify.Compile(j.Rules, classify.Options{})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(t.Stats().Bytes), "table-bytes")
				}
			})
			b.Run(fmt.Sprintf("lower-only/rules=%d/stateless=%t", n, stateless), func(b *testing.B) {
				for b.Loop() {
					offload.Lower(p)
				}
			})
		}
	}
}
