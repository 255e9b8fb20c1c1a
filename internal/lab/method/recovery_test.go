// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"minne/internal/lab/trial"
	"minne/internal/testing/simulated"
)

// live is a device whose trials last until the event has happened.
type live struct {
	device  simulated.Device
	event   chan struct{}
	prepare time.Duration // of the bench, before it sends
	sends   atomic.Bool
}

func (l *live) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	if l.prepare > 0 {
		time.Sleep(l.prepare)
		l.sends.Store(true)
	}
	trial.Sending(ctx)
	select {
	case <-ctx.Done():
		return trial.Result{}, ctx.Err()
	case <-l.event:
		return l.device.Attempt(ctx, load)
	}
}

// happen is the event.
func (l *live) happen(ctx context.Context) error {
	l.event <- struct{}{}
	return nil
}

func resetOptions(l *live) ResetOptions {
	return ResetOptions{Subject: subject, Name: "daemon restart", Event: l.happen, Rate: 1e4, Before: time.Millisecond, After: 10 * time.Second}
}

func TestResetFindsTheOutageByBothMethods(t *testing.T) {
	// Trials last 10.001 s and their drains 0.1 s: an outage in each, of 500, 300 and 400 ms.
	l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6, Outages: []simulated.Outage{
		{From: 5 * time.Second, For: 500 * time.Millisecond},
		{From: 15 * time.Second, For: 300 * time.Millisecond},
		{From: 25 * time.Second, For: 400 * time.Millisecond},
	}}}
	ready := 0
	o := resetOptions(l)
	o.Ready = func(context.Context) error { ready++; return nil }
	found, err := Reset(background, engine(l), o)
	if err != nil || len(found) != 2 || ready != 3 {
		t.Fatalf("%d results, ready asked %d times, error %v: expected 2, 3", len(found), ready, err)
	}
	for i, method := range []string{"frame loss", "time stamp"} {
		r := found[i]
		if r.Method != method || r.Event != "daemon restart" || r.Load != 1e4 || r.Lost[0] != 5000 {
			t.Errorf("result %d: %+v", i, r)
		}
		if !near(r.Outage.Seconds(), 0.4, 0.001) || !near(r.Each[0].Seconds(), 0.5, 0.001) || !near(r.Each[1].Seconds(), 0.3, 0.001) {
			t.Errorf("%s: outage %v of %v: expected 0.4 s of 0.5, 0.3, 0.4", method, r.Outage, r.Each)
		}
	}
}

func TestResetWithoutAnOutage(t *testing.T) {
	l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6}}
	found, err := Reset(background, engine(l), resetOptions(l))
	if err != nil || found[0].Outage != 0 || found[1].Outage != 0 || len(found[0].Each) != 3 {
		t.Errorf("found %+v, error %v: expected no outage three times", found, err)
	}
}

func TestResetLeavesUnsentFramesOut(t *testing.T) {
	l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6, TesterRate: 8e3}}
	found, err := Reset(background, engine(l), resetOptions(l))
	if err != nil || found[0].Lost[0] != 0 || found[0].Outage != 0 {
		t.Errorf("lost %v, error %v: expected none, the tester is slow", found[0].Lost, err)
	}
}

func TestResetFails(t *testing.T) {
	broken := errors.New("systemctl: no such unit")
	for _, c := range []struct {
		name   string
		change func(*ResetOptions, *live)
		values int
		says   string
	}{
		{"the event fails", func(o *ResetOptions, _ *live) { o.Event = func(context.Context) error { return broken } }, 0, "no such unit"},
		{"the device never comes back", func(_ *ResetOptions, l *live) {
			l.device.Outages = []simulated.Outage{{From: time.Millisecond, For: time.Hour}}
		}, 2, "did not forward again within 10s"},
		{"the device is not ready", func(o *ResetOptions, _ *live) { o.Ready = func(context.Context) error { return broken } }, 0, "before daemon restart"},
		{"the event takes too long", func(o *ResetOptions, l *live) {
			o.After = time.Millisecond
			o.Event = func(ctx context.Context) error { time.Sleep(2 * time.Millisecond); return l.happen(ctx) }
		}, 0, "longer than the stream"},
		{"the device forwards wrongly", func(_ *ResetOptions, l *live) { l.device.BadMAC = 1 }, 0, "MAC address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6}}
			o := resetOptions(l)
			c.change(&o, l)
			found, err := Reset(background, engine(l), o)
			if err == nil || !strings.Contains(err.Error(), c.says) || len(found) != c.values {
				t.Errorf("%d results, error %v: expected %d and %q", len(found), err, c.values, c.says)
			}
		})
	}
}

