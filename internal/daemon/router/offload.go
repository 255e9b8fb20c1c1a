// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"minne/internal/base/plan"
	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/offload"
)

// offloader tells the fast path what the firewall says: at every commit, right behind
// the kernel's rules, and when sets change while the router runs.
type offloader struct {
	log    *slog.Logger
	filter *firewall.Firewall
	fast   *fastpath.FastPath

	mu      sync.Mutex
	policy  *policy.Policy // what the fast path was told, without live elements
	lowered *filter.Policy
}

func newOffloader(log *slog.Logger, filter *firewall.Firewall, fast *fastpath.FastPath) *offloader {
	g := &offloader{log: log, filter: filter, fast: fast}
	filter.Listen(g)
	return g
}

// Plan tells nothing: the firewall tells what changes.
func (*offloader) Plan(context.Context, firewall.Desired) ([]plan.Change, error) { return nil, nil }

// Apply makes the fast path evaluate as the firewall does.
func (g *offloader) Apply(ctx context.Context, d firewall.Desired) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fast.Firewall().Reconsider()
	if d.Broken != nil {
		g.policy, g.lowered = nil, &filter.Policy{Kernel: "cannot compile the policy: " + d.Broken.Error()}
		return g.fast.Firewall().Apply(ctx, g.lowered)
	}
	g.policy = d.Policy
	return g.update(ctx)
}

// update makes a firewall for the fast path of the policy with the live elements of its sets.
func (g *offloader) update(ctx context.Context) error {
	g.lowered = nil
	switch {
	case g.policy == nil:
	case !g.filter.InForce(g.policy):
		g.lowered = &filter.Policy{Kernel: "the kernel's rules are not those of the configuration"}
	default:
		g.lowered = offload.Lower(g.filter.WithLive(g.policy))
	}
	return g.fast.Firewall().Apply(ctx, g.lowered)
}

// ForceChanged makes the fast path evaluate again, or leave all to the kernel, when the rules of the
// policy are in force there, or no longer.
func (g *offloader) ForceChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fast.ForgetFlows()
	if g.policy == nil {
		return
	}
	if err := g.update(context.Background()); err != nil {
		g.leave(err)
	}
}

// leave leaves all to the kernel. The caller holds mu.
func (g *offloader) leave(why error) {
	g.log.Error("the fast path cannot load the firewall; the kernel filters all packets until the next apply", "error", why)
	g.lowered = &filter.Policy{Kernel: why.Error()}
	_ = g.fast.Firewall().Apply(context.Background(), g.lowered) // writes one word
}

// SetChanged takes in live elements. A set that is compiled into the rules needs new tables.
func (g *offloader) SetChanged(name string, added, deleted []netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.policy == nil {
		return
	}
	known, err := g.fast.ChangeSet(name, added, deleted)
	if known && err == nil {
		return
	}
	if err := g.update(context.Background()); err != nil {
		g.leave(fmt.Errorf("set %s: %w", name, err))
	}
}

// ConnectionsEnded makes the fast path ask for its flows again.
func (g *offloader) ConnectionsEnded() { g.fast.ForgetFlows() }

// addCounts adds what the rules have counted in the fast path to what they have in the kernel: each
// packet was counted by one of them.
func (g *offloader) addCounts(o *firewall.Observed) error {
	g.mu.Lock()
	p, lowered := g.policy, g.lowered
	g.mu.Unlock()
	if p == nil || lowered == nil || lowered.Kernel != "" {
		return nil
	}
	counts, err := g.fast.RuleCounts()
	if err != nil {
		return err
	}
	add := func(c *firewall.Count, counter int) {
		n := counts[uint16(counter)]
		c.Packets += n.Packets
		c.Bytes += n.Bytes
	}
	for i := range p.Rules { // the observed rules stand in the same order
		if i < len(o.Rules) {
			add(&o.Rules[i].Count, offload.RuleCounter(&p.Rules[i]))
		}
	}
	counters := offload.CountersOf(p, lowered)
	zones := map[string]uint8{}
	for i, z := range p.Zones {
		zones[z.Name] = uint8(i)
	}
	for i := range o.Pairs {
		pair := &o.Pairs[i]
		if counter, ok := counters.Unmatched[filter.ZonePair{From: zones[pair.From], To: zones[pair.To]}]; ok {
			add(&pair.Unmatched, counter)
		}
	}
	for _, counter := range counters.Denied {
		add(&o.Default, counter)
	}
	return nil
}
