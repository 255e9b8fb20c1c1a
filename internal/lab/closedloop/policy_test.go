// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"minne/internal/lab/device"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
)

// Every router of the rig forwards every random packet, and its rules see them: a figure
// of a firewall that nothing reaches would be worth nothing.
func TestFirewallsOfRandomPackets(t *testing.T) {
	sizes := PolicySizes{Few: 60, Many: 600, Blocked: 1000, Packets: 1 << 14}
	p, err := NewPolicies(t.Context(), device.Means{Binary: testbuild.Minne(t, t.TempDir()), Load: kernel.BulkRoutes}, sizes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	const n = 1 << 12
	for path, loads := range map[*Path][]*Load{
		p.Open: {p.Random, p.FewNear, p.ManyNear}, p.Few: {p.FewNear}, p.Many: {p.ManyNear}, p.Blocked: {p.Random}, p.Linear: {p.FewNear},
	} {
		for _, load := range loads {
			if trial, err := path.TryWhole(t.Context(), load, n); err != nil || trial.Lost != 0 || trial.Arrived.Received != n {
				t.Errorf("router %s: %+v, %v", path.device.Node().Name, trial, err)
			}
		}
	}
	for name, path := range map[string]*Path{"few": p.Few, "many": p.Many} {
		if share, err := met(t.Context(), path); err != nil || share < 0.001 || share > 0.5 {
			t.Errorf("%.4f of the packets met one of %s rules, %v; expected some in a hundred", share, name, err)
		}
	}
	if err := p.AwaitFast(t.Context()); err != nil {
		t.Error(err)
	}
	out, err := p.Device(linearPlace).Node().Run(t.Context(), "nft", "list", "ruleset")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "accept comment"); n != sizes.Few+1 || !strings.Contains(out, "#61 default permit") || strings.Contains(out, "ct state") {
		t.Errorf("%d rules in the kernel:\n%.2000s", n, out)
	}
	if counting := strings.Count(out, " packets ") - strings.Count(out, " packets 0 "); counting < 2 {
		t.Errorf("%d rules of the kernel have counted packets", counting)
	}
}

// met returns the share of the packets since the rules were loaded that met one of the rules in a router
// with rules, in its kernel and its fast path together.
func met(ctx context.Context, path *Path) (float64, error) {
	var all firewall.Observed
	if err := path.device.Router().JSON(ctx, &all, "show", "firewall"); err != nil {
		return 0, err
	}
	met, sum := uint64(0), uint64(0)
	for _, r := range all.Rules {
		sum += r.Packets
		if r.Text != "default permit" {
			met += r.Packets
		}
	}
	if sum == 0 {
		return 0, fmt.Errorf("no rule of router %s has counted a packet", path.device.Node().Name)
	}
	return float64(met) / float64(sum), nil
}
