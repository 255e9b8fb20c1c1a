// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
	"minne/internal/testing/simulated"
)

// tiring is a device that forwards by the hour less, and now and then nothing for a while.
type tiring struct {
	simulated.Device
	perHour float64
	full    float64 // capacity at the start
	noise   float64 // relative
	random  *rand.Rand
}

func (d *tiring) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	d.Capacity = d.full * (1 + d.perHour*d.Now().Hours() + d.noise*d.random.NormFloat64())
	return d.Device.Attempt(ctx, load)
}

func TestSoakSaysWhetherADeviceTires(t *testing.T) {
	for _, c := range []struct {
		name     string
		perHour  float64
		noise    float64
		rate     float64
		duration time.Duration
		real     bool
	}{
		{"steady, below its capacity", 0, 0, 5e5, time.Hour, false},
		{"steady, overloaded", 0, 0, 2e6, time.Hour, false},
		{"noisy", 0, 0.01, 2e6, 4 * time.Hour, false},
		{"tires", -0.01, 0, 2e6, time.Hour, true},
		{"tires, within noise", -0.0002, 0.01, 2e6, 4 * time.Hour, false},
		{"tires, beyond noise", -0.005, 0.005, 2e6, 10 * time.Hour, true},
		{"gets better", 0.02, 0.001, 2e6, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			device := &tiring{full: 1e6, perHour: c.perHour, noise: c.noise, random: rand.New(rand.NewPCG(5, 6))}
			updates := 0
			found, err := Soak(background, engine(device), SoakOptions{Subject: subject, Load: c.rate, Duration: c.duration, Trial: c.duration / 500,
				Update: func(result.Soak) { updates++ }})
			if err != nil {
				t.Fatal(err)
			}
			told := !strings.Contains(found.Verdict, "no drift beyond noise")
			if told != c.real || found.DriftLow > found.Drift || found.DriftHigh < found.Drift {
				t.Errorf("drift %g (%g to %g), %q: expected drift: %v", found.Drift, found.DriftLow, found.DriftHigh, found.Verdict, c.real)
			}
			if c.real && math.Abs(found.Drift-c.perHour) > 0.1*math.Abs(c.perHour)+0.0002 {
				t.Errorf("drift %g per hour: expected %g", found.Drift, c.perHour)
			}
			if found.Steady != (c.rate < 1e6) {
				t.Errorf("steady %v with %d lost", found.Steady, found.Lost)
			}
			if updates != device.Trials() || len(found.Series) != device.Trials() {
				t.Errorf("%d updates, %d points of %d trials", updates, len(found.Series), device.Trials())
			}
		})
	}
}

func TestFalseAlarmsOfDriftAreRare(t *testing.T) {
	alarms, random := 0, rand.New(rand.NewPCG(1, 1))
	for range 200 {
		rates, spell := make([]rate, 1000), 0.0
		for i := range rates { // noise that lasts: each is half of the one before
			spell = 0.5*spell + random.NormFloat64()
			rates[i] = rate{hours: float64(i) / 100, value: 1000 + spell}
		}
		if findDrift(rates).real {
			alarms++
		}
	}
	if alarms > 4 {
		t.Errorf("%d of 200 devices without drift are said to drift: expected 2 %% at most", alarms)
	}
}

func TestSoakCountsLossAndTellsTheMachinesShare(t *testing.T) {
	device := &simulated.Device{Capacity: 1e6, Delay: time.Millisecond, Outages: []simulated.Outage{{From: 21 * time.Second, For: time.Second}}}
	found, err := Soak(background, engine(device), SoakOptions{Subject: subject, Load: 1000, Duration: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if found.Lost != 1000 || found.Steady || !strings.Contains(found.Verdict, "1000 of 120000 frames lost, in 1 of 24 intervals") {
		t.Errorf("lost %d, steady %v, %q: expected 1000", found.Lost, found.Steady, found.Verdict)
	}
	if p := found.Series[23]; p.At != 2*time.Minute || p.Sent != 5000 || p.Received != 5000 || !near(p.Latency.Seconds(), 0.001, 0.01) {
		t.Errorf("last point %+v", p)
	}
	// The same loss in a trial from which the machine took a second is not held against the device.
	device = &simulated.Device{Capacity: 1e6, GapEvery: 5, GapTime: time.Second, Outages: []simulated.Outage{{From: 21 * time.Second, For: time.Second}}}
	found, err = Soak(background, engine(device), SoakOptions{Load: 1000, Duration: 2 * time.Minute})
	if err != nil || found.Lost != 1000 || !found.Steady || !strings.Contains(found.Verdict, "the machine disturbed 1 intervals, in which 1000") {
		t.Errorf("lost %d, steady %v, %q, error %v: expected an excuse", found.Lost, found.Steady, found.Verdict, err)
	}
}

func TestSoakOfAFewTrialsSaysNothingOfDrift(t *testing.T) {
	found, err := Soak(background, engine(&simulated.Device{Capacity: 1e6}), SoakOptions{Load: 1000, Duration: 9 * time.Second, Trial: time.Second})
	if err != nil || found.Steady || !strings.Contains(found.Verdict, "too short") {
		t.Errorf("steady %v, %q, error %v: expected that it was too short", found.Steady, found.Verdict, err)
	}
}

func TestSoakSeriesIsBounded(t *testing.T) {
	const trials = 5001
	found, err := Soak(background, engine(&simulated.Device{Capacity: 1e6}), SoakOptions{Load: 1000, Duration: trials * time.Second, Trial: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(found.Series); n > mostPoints || n < mostPoints/2 {
		t.Errorf("%d points: expected %d at most, and no less than half of that", n, mostPoints)
	}
	total, last := uint64(0), time.Duration(0)
	for _, p := range found.Series {
		total += p.Received
		if p.At <= last {
			t.Fatalf("point at %v after one at %v", p.At, last)
		}
		last = p.At
	}
	if total != trials*1000 || last != trials*time.Second {
		t.Errorf("%d frames until %v: expected %d and %v", total, last, trials*1000, trials*time.Second)
	}
}
