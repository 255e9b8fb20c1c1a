// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"reflect"
	"testing"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/trial"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func parse(t *testing.T, text string) pattern.Pattern {
	t.Helper()
	p, err := pattern.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Frames that a device must forward without loss at a rate that any machine manages:
// a veth holds 256 of them, for half a second in which other work keeps softirqs waiting.
func TestEveryFrameComesBack(t *testing.T) {
	for _, c := range []struct{ device, traffic string }{
		{"none", "one-flow"},
		{"kernel", "one-flow"},
		{"kernel", "flows=64 bidirectional family=ipv4:50,ipv6:50 size=imix"},
		{"bridge", "one-flow bidirectional"},
	} {
		t.Run(c.device+" "+c.traffic, func(t *testing.T) {
			ctx := context.Background()
			d, err := device.Parse(c.device)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Start(ctx, Setup{Device: d, Traffic: parse(t, c.traffic), Means: device.Means{Load: kernel.BulkRoutes}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.Timed(true)
			got, err := r.Attempt(ctx, trial.Load{Rate: 500, Duration: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if got.Sent == 0 || got.Received != got.Sent || got.Corrupted+got.BadTTL+got.BadHeader+got.BadMAC+got.Duplicated > 0 {
				t.Errorf("sent %d of %d, received %d, corrupted %d, TTL %d, header %d, MAC %d, twice %d", got.Sent, got.Intended, got.Received,
					got.Corrupted, got.BadTTL, got.BadHeader, got.BadMAC, got.Duplicated)
			}
			if got.Latency.Count() != got.Received || got.Latency.Max() <= 0 {
				t.Errorf("%d latencies of %d frames, the longest %v", got.Latency.Count(), got.Received, got.Latency.Max())
			}
		})
	}
}

// Two lanes on however few processors: every frame comes back, in its lane's stream.
func TestLanesShareALoad(t *testing.T) {
	ctx := context.Background()
	cpus, err := machine.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	both := []int{cpus[0], cpus[len(cpus)-1]}
	r, err := start(ctx, Setup{
		Device:  device.Spec{Kind: device.Kernel},
		Traffic: parse(t, "flows=16 bidirectional"), Means: device.Means{Load: kernel.BulkRoutes},
	}, placement{generators: both, device: both, sink: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Attempt(ctx, trial.Load{Rate: 500, Frames: 1001})
	if err != nil {
		t.Fatal(err)
	}
	if got.Sent != 1001 || got.Received != 1001 || len(got.Streams) != 4 {
		t.Fatalf("sent %d, received %d of 1001 frames in %d streams: expected all, in 4", got.Sent, got.Received, len(got.Streams))
	}
	for _, s := range got.Streams {
		if s.Received < 249 || s.Received != s.Sent {
			t.Errorf("stream %s: received %d of %d sent", s.Name, s.Received, s.Sent)
		}
	}
}

// Loads that follow each other without a pause are counted apart.
func TestStepsAreCountedApart(t *testing.T) {
	ctx := context.Background()
	r, err := Start(ctx, Setup{Device: device.Spec{Kind: device.None}, Traffic: parse(t, "one-flow")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	steps, err := r.AttemptSteps(ctx, []trial.Load{{Rate: 1000, Frames: 900}, {Rate: 500, Frames: 300}})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].Sent != 900 || steps[1].Sent != 300 {
		t.Fatalf("steps %+v: expected 900 and 300 frames", steps)
	}
	// What was under way when the load changed may count for either.
	if got := steps[0].Received + steps[1].Received; got != 1200 || steps[1].Received < 300 {
		t.Errorf("received %d and %d: expected 900 and 300", steps[0].Received, steps[1].Received)
	}
}

func TestProcessorsAreSharedOut(t *testing.T) {
	for _, c := range []struct {
		cpus, lanes int
		want        placement
		fails       bool
	}{
		{cpus: 1, lanes: 1, fails: true},
		{cpus: 2, lanes: 1, want: placement{generators: []int{0}, device: []int{1}, sink: -1}},
		{cpus: 3, lanes: 1, want: placement{generators: []int{0}, device: []int{1}, sink: 2}},
		{cpus: 3, lanes: 2, fails: true},
		{cpus: 8, lanes: 3, want: placement{generators: []int{0, 1, 2}, device: []int{3, 4, 5}, sink: -1}},
		{cpus: 64, lanes: 17, fails: true},
	} {
		var cpus []int
		for i := range c.cpus {
			cpus = append(cpus, i)
		}
		got, err := place(cpus, c.lanes)
		if (err != nil) != c.fails || err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d processors, %d lanes: %+v, %v", c.cpus, c.lanes, got, err)
		}
	}
}

func TestOnlyWhatTheMachineExplainsIsExcused(t *testing.T) {
	before := held{waited: time.Second, woken: 5, stolen: 20 * time.Millisecond}
	woken, preempted, stolen := before, before, before
	woken.waited, woken.woken = before.waited+5*time.Millisecond, before.woken+500
	preempted.waited += 3 * time.Millisecond
	stolen.stolen += 10 * time.Millisecond
	for _, c := range []struct {
		now     held
		lost    uint64
		excused bool
	}{
		{before, 10, false},
		{woken, 10, false}, // waking up takes the device's own time
		{preempted, 0, false},
		{preempted, 300, true}, // 3 ms at 100,000 frames/s
		{preempted, 301, false},
		{stolen, 1000, true},
		{stolen, 1001, false},
	} {
		if got := excuse(c.lost, 100_000, c.now.since(before)); (got != "") != c.excused {
			t.Errorf("%+v since %+v, %d lost: %q", c.now, before, c.lost, got)
		}
	}
}
