// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
)

// A spanning tree is set before it is switched on, put right when somebody changes it, and what the file names no more goes back.
func TestASpanningTree(t *testing.T) {
	p := ports()
	n := func(v int) *int { return &v }
	all := map[string]*config.Interface{"eth2": {}, "eth3": {}, "lan": {Bridge: &config.Bridge{Ports: []string{"eth2", "eth3"}, STP: true, STPPriority: n(4096),
		Hello: config.Duration(time.Second), MaxAge: config.Duration(6 * time.Second), ForwardDelay: config.Duration(4 * time.Second),
		STPPorts: map[string]*config.STPPort{"eth3": {Cost: 7, Priority: n(64)}}}}}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, named(all)))
	for _, want := range []string{"~ bridge priority of lan: 32768 → 4096", "~ spanning tree times of lan: 2 s, 20 s, 15 s → 1 s, 6 s, 4 s", "~ spanning tree of lan: off → on",
		"~ path cost of eth3: by its speed → 7", "~ port priority of eth3: 128 → 64"} {
		expectLine(t, lines, want)
	}
	apply(t, k, render(t, named(all)))
	lan := p.devices[len(p.devices)-1].Index
	if on, priority := slices.Index(p.done, "bridge lan: 5 = 1"), slices.Index(p.done, "bridge lan: 6 = 4096"); on < priority || priority < 0 {
		t.Errorf("it is switched on before it is set: %q", p.done)
	}
	if p.now.ports[11].Cost != 7 || p.now.ports[11].Priority != 64 {
		t.Errorf("%+v", p.now.ports[11])
	}

	port, tree := p.now.ports[11], p.now.trees[lan]
	port.Cost, port.Priority, tree.Priority, tree.Times = 100, 128, 32768, usualTimes
	p.now.ports[11], p.now.trees[lan] = port, tree
	rep := reassert(t, k)
	for _, want := range []Finding{{"port eth3", "path cost of eth3 was changed to 100"}, {"port eth3", "port priority of eth3 was changed to 128"},
		{"interface lan", "bridge priority of lan was changed to 32768"}, {"interface lan", "spanning tree times of lan were changed to 2 s, 20 s, 15 s"}} {
		if !slices.ContainsFunc(rep.Repaired, func(f Finding) bool { return f.Text == want.Text }) {
			t.Errorf("no %v in %v", want, rep.Repaired)
		}
	}

	// Below a root, the times in force are the root's, and the bridge's own can't be read: that is no change.
	tree = p.now.trees[lan]
	tree.Root, tree.Times = bridgeID{1}, treeTimes{2, 20, 15}
	p.now.trees[lan] = tree
	if left := planned(t, k, render(t, named(all))); len(left) != 0 {
		t.Errorf("below a root: %q", left)
	}
	all["lan"].Bridge.ForwardDelay = config.Duration(5 * time.Second)
	expectLine(t, planned(t, k, render(t, named(all))), "~ spanning tree times of lan: 1 s, 6 s, 4 s → 1 s, 6 s, 5 s")
	apply(t, k, render(t, named(all)))
	if left := planned(t, k, render(t, named(all))); len(left) != 0 {
		t.Errorf("below a root, after a change: %q", left)
	}

	all["lan"].Bridge.STPPorts = nil
	lines = planned(t, k, render(t, named(all)))
	expectLine(t, lines, "~ path cost of eth3: 7 → 100")
	expectLine(t, lines, "~ port priority of eth3: 64 → 128")
	apply(t, k, render(t, named(all)))
	port = p.now.ports[11]
	port.Cost = 4 // the kernel has found another speed
	p.now.ports[11] = port
	all["lan"].Bridge.STP = false
	if lines = planned(t, k, render(t, named(all))); strings.Join(lines, ";") != "~ spanning tree of lan: on → off" {
		t.Errorf("%q", lines)
	}
	if err := k.Apply(context.Background(), render(t, named(all))); err != nil {
		t.Fatal(err)
	}
}

// The kernel tells no role: it follows from who is the root, and who sends the best announcements on the cable.
func TestRolesOfPorts(t *testing.T) {
	own, other := bridgeID{0x80, 0, 2, 0, 0, 0, 0, 1}, bridgeID{0x10, 0, 2, 0, 0, 0, 0, 2}
	below := tree{On: true, Own: own, Root: other, RootPort: 1}
	for _, c := range []struct {
		of   tree
		port treePort
		want string
	}{
		{below, treePort{State: "forwarding", Number: 1, ID: 0x8001, Designated: other, DesignatedPortOfIt: 0x8005}, "root"},
		{below, treePort{State: "blocking", Number: 2, ID: 0x8002, Designated: other, DesignatedPortOfIt: 0x8006}, "alternate"},
		{below, treePort{State: "listening", Number: 3, ID: 0x8003, Designated: own, DesignatedPortOfIt: 0x8003}, "designated"},
		{below, treePort{State: "blocking", Number: 4, ID: 0x8004, Designated: own, DesignatedPortOfIt: 0x8003}, "backup"},
		{below, treePort{State: "disabled", Number: 5, ID: 0x8005, Designated: own, DesignatedPortOfIt: 0x8005}, ""},
		{tree{On: true, Own: own, Root: own}, treePort{State: "forwarding", Number: 1, ID: 0x8001, Designated: own, DesignatedPortOfIt: 0x8001}, "designated"},
		{tree{Own: own, Root: own}, treePort{State: "forwarding", Number: 1, ID: 0x8001, Designated: own, DesignatedPortOfIt: 0x8001}, ""},
	} {
		if got := c.port.role(c.of); got != c.want {
			t.Errorf("%+v: %q, want %q", c.port, got, c.want)
		}
	}
	if text := other.String(); text != "4096.02:00:00:00:00:02" {
		t.Error(text)
	}
}
