// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// shortest is as short as an experiment can be with everything in it.
var shortest = pace{trial: 50 * time.Millisecond, repeat: 1, sizes: []int{64, 768, 1518}, warmUp: -1, rounds: 2, turns: 2, turn: 60 * time.Millisecond, soak: time.Second}

// means are those of a minne command built for the test.
func means(t *testing.T) device.Means {
	t.Helper()
	return device.Means{Binary: testbuild.Minne(t, t.TempDir()), Load: kernel.BulkRoutes}
}

func begin(t *testing.T) *session.Session {
	t.Helper()
	s, err := session.Begin(session.Options{Title: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counts are how many figures a preset leaves in the ordinary sections.
type counts struct{ devices, mrr, comparisons, soak int }

// Every preset runs from beginning to end, and each row gets a figure. How large
// they are is the machine's business, but they are of the right order: what
// forwards nothing, or a unit that is a thousand times off, is a mistake.
func TestEveryPresetMeasuresAllItsRows(t *testing.T) {
	m := means(t)
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			want := map[string]counts{
				"figure6": {2, 6, 0, 0}, "fib-trie": {4, 0, 7, 0}, "multi-queue": {2, 2, 0, 0}, "flow-load": {2, 8, 2, 0},
				"cross-ping": {2, 0, 2, 0}, "tx": {1, 2, 2, 0}, "soak": {1, 0, 0, 1},
			}[p.Name]
			s := begin(t)
			r, err := s.End(p.runAt(t.Context(), s, m, shortest))
			if err != nil {
				t.Fatal(err)
			}
			got := counts{len(r.Devices), len(r.MRR), len(r.Comparisons), len(r.Soak)}
			if got != want || len(r.Papers) != 1 || r.Tester.Mode == "" {
				t.Errorf("%+v in the sections and %d papers, expected %+v and 1; tester %+v", got, len(r.Papers), want, r.Tester)
			}
			paper := r.Papers[0]
			if paper.Name != p.Name || paper.Comparable == "" || paper.Not == "" || paper.Source == "" || len(paper.Rows) != len(p.rows) {
				t.Errorf("the paper is %+v", paper)
			}
			for _, row := range paper.Rows {
				if row.Missing == notReached && unmeasuredSize(row.What) {
					continue
				}
				plausible(t, row)
			}
		})
	}
}

// unmeasuredSize tells the rows of figure6 that the shortest pace leaves out.
func unmeasuredSize(what string) bool {
	for _, size := range appendixB {
		if !slices.Contains(shortest.sizes, size) && strings.HasPrefix(what, otherSize(size)+",") {
			return true
		}
	}
	return false
}

// bounds of what a machine can come to, by unit.
var bounds = map[string][2]float64{
	"kpps": {0.1, 100e3}, "Mpps": {0.001, 100}, "Mbit/s": {1, 1e6}, "Gbit/s": {0.001, 1000}, "per second": {1, 1e6}, "IPv4 routes": {271064, 271080},
}

func plausible(t *testing.T, row result.PaperRow) {
	t.Helper()
	if row.Missing != "" {
		t.Errorf("%s: not measured: %s", row.What, row.Missing)
		return
	}
	limits, known := bounds[row.Unit]
	if known && (row.Measured < limits[0] || row.Measured > limits[1]) || math.IsNaN(row.Measured) || row.Low > row.High {
		t.Errorf("%s: %g (%g to %g) %s: expected %g to %g", row.What, row.Measured, row.Low, row.High, row.Unit, limits[0], limits[1])
	}
}

// An interrupted run leaves what it measured, and says of the rest that it lacks it.
func TestInterruptedPresetKeepsWhatItMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := begin(t)
	cable := transmit
	cable.run = func(ctx context.Context, e *experiment) error {
		e.found(tx64Port, exactly(1))
		cancel()
		return transmit.run(ctx, e)
	}
	r, err := s.End(cable.runAt(ctx, s, device.Means{}, shortest))
	if !errors.Is(err, context.Canceled) || r.Partial == "" {
		t.Errorf("error %v, partial %q", err, r.Partial)
	}
	for _, row := range r.Papers[0].Rows {
		if (row.What == tx64Port) != (row.Missing == "") || row.What != tx64Port && !strings.Contains(row.Missing, "ended before") {
			t.Errorf("%+v", row)
		}
	}
}

func benchEnds() pattern.Ends { return pattern.BenchmarkEnds() }

func interval(median, low, high float64) result.Interval {
	return result.Interval{Median: median, Low: low, High: high}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
