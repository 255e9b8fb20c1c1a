// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/fastpath/flow"
)

// BenchmarkTable asks about full tables: go test -bench Table ./internal/flows. heap-bytes is
// what a question needs at most beside its answer, as the collector sees it.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{65_536, 262_144} {
		fill(b, n)
		var fast pretended
		for i := range n {
			fast.flows = append(fast.flows, flow.Flow{Key: [2]flow.Key{masqueraded(i).Key[0]}, Packets: [2]uint64{5, 5}, Bytes: [2]uint64{500, 500}})
		}
		for _, c := range []struct {
			name string
			q    Question
			fast FastPath
		}{
			{"kernel", Question{By: ByFlow, Sort: SortBytes, Top: 20}, nil},
			{"flow", Question{By: ByFlow, Sort: SortBytes, Top: 20}, &fast},
			{"host", Question{By: ByHost, Sort: SortBytes, Top: 20}, &fast},
			{"zone", Question{By: ByZone, Sort: SortBytes, Top: 20}, &fast},
			{"rate", Question{By: ByFlow, Sort: SortRate, Top: 20}, &fast},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				table := New(c.fast, func() map[string]string { return map[string]string{"lo": "lan"} })
				table.pause = 0
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
