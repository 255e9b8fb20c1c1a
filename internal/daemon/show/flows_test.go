// SPDX-License-Identifier: Apache-2.0

package show

import (
	"net/netip"
	"strings"
	"testing"

	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/flows"
)

func end(text string) flows.End {
	e := netip.MustParseAddrPort(text)
	return flows.End{Address: e.Addr(), Port: e.Port()}
}

func TestFlows(t *testing.T) {
	seen := end("198.51.100.1:40000")
	totals := flows.Totals{Packets: [2]uint64{1000, 3000}, Bytes: [2]uint64{64000, 4 << 20}, FastPath: 3000}
	rated := totals
	rated.Rate = &flows.Rate{Bits: [2]float64{12_500, 9.4e8}}
	for name, c := range map[string]struct {
		answer flows.Answer
		want   string
	}{
		"nothing": {flows.Answer{Connections: 12, By: flows.ByFlow}, "12 connections, 0 match\n"},
		"flows": {flows.Answer{Connections: 1234, Matched: 2, Uncounted: 1, Rows: 2, By: flows.ByFlow, Sort: flows.SortBytes, Sum: totals, Flows: []flows.Flow{{
			Protocol: "tcp", Source: end("192.0.2.10:40000"), Destination: end("203.0.113.5:443"), TranslatedSource: &seen,
			State: "established", Left: 431_990, Path: flows.PathFast, Totals: totals}}}, `
1,234 connections, 2 match; the top 1 of 2 flows by bytes, --top N for more
Proto  Source            Destination      Translated                 State            Left  Packets →      ←   Bytes →      ←  By
tcp    192.0.2.10:40000  203.0.113.5:443  source 198.51.100.1:40000  established  4d23h59m      1,000  3,000  62.5 KiB  4 MiB  fast path
1 of the connections began before the firewall did: the kernel does not count them
`},
		"ping": {flows.Answer{Connections: 1, Matched: 1, Rows: 1, By: flows.ByFlow, Flows: []flows.Flow{{
			Protocol: "icmp", ID: 7, Source: flows.End{Address: netip.MustParseAddr("192.0.2.10")}, Destination: flows.End{Address: netip.MustParseAddr("192.0.2.1")},
			State: "replied", Left: 29, Path: flows.PathKernel}}}, `
1 connection
Proto  Source      Destination     Translated  State        Left  Packets →  ←  Bytes →    ←  By
icmp   192.0.2.10  192.0.2.1 id 7  -           replied  00:00:29          0  0      0 B  0 B  kernel
`},
		"hosts": {flows.Answer{Connections: 5, Matched: 5, Rows: 1, By: flows.ByHost, Sum: rated, Hosts: []flows.Host{{
			Address: netip.MustParseAddr("192.0.2.10"), Zone: "lan", Connections: 5, Opened: 4, Totals: rated}}}, `
5 connections
Host        Zone  Connections  Opened  Packets sent  received  Bytes sent  received    Rate sent    received  Fast path
192.0.2.10  lan             5       4         1,000     3,000    62.5 KiB     4 MiB  12.5 kbit/s  940 Mbit/s       75 %
`},
	} {
		var got strings.Builder
		if err := Flows(&got, c.answer); err != nil || got.String() != strings.TrimPrefix(c.want, "\n") {
			t.Errorf("%s: %v\n%sexpected\n%s", name, err, got.String(), c.want)
		}
	}
}

func TestFlowsSummary(t *testing.T) {
	s := flows.Summary{Connections: 950, Capacity: 1000, IPv6: 50, Uncounted: 3,
		Translated: flows.TranslatedCounts{Source: 800, Destination: 12},
		Protocols: []flows.ProtocolStates{
			{Protocol: "tcp", Connections: 900, States: []flows.StateCount{{State: "established", Connections: 800}, {State: "time-wait", Connections: 100}}},
			{Protocol: "udp", Connections: 50, States: []flows.StateCount{{State: "assured", Connections: 50}}},
		},
		Zones:   []flows.Pair{{From: "lan", To: "wan", Connections: 950, Totals: flows.Totals{Packets: [2]uint64{40, 60}, FastPath: 95}}},
		Sum:     flows.Totals{Packets: [2]uint64{40, 60}, Bytes: [2]uint64{4096, 4096}, FastPath: 95},
		Trouble: flows.Trouble{EarlyDropped: 7, Dropped: 8, Invalid: 9},
		FastPath: &flows.FastPathSummary{Connections: 640, Kept: 1500, LostTableFull: 4, Table: flow.Stats{Capacity: 100_000, Entries: 650, Passive: 30, Bytes: 17 << 20, DepthMean: 1.034, DepthMax: 2,
			Counts: flow.Counts{Hits: 1_000_000, Misses: 2000, Stale: 10, Inserts: 1700, Active: 1020, LostRingFull: 3}}},
	}
	const want = `
Connections: 950 of 1,000 (95 %), 900 IPv4 and 50 IPv6; source NAT 800, destination NAT 12
The table is nearly full: minne show flows --by host --sort connections shows which hosts fill it
Their traffic: 100 packets, 8 KiB; 95 % of the packets by the fast path
Not counted: 3 of them, which are older than the firewall
Table full: 7 connections ended early, 8 packets dropped; invalid packets: 9

Protocol  Connections  States
tcp               900  established 800, time-wait 100
udp                50  assured 50

From  To   Connections  Packets →   ←  Bytes →    ←  Fast path
lan   wan          950         40  60      0 B  0 B       95 %

Fast path: 640 of the connections; its table has 650 of 100,000 flows (1 %) in 17 MiB
Lookups: hits 1,000,000, misses 2,000 (10 of them found a flow older than the last commit); depth mean 1.03, max 2
Flows: inserts 1,700, replaced 0; collected active 1,020 (FIN, RST), passive 30 (time)
Refused: full 0, unfair 0, crowded 0, raced 0
Ended flows: counters kept for 1,500 connections; counters lost: 4 flows (table full), 3 (ring full)
`
	var got strings.Builder
	if err := FlowsSummary(&got, s); err != nil || got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("%v\n%sexpected\n%s", err, got.String(), want)
	}
	got.Reset()
	if err := FlowsSummary(&got, flows.Summary{}); err != nil || !strings.Contains(got.String(), "conntrack is not loaded") {
		t.Errorf("%v: %s", err, got.String())
	}
}