// A bench that takes longer to prepare than traffic runs before the event must not be
// disturbed by the event while it prepares.
func TestResetWaitsForTheStreamNotForTheBench(t *testing.T) {
	l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6}, prepare: 50 * time.Millisecond}
	o := resetOptions(l)
	o.Repeat = 1
	o.Event = func(ctx context.Context) error {
		if !l.sends.Load() {
			t.Error("the event came before the stream")
		}
		return l.happen(ctx)
	}
	if _, err := Reset(background, engine(l), o); err != nil {
		t.Error(err)
	}
}

func TestResetInterruptedKeepsRepetitionsThatAreOver(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	l := &live{event: make(chan struct{}), device: simulated.Device{Capacity: 1e6}}
	o := resetOptions(l)
	o.Event = func(ctx context.Context) error {
		if l.device.Trials() == 1 {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		return l.happen(ctx)
	}
	found, err := Reset(ctx, engine(l), o)
	if !errors.Is(err, context.Canceled) || len(found) != 2 || len(found[0].Each) != 1 {
		t.Errorf("found %+v, error %v: expected one repetition and the error of the context", found, err)
	}
}

// slope is a device that recovers some time after the load has fallen, in each
// repetition another; the machine disturbs the first repetition.
type slope struct {
	simulated.Device
	recoveries []time.Duration
	loads      []trial.Load
}

func (s *slope) AttemptSteps(ctx context.Context, loads []trial.Load) ([]trial.Result, error) {
	s.loads = loads
	steps, err := attemptSteps(ctx, s, loads, s.recoveries[0])
	if err == nil {
		r := &steps[1]
		r.Received -= uint64(s.recoveries[0].Seconds() * r.Rate)
		if s.Trials() == 2 {
			r.Void = "gaps"
		}
		s.recoveries = s.recoveries[1:]
	}
	return steps, err
}

func TestOverload(t *testing.T) {
	ms := time.Millisecond
	device := &slope{Device: simulated.Device{Capacity: 1e6}, recoveries: []time.Duration{900 * ms, 30 * ms, 10 * ms, 20 * ms}}
	found, err := Overload(background, engine(device), OverloadOptions{Subject: subject, Throughput: 1e6, MaxLoad: 2e6})
	if err != nil || found.Outage != 20*ms || len(found.Each) != 3 || found.Each[0] != 30*ms || found.Lost[0] != 15000 {
		t.Errorf("found %+v, error %v: expected 20 ms, the median of the three that count", found, err)
	}
	want := [2]trial.Load{{Rate: 1.1e6, Duration: time.Minute}, {Rate: 5e5, Duration: 10 * time.Second}}
	if !near(device.loads[0].Rate, want[0].Rate, 1e-9) || device.loads[0].Duration != want[0].Duration || device.loads[1] != want[1] {
		t.Errorf("loads %+v: expected %+v", device.loads, want)
	}
	device.recoveries = []time.Duration{9999 * ms}
	if _, err = Overload(background, engine(device), OverloadOptions{Throughput: 1e6, MaxLoad: 1.05e6}); err == nil || !strings.Contains(err.Error(), "still lost") {
		t.Errorf("error %v: expected that the device does not recover", err)
	}
	if device.loads[0].Rate != 1.05e6 {
		t.Errorf("overload of %g: expected no more than the tester can", device.loads[0].Rate)
	}
	if _, err := Overload(background, engine(&simulated.Device{Capacity: 1e6}), OverloadOptions{Throughput: 1e6, MaxLoad: 2e6}); !errors.Is(err, trial.ErrNoSteps) {
		t.Errorf("error %v: expected %v", err, trial.ErrNoSteps)
	}
}
