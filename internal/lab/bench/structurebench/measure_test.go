// SPDX-License-Identifier: Apache-2.0

package structurebench

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"minne/internal/subsystem/fastpath/choice"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func figure(s fib.Structure, low, middle, high float64) choice.Figure {
	return choice.Figure{Structure: s.String(), Ns: 40 * middle, ToDefault: choice.Interval{Low: low, Median: middle, High: high},
		Image: int(fib.Layout4(s, fib.Full).ImageBytes())}
}

func TestDecide(t *testing.T) {
	standard := figure(fib.Range18, 1, 1, 1)
	for _, c := range []struct {
		name   string
		others []choice.Figure
		want   fib.Structure
	}{
		{"nothing else", nil, fib.Range18},
		{"slower ones", []choice.Figure{figure(fib.Range16, 1.0, 1.1, 1.2), figure(fib.Direct24, 2, 3, 4)}, fib.Range18},
		{"surely faster", []choice.Figure{figure(fib.Range16, 0.7, 0.8, 0.9)}, fib.Range16},
		{"perhaps faster", []choice.Figure{figure(fib.Range16, 0.7, 0.8, 0.97)}, fib.Range18},
		{"hardly faster", []choice.Figure{figure(fib.Range16, 0.95, 0.96, 0.97)}, fib.Range18},
		{"larger, and not much faster", []choice.Figure{figure(fib.Range20, 0.8, 0.85, 0.9)}, fib.Range18},
		{"larger, and much faster", []choice.Figure{figure(fib.Range20, 0.5, 0.6, 0.7)}, fib.Range20},
		{"the fastest of several", []choice.Figure{figure(fib.Range16, 0.7, 0.8, 0.9), figure(fib.Direct24, 0.4, 0.5, 0.6), figure(fib.Range20, 0.6, 0.7, 0.75)}, fib.Direct24},
	} {
		if got := decide(append([]choice.Figure{standard}, c.others...)); got != c.want.String() {
			t.Errorf("%s: %s, expected %s", c.name, got, c.want)
		}
	}
}

func TestRoutesForMemory(t *testing.T) {
	if _, err := routesFor(128 << 20); !errors.Is(err, errSmall) {
		t.Errorf("128 MiB: %v, expected that nothing is measured", err)
	}
	if n, err := routesFor(1 << 30); err != nil || n < 200_000 || n*bytesPerRoute > 1<<27 {
		t.Errorf("1 GiB: %d routes, %v", n, err)
	}
}

// TestMeasure measures for real and looks whether the answer is whole.
func TestMeasure(t *testing.T) {
	s := choice.NewStore(t.TempDir(), t.TempDir(), "1.0", slog.New(slog.DiscardHandler))
	c, err := Measure(context.Background(), "1.0", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	_, memory := choice.Here("1.0")
	if len(c.Figures) != len(choice.Candidates(memory)) || c.Figures[0].Structure != fib.Default.String() {
		t.Errorf("figures %+v", c.Figures)
	}
	if c.Structure != decide(c.Figures) {
		t.Errorf("chosen is %s, expected %s", c.Structure, decide(c.Figures))
	}
	if err := s.Write(c); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := s.Read(); err != nil || !fresh {
		t.Errorf("what was measured a moment ago: fresh %v, %v", fresh, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, "1.0", func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
