// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"minne/internal/subsystem/kernel"
)

// Trees as a bridge below a root has them, as the root has them, and of a bridge without one.
func TestSpanningTree(t *testing.T) {
	const own, far = "32768.02:00:00:00:00:01", "4096.02:00:00:00:00:02"
	var b strings.Builder
	err := SpanningTree(&b, SpanningTreeView{Bridges: []kernel.SpanningTree{
		{Bridge: "lan", On: true, ID: own, Root: far, RootPort: "eth1", RootCost: 4, Hello: 2, MaxAge: 20, ForwardDelay: 15, Changing: true, Ports: []kernel.TreePort{
			{Port: "eth1", Role: "root", State: "forwarding", Cost: 4, Priority: 128, Designated: far},
			{Port: "eth2", State: "disabled", Cost: 200, Priority: 64, Designated: own},
		}},
		{Bridge: "lab", ID: own, Root: own, IsRoot: true},
		{Bridge: "top", On: true, ID: own, Root: own, IsRoot: true, Hello: 1.5, MaxAge: 6, ForwardDelay: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `lan: 32768.02:00:00:00:00:01
  root: 4096.02:00:00:00:00:02, by port eth1, cost 4
  hello 2 s, max age 20 s, forward delay 15 s
  topology change: MAC addresses are forgotten fast
Port  Role  State       Cost  Priority  Designated bridge
eth1  root  forwarding     4       128  4096.02:00:00:00:00:02
eth2  -     disabled     200        64  32768.02:00:00:00:00:01

lab: spanning tree off

top: 32768.02:00:00:00:00:01
  root: this bridge
  hello 1.5 s, max age 6 s, forward delay 4 s
Port  Role  State  Cost  Priority  Designated bridge
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}
