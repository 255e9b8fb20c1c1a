// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/tc"
	"minne/internal/model/config"
)

// shapedConfig is a router with a line on eth0.
func shapedConfig(t *testing.T, shape string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse("test.yaml", []byte("version: 1\ninterfaces:\n  eth0: {addresses: [192.0.2.1/24]"+shape+"}\n"))
	if problems != nil {
		t.Fatal(problems)
	}
	return cfg
}

// TestShaping: a line is shaped, changed in place, and let go of; a discipline of somebody else's is named before it goes.
func TestShaping(t *testing.T) {
	p := machine()
	p.queues = []tc.Discipline{{Link: 2, Handle: 1 << 16, Parent: tc.Root, Kind: "htb"}, {Link: 3, Handle: 0, Parent: tc.Root, Kind: "fq_codel"}}
	p.diverted[2] = tc.Redirected{Others: 1}
	before, after := shapedConfig(t, ", shape: {down: 80Mbit, up: 8Mbit, overhead: pppoe-vdsl}"), shapedConfig(t, ", shape: {down: 40Mbit, up: 8Mbit, overhead: pppoe-vdsl}")

	k := New(nil, Options{})
	k.system = p
	words := strings.Join(planned(t, k, render(t, before)), "\n")
	if !strings.Contains(words, "replaces the queueing discipline htb of eth0, which is not Minne's") {
		t.Errorf("the preview says nothing of htb:\n%s", words)
	}
	k = applyTo(t, p, before)
	shapes := func() (done []string) {
		for _, d := range p.done {
			if strings.Contains(d, "cake") || strings.Contains(d, "ifb") || strings.Contains(d, "redirect") {
				done = append(done, d)
			}
		}
		p.done = nil
		return done
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := shapes(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, expected %q", what, got, want)
		}
	}
	expect("at first", "cake on eth0 1000000, in place false", "add ifb ifb-eth0", "cake on ifb-eth0 10000000, in place false", "redirect eth0 to ifb-eth0")
	up := tc.Cake{Rate: 1_000_000, Diffserv: tc.BestEffort, Flows: tc.DualSrcHost, NAT: true, Cells: tc.PTM, Overhead: 30, RTT: 100_000}
	if now := rootOf(p.queues, 2); now.Cake != up {
		t.Errorf("up is %+v, expected %+v", now.Cake, up)
	}
	apply(t, k, render(t, after))
	expect("a slower line", "cake on ifb-eth0 5000000, in place true", "redirect eth0 to ifb-eth0")

	// Somebody takes it all away.
	p.queues, p.diverted[2] = nil, tc.Redirected{Others: 1}
	r, err := k.Reassert(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	expect("after a hand", "cake on eth0 1000000, in place false", "cake on ifb-eth0 5000000, in place false", "redirect eth0 to ifb-eth0")
	if len(r.Repaired) != 2 || r.Repaired[0].Text != "the queueing discipline of eth0 was removed" ||
		r.Repaired[1].Text != "the queueing discipline of ifb-eth0 was removed; the filter that leads what eth0 receives to its shaper was removed" {
		t.Errorf("repaired %+v", r.Repaired)
	}
	apply(t, k, render(t, shapedConfig(t, "")))
	expect("unshaped", "no cake on eth0", "no redirect of eth0", "remove ifb-eth0")
}

// TestShapingWithoutCake: nothing is done on a kernel that lacks it, and the error says what to do.
func TestShapingWithoutCake(t *testing.T) {
	p := machine()
	p.noCake = true
	k := New(nil, Options{})
	k.system = p
	err := k.Apply(context.Background(), render(t, shapedConfig(t, ", shape: {up: 8Mbit}")))
	if err == nil || !strings.Contains(err.Error(), "sch_cake") || len(p.done) > 0 {
		t.Errorf("%v, done %q", err, p.done)
	}
	if _, err := k.Plan(context.Background(), render(t, shapedConfig(t, ", shape: {up: 8Mbit}"))); err == nil {
		t.Error("a preview says nothing of it")
	}
}

// TestIfbNames: they are different, and no longer than the kernel takes.
func TestIfbNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"wan", "elevenbytes", "twelve-bytes", "fifteen-bytes-a", "fifteen-bytes-b"} {
		ifb := ifbName(name)
		if len(ifb) > 15 || seen[ifb] {
			t.Errorf("%s: %s", name, ifb)
		}
		seen[ifb] = true
	}
}

// TestKernelLacksCake asks the kernel that runs, which changes nothing there.
func TestKernelLacksCake(t *testing.T) {
	lacks, err := tc.LacksCake()
	if err != nil {
		t.Fatal(err)
	}
	all, err := tc.Disciplines(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if now := rootOf(all, loopbackIndex); now != nil && now.Own() {
		t.Errorf("the question, answered by %v, left %+v", lacks, now)
	}
}
