// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"minne/internal/subsystem/flows"
)

func TestConnections(t *testing.T) {
	v := ConnectionsView{Used: 950_000, Max: 1_000_000, Buckets: 65536, Warning: "full", Trouble: flows.Trouble{EarlyDropped: 7, Dropped: 8, Invalid: 9},
		Timeouts: []ConnectionTimeout{{"tcp-established", 432000}, {"udp", 30}}}
	const want = `
Connections: 950,000 of 1,000,000 (95 %); about 362 MiB of memory now, 381 MiB when full; 65,536 buckets
Warning: full: minne show flows --by host --sort connections
Warning: too few buckets: each packet of the kernel's is looked for in long lists
The limit is that of the machine: this router, in a network namespace, does not set it
For want of room: 7 connections ended early, 8 packets dropped; invalid packets: 9

connections.timeouts  Forgotten after
tcp-established                    5d
udp                               30s
`
	var got strings.Builder
	if err := Connections(&got, v); err != nil || got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("%v\n%sexpected\n%s", err, got.String(), want)
	}
	got.Reset()
	if err := Connections(&got, ConnectionsView{}); err != nil || !strings.Contains(got.String(), "conntrack is not loaded") {
		t.Errorf("%v: %s", err, got.String())
	}
}
