// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"testing"

	"minne/internal/model/packet"
)

// A table that is full keeps what it has; other connections are the kernel's, and
// lose nothing by it. When those in the table end, there is room for others.
func TestTableFull(t *testing.T) {
	tw := newTwinsWith(t, "mode: auto, flows: 256, guard: {mode: off}")
	flows := tw.newFlows(40)
	tw.establish(flows)
	said := func(what string, flows []*flow) (carried, sent uint64) {
		before := tw.fast.carried("lan")
		for side := range 2 {
			tw.step(what, flows, func(f *flow) frame {
				if f.who[side].port == lan {
					sent++
				}
				return f.say(side, text)
			}, nil)
		}
		return tw.fast.carried("lan") - before, sent
	}
	carried, sent := said("more flows than the table takes", flows)
	if carried < 64 || carried > sent/2 {
		t.Errorf("the fast path carried %d of %d packets, want those of 256 flows or so", carried, sent)
	}
	var tcp []*flow
	for _, f := range flows {
		if f.protocol == packet.ProtoTCP {
			tcp = append(tcp, f)
		}
	}
	tw.step("RST", tcp, func(f *flow) frame { return f.tcp(0, packet.RST) }, nil)
	later := tw.newFlows(2)
	tw.establish(later)
	if carried, sent := said("flows after others ended", later); carried < sent/4 {
		t.Errorf("the fast path carried %d of %d packets after others made room", carried, sent)
	}
}
