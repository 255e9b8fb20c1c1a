// SPDX-License-Identifier: Apache-2.0

package flowlogbench

import (
	"fmt"
	"testing"
)

// Every record that is asked for is found, with its time and without.
func TestLogOfACampus(t *testing.T) {
	t.Parallel()
	l, err := Fill(t.Context(), t.TempDir(), 3*keptEvery)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if len(l.kept) < 3 || l.Records < 3*keptEvery {
		t.Fatalf("%d kept of %d", len(l.kept), l.Records)
	}
	for i := range l.kept {
		for _, at := range []bool{true, false} {
			if _, _, err := l.Ask(t.Context(), i, at); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.AskInVain(t.Context(), i); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%.1f bytes for a record", l.PerRecord())
}

// BenchmarkWhoWasThat asks logs of two sizes. B/record is on the disk; s/100M is the time over a log ten or a hundred times as
// large, if all of it grew with the number of records: the block that has the answer is read once, however large the log is.
func BenchmarkWhoWasThat(b *testing.B) {
	for _, records := range []int{1_000_000, 10_000_000} {
		l, err := Fill(b.Context(), b.TempDir(), records)
		if err != nil {
			b.Fatal(err)
		}
		for _, at := range []bool{false, true} {
			b.Run(fmt.Sprintf("records=%d/time=%v", records, at), func(b *testing.B) {
				which, read := 0, 0
				for b.Loop() {
					_, blocks, err := l.Ask(b.Context(), which*7, at)
					if err != nil {
						b.Fatal(err)
					}
					which, read = which+1, read+blocks
				}
				b.ReportMetric(l.PerRecord(), "B/record")
				b.ReportMetric(float64(read)/float64(b.N), "blocks/op")
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e8/float64(l.Records), "s/100M")
			})
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
