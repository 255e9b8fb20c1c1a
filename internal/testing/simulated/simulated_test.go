// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"math"
	"testing"
	"time"

	"minne/internal/lab/trial"
)

func try(t *testing.T, d *Device, load trial.Load) trial.Result {
	t.Helper()
	r, err := d.Attempt(context.Background(), load)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDevices(t *testing.T) {
	second := func(rate float64) trial.Load { return trial.Load{Rate: rate, Duration: time.Second} }
	for _, c := range []struct {
		name     string
		device   Device
		load     trial.Load
		intended uint64
		sent     uint64
		received uint64
	}{
		{"below its capacity", Device{Capacity: 1000}, second(900), 900, 900, 900},
		{"above its capacity", Device{Capacity: 1000}, second(1500), 1500, 1500, 1000},
		{"a buffer helps", Device{Capacity: 1000, Buffer: 100}, second(1500), 1500, 1500, 1100},
		{"the tester cannot", Device{Capacity: 1000, TesterRate: 800}, second(900), 900, 800, 800},
		{"as fast as it can", Device{Capacity: 1000, TesterRate: 4000}, second(0), 4000, 4000, 1000},
		{"a burst that fits", Device{Capacity: 1000, Buffer: 50}, trial.Load{Rate: 2000, Frames: 100}, 100, 100, 100},
		{"a burst that does not", Device{Capacity: 1000, Buffer: 50}, trial.Load{Rate: 2000, Frames: 104}, 104, 104, 102},
		{"an outage of a quarter", Device{Capacity: 1000, Outages: []Outage{{500 * time.Millisecond, 250 * time.Millisecond}}},
			second(800), 800, 800, 600},
		{"tires in a long trial", Device{Capacity: 1000, Tires: 0.5, TiresAfter: time.Millisecond}, second(800), 800, 800, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := try(t, &c.device, c.load)
			if r.Intended != c.intended || r.Sent != c.sent || r.Received != c.received {
				t.Errorf("intended, sent, received %d, %d, %d: expected %d, %d, %d",
					r.Intended, r.Sent, r.Received, c.intended, c.sent, c.received)
			}
			if r.Latency.Count() != r.Received {
				t.Errorf("%d latencies of %d frames", r.Latency.Count(), r.Received)
			}
		})
	}
}

// The luck of a trial is that of its load and ordinal, whatever was tried between.
func TestLuckRepeats(t *testing.T) {
	shape := Device{Seed: 7, Capacity: 1e6, Fade: 0.01, SpikeRate: 1, SpikeSize: 100}
	load := trial.Load{Rate: 995e3, Duration: time.Second}
	a, b := shape, shape
	var first []uint64
	for range 20 {
		first = append(first, try(t, &a, load).Received)
	}
	differ := false
	for i, want := range first {
		try(t, &b, trial.Load{Rate: 900e3 + float64(i), Duration: time.Second})
		if got := try(t, &b, load).Received; got != want {
			t.Errorf("trial %d: received %d, first time %d", i, got, want)
		}
		differ = differ || want != first[0]
	}
	if !differ {
		t.Error("20 trials of a noisy device had the same outcome")
	}
}

func TestChanceIsEven(t *testing.T) {
	const n = 20000
	sum, squares := 0.0, 0.0
	for i := range uint64(n) {
		x := chance{seed: 3, load: 1000 + i%7, ordinal: i}.draw(i % 3)
		sum, squares = sum+x, squares+x*x
	}
	if mean, square := sum/n, squares/n; math.Abs(mean-0.5) > 0.01 || math.Abs(square-1.0/3) > 0.01 {
		t.Errorf("mean %g, mean square %g: expected 1/2 and 1/3", mean, square)
	}
}

func TestLatency(t *testing.T) {
	d := Device{Capacity: 1e6, Delay: time.Millisecond, Jitter: 100 * time.Microsecond}
	r := try(t, &d, trial.Load{Rate: 1e5, Duration: time.Second})
	for q, want := range map[float64]time.Duration{0.0001: time.Millisecond, 0.5: 1069 * time.Microsecond, 0.99: 1461 * time.Microsecond} {
		if got := r.Latency.Quantile(q); math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("quantile %g is %v: expected %v", q, got, want)
		}
	}
}

func TestSeriesShowsTheOutage(t *testing.T) {
	d := Device{Capacity: 1e6, Interval: time.Second, Outages: []Outage{{3500 * time.Millisecond, time.Second}}}
	r := try(t, &d, trial.Load{Rate: 1000, Duration: 10 * time.Second})
	if r.Silence != time.Second || r.Lost() != 1000 {
		t.Errorf("silence %v, lost %d: expected 1 s and 1000", r.Silence, r.Lost())
	}
	want := []uint64{1000, 1000, 1000, 500, 500, 1000, 1000, 1000, 1000, 1000}
	for i, p := range r.Series {
		if p.Received != want[i] {
			t.Errorf("second %d: %d frames, expected %d", i, p.Received, want[i])
		}
	}
}

func TestDeviceNeedsALoad(t *testing.T) {
	d := Device{Capacity: 1000}
	for _, load := range []trial.Load{{}, {Rate: 100}, {Duration: time.Second}} {
		if _, err := d.Attempt(context.Background(), load); err == nil {
			t.Errorf("load %+v was taken", load)
		}
	}
}
