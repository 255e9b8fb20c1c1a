// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
)

// BenchmarkTable asks about full tables: go test -bench Table ./internal/flows. heap-bytes is
// what a question needs at most beside its answer, as the collector sees it.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{65_536, 262_144} {
		fill(b, n)
		var fast pretended
		var ended []flow.Ended
		for i := range n {
			k := masqueraded(i).Key[0]
			ended = append(ended, flow.Ended{Key: k, Packets: [2]uint64{5, 5}, Bytes: [2]uint64{500, 500}, At: time.Now()})
			fast.flows = append(fast.flows, flow.Flow{Key: [2]flow.Key{masqueraded(i).Key[0]}, Packets: [2]uint64{5, 5}, Bytes: [2]uint64{500, 500}})
		}
		for _, c := range []struct {
			name  string
			q     Question
			fast  FastPath
			ended []flow.Ended
		}{
			{"kernel", Question{By: ByFlow, Sort: SortBytes, Top: 20}, nil, nil},
			{"flow", Question{By: ByFlow, Sort: SortBytes, Top: 20}, &fast, nil},
			{"ended", Question{By: ByFlow, Sort: SortBytes, Top: 20}, &pretended{}, ended},
			{"host", Question{By: ByHost, Sort: SortBytes, Top: 20}, &fast, nil},
			{"zone", Question{By: ByZone, Sort: SortBytes, Top: 20}, &fast, nil},
			{"rate", Question{By: ByFlow, Sort: SortRate, Top: 20}, &fast, nil},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				table := New(c.fast, func() map[string]string { return map[string]string{"lo": "lan"} })
				table.pause = 0
				table.ended.pruned = time.Now().Add(time.Hour)
				start := time.Now()
				for i := range c.ended {
					table.FlowEnded(c.ended[i])
				}
				took := time.Since(start)
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				before, most := m.HeapAlloc, uint64(0)
				for b.Loop() {
					a, err := table.List(b.Context(), c.q)
					if err != nil || a.Matched != n {
						b.Fatalf("%d of %d: %v", a.Matched, n, err)
					}
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc-min(m.HeapAlloc, before))
				}
				b.ReportMetric(float64(most), "heap-bytes")
				if len(c.ended) > 0 {
					b.ReportMetric(float64(took.Nanoseconds())/float64(len(c.ended)), "keep-ns/flow")
				}
			})
		}
		b.Run(fmt.Sprintf("%d/library", n), func(b *testing.B) {
			for b.Loop() {
				list, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
				if err != nil || len(list) != n {
					b.Fatalf("%d of %d: %v", len(list), n, err)
				}
			}
		})
	}
}
