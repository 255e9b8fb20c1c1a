// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"
	"errors"
	"time"

	"minne/internal/lab/bench/classbench"
	"minne/internal/lab/bench/flowbench"
	"minne/internal/lab/closedloop"
	"minne/internal/lab/ruleset"
	"minne/internal/lab/statistics"
)

// policies are the figures of firewalls without state; see closedloop.Policies for rules and packets. Random are
// 5-tuples from everywhere to everywhere, of which hardly one meets a rule; near are those between the networks that
// the rules are about.
var policies = []definition{
	{"policy.600.ratio", "packets per second of the fast path, 600 stateless rules, random 5-tuples", "×", "kernel, the same rules in nftables",
		comparing(5, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Linear, p.Random), side(p.Few, p.Random)
		})},
	{"policy.600.kept", "packets per second of the fast path, 600 stateless rules, random 5-tuples", "×", "no firewall",
		comparing(1, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Open, p.Random), side(p.Few, p.Random)
		})},
	{"policy.600.near.kept", "the same, random hosts of the rules' networks", "×", "no firewall",
		comparing(1, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Open, p.FewNear), side(p.Few, p.FewNear)
		})},
	{"policy.10k.kept", "packets per second of the fast path, 10,000 stateless rules, random 5-tuples", "×", "no firewall",
		comparing(1, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Open, p.Random), side(p.Many, p.Random)
		})},
	{"policy.10k.near.kept", "the same, random hosts of the rules' networks", "×", "no firewall",
		comparing(2, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Open, p.ManyNear), side(p.Many, p.ManyNear)
		})},
	{"policy.blocklist.kept", "packets per second of the fast path, sources looked up among 120,000 blocked addresses", "×", "no firewall",
		comparing(1, func(p *closedloop.Policies) (a, b closedloop.Side) {
			return side(p.Open, p.Random), side(p.Blocked, p.Random)
		})},
	{"policy.600.swap", "time to compile 600 rules and put them in force", "ms", "itself", swap(closedloop.FullSizes.Few)},
	{"policy.10k.swap", "time to compile 10,000 rules and put them in force", "ms", "itself", swap(closedloop.FullSizes.Many)},
}

// Policies returns routers with firewalls in a closed loop, whose fast paths judge every packet.
func (b *Bench) Policies(ctx context.Context) (*closedloop.Policies, error) {
	return b.policies.get(func() (*closedloop.Policies, error) {
		b.release()
		b.Progress("building four routers, with 600 rules, 10,000 rules, a blocklist and no firewall, and a kernel with 600 rules")
		p, err := closedloop.NewPolicies(ctx, b.Means, closedloop.FullSizes)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, p.Close)
		return p, p.AwaitFast(ctx)
	})
}

// fewest is how many rounds a comparison has whose trials are slow.
const fewest = 8

// comparing is how many times more packets per second B forwards than A, in a share of the rounds.
func comparing(share int, sides func(*closedloop.Policies) (a, b closedloop.Side)) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		p, err := bench.Policies(ctx)
		if err != nil {
			return Measured{}, err
		}
		a, b := sides(p)
		c, err := closedloop.Compare(ctx, a, b, max(bench.Rounds/share, min(bench.Rounds, fewest)))
		return measured(c.Ratio, c.SameSame), err
	}
}

// swap is how long a commit's new rules take to be in force.
func swap(rules int) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		bench.release()
		took, err := classbench.Swaps(ctx, ruleset.Rules(rules, closedloop.PolicySeed), 2*max(1, bench.Rounds/4))
		if err != nil {
			return Measured{}, err
		}
		return timed(took), nil
	}
}

// timed is the median of times in ms, and what one differs from the next.
func timed(took []time.Duration) Measured {
	var ms, same []float64
	for i, d := range took {
		ms = append(ms, float64(d)/float64(time.Millisecond))
		if i%2 == 1 {
			same = append(same, ms[i]-ms[i-1])
		}
	}
	return measured(statistics.Interval(ms), statistics.Interval(same))
}

// flows are the figures of the flow table alone.
var flows = []definition{
	{"flow.lookup.ratio", "lookups of a million flows, random order", "×", "BPF hash map with the same keys", flowLookup},
}

func flowLookup(ctx context.Context, bench *Bench) (Measured, error) {
	bench.release() // what is measured next needs 800 MB
	r, err := flowbench.Measure(ctx, bench.Progress)
	if err != nil {
		return Measured{}, err
	}
	if r.Rounds == 0 {
		return Measured{}, errors.New("the benchmark of flows has no rounds")
	}
	sizes := flowbench.Sizes()
	most := sizes[len(sizes)-1]
	return measured(statistics.Interval(r.Ratios(most, flowbench.HashMap, flowbench.Table)),
		statistics.Interval(r.Ratios(most, flowbench.TableAgain, flowbench.Table))), nil
}
