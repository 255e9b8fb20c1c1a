// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/trial"
	"minne/internal/testing/simulated"
)

// script is a bench that returns prepared results, one after the other, the last one for ever.
type script struct {
	results []trial.Result
	loads   []trial.Load
}

func (s *script) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	r := s.results[min(len(s.loads), len(s.results)-1)]
	s.loads = append(s.loads, load)
	if r.Elapsed == 0 {
		r.Elapsed = time.Second
	}
	r.Load = load
	return r, ctx.Err()
}

// sent is a result in which so many of 1000 frames came back, with a gap.
func sent(received uint64, gap time.Duration) trial.Result {
	r := trial.Result{Intended: 1000, Sent: 1000, Received: received, GapTime: gap}
	if gap > 0 {
		r.Gaps = 1
	}
	return r
}

var second = trial.Load{Rate: 1000, Duration: time.Second}

// quick leaves out what takes real time.
func quick(o trial.Options) trial.Options {
	o.WarmUp, o.Settle = -1, -1
	return o
}

func TestEngineVoidsWhatGapsMaySpoil(t *testing.T) {
	ms := time.Millisecond
	fast := trial.Load{Duration: time.Second}
	for _, c := range []struct {
		name   string
		load   trial.Load
		first  trial.Result
		voided string // part of why, empty when the trial stands
	}{
		{"nothing happened", second, sent(1000, 0), ""},
		{"loss without a gap", second, sent(900, 0), ""},
		{"a gap without loss", second, sent(1000, 5*ms), ""},
		{"many gaps without loss", second, sent(1000, 50*ms), ""},
		{"a gap explains the loss", second, sent(996, 5*ms), "explain the loss of 4 frames"},
		{"a gap is too short to explain the loss", second, sent(990, 5*ms), ""},
		{"gaps took too much", second, sent(500, 50*ms), "may be why 500 frames"},
		{"full load, short gap", fast, sent(900, 5*ms), ""},
		{"full load, long gap", fast, sent(1000, 20*ms), "lowered the rate"},
		{"a burst with a pause", trial.Load{Rate: 1000, Frames: 1000}, sent(1000, 20*ms), "lowered the rate"},
		{"the bench says so", second, trial.Result{Intended: 10, Sent: 10, Received: 10, Void: "link went down"}, "link went down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var recorded []trial.Result
			bench := &script{results: []trial.Result{c.first, sent(999, 0)}}
			e := trial.NewEngine(bench, quick(trial.Options{Record: func(r trial.Result) { recorded = append(recorded, r) }}))
			r, err := e.Try(context.Background(), c.load)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(recorded[0].Void, c.voided) || (recorded[0].Void == "") != (c.voided == "") {
				t.Errorf("void %q: expected %q", recorded[0].Void, c.voided)
			}
			want, repeated := c.first.Received, 0
			if c.voided != "" {
				want, repeated = 999, 1
			}
			if r.Received != want || r.Void != "" {
				t.Errorf("returned %d received, void %q: expected %d", r.Received, r.Void, want)
			}
			if got := (trial.Counts{Trials: 1, Repeated: repeated}); e.Counts() != got {
				t.Errorf("counts %+v: expected %+v", e.Counts(), got)
			}
		})
	}
}

func TestEngineReturnsTheLeastDisturbedOfVoidTrials(t *testing.T) {
	link := trial.Result{Intended: 1000, Sent: 1000, Received: 1000, Void: "link went down"}
	bench := &script{results: []trial.Result{
		link, sent(500, 40*time.Millisecond), sent(100, 20*time.Millisecond), sent(900, 30*time.Millisecond), sent(1000, 0)}}
	e := trial.NewEngine(bench, quick(trial.Options{}))
	r, err := e.Try(context.Background(), second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Received != 100 || !strings.Contains(r.Void, "20ms") {
		t.Errorf("%d received, void %q: expected the trial with the shortest gap", r.Received, r.Void)
	}
	if want := (trial.Counts{Trials: 1, Repeated: 3, Disturbed: 1}); e.Counts() != want {
		t.Errorf("counts %+v: expected %+v", e.Counts(), want)
	}
}

func TestEngineAttemptsAreJudgedButNotRepeated(t *testing.T) {
	bench := &script{results: []trial.Result{sent(500, 40*time.Millisecond)}}
	e := trial.NewEngine(bench, quick(trial.Options{}))
	r, err := e.Attempt(context.Background(), second)
	if err != nil || r.Void == "" || len(bench.loads) != 1 {
		t.Errorf("void %q, error %v, %d attempts: expected one void trial", r.Void, err, len(bench.loads))
	}
	if want := (trial.Counts{Trials: 1, Disturbed: 1}); e.Counts() != want {
		t.Errorf("counts %+v: expected %+v", e.Counts(), want)
	}
}

func TestEngineWarmsUpOnceAndTellsWhatForTrialsAre(t *testing.T) {
	var recorded []trial.Result
	bench := &script{results: []trial.Result{sent(10, 0), sent(1000, 0)}}
	e := trial.NewEngine(bench, trial.Options{
		WarmUp: 3 * time.Second, MaxLoad: 5000, Settle: -1, Traffic: "one flow", Device: "kernel",
		Record: func(r trial.Result) { recorded = append(recorded, r) },
	})
	trial.For(bench, "nothing: a script keeps no notes")
	trial.For(e, "search")
	for range 2 {
		if r, err := e.Try(context.Background(), second); err != nil || r.Received != 1000 {
			t.Fatalf("%d received, error %v: the warm-up must not count", r.Received, err)
		}
	}
	if want := (trial.Load{Rate: 5000, Duration: 3 * time.Second}); len(bench.loads) != 3 || bench.loads[0] != want {
		t.Errorf("loads %+v: expected one warm-up %+v and two trials", bench.loads, want)
	}
	for i, want := range []string{"warm-up", "search", "search"} {
		if r := recorded[i]; r.Purpose != want || r.Traffic != "one flow" || r.Device != "kernel" {
			t.Errorf("trial %d recorded as %q, %q, %q: expected %q", i, r.Purpose, r.Traffic, r.Device, want)
		}
	}
	if e.Counts().Trials != 2 {
		t.Errorf("%d trials: expected 2", e.Counts().Trials)
	}
}

func TestEngineRefusesWrongForwarding(t *testing.T) {
	for _, c := range []struct {
		name   string
		device simulated.Device
		says   string
	}{
		{"TTL", simulated.Device{BadTTL: 0.01}, "10 had a TTL"},
		{"header", simulated.Device{BadHeader: 0.001}, "1 had a wrong IP header"},
		{"MAC", simulated.Device{BadMAC: 1}, "1000 had a MAC address"},
		{"payload", simulated.Device{Corrupts: 0.5}, "500 had a payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded := 0
			c.device.Capacity = 1e6
			e := trial.NewEngine(&c.device, quick(trial.Options{Device: "slow box", Record: func(trial.Result) { recorded++ }}))
			_, err := e.Try(context.Background(), second)
			var wrong *trial.WrongError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "slow box") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v: expected a WrongError that says %q", err, c.says)
			}
			if recorded != 1 {
				t.Errorf("%d trials recorded: expected the wrong one", recorded)
			}
		})
	}
	r := sent(1000, 50*time.Millisecond) // a void trial is no excuse
	r.BadTTL = 7
	r.Streams = []trial.Stream{{ID: 0, Name: "IPv4"}, {ID: 1, Name: "IPv6", BadTTL: 7}}
	_, err := trial.NewEngine(&script{results: []trial.Result{r}}, quick(trial.Options{})).Try(context.Background(), second)
	if err == nil || !strings.Contains(err.Error(), "stream 1 (IPv6): 7 had a TTL") || strings.Contains(err.Error(), "stream 0") {
		t.Errorf("error %v: expected it to name stream 1 alone", err)
	}
}

func TestEngineRefusesImpossibleCounts(t *testing.T) {
	for _, c := range []struct {
		result trial.Result
		says   string
	}{
		{trial.Result{Intended: 10, Sent: 10, Received: 11}, "received 11 frames and sent 10"},
		{trial.Result{Intended: 10}, "sent none of 10"},
		{trial.Result{}, "has no frame"},
	} {
		_, err := trial.NewEngine(&script{results: []trial.Result{c.result}}, quick(trial.Options{})).Try(context.Background(), second)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v: expected %q", err, c.says)
		}
	}
}

func TestEngineStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	bench := &script{results: []trial.Result{sent(1000, 0)}}
	e := trial.NewEngine(bench, trial.Options{WarmUp: -1, Settle: time.Hour})
	if _, err := e.Try(ctx, second); err != nil {
		t.Fatalf("nothing to settle before the first trial: %v", err)
	}
	cancel()
	if _, err := e.Try(ctx, second); !errors.Is(err, context.Canceled) || len(bench.loads) != 1 {
		t.Errorf("error %v after %d attempts: expected the pause to end", err, len(bench.loads))
	}
}

// stairs is a script that can take steps.
type stairs struct{ script }

func (s *stairs) AttemptSteps(ctx context.Context, loads []trial.Load) (out []trial.Result, err error) {
	for _, load := range loads {
		r, _ := s.Attempt(ctx, load)
		out = append(out, r)
	}
	return out, ctx.Err()
}

func TestEngineSteps(t *testing.T) {
	ctx := context.Background()
	loads := []trial.Load{second, {Rate: 500, Duration: 2 * time.Second}}
	plain := &script{results: []trial.Result{sent(1000, 0)}}
	if _, err := trial.NewEngine(plain, quick(trial.Options{})).AttemptSteps(ctx, loads); !errors.Is(err, trial.ErrNoSteps) {
		t.Errorf("error %v: expected %v", err, trial.ErrNoSteps)
	}
	bad := sent(1000, 0)
	bad.BadMAC = 1
	// 5 frames of the first step arrive in the second.
	e := trial.NewEngine(&stairs{script{results: []trial.Result{sent(900, 0), sent(1005, 0), sent(900, 0), bad}}}, quick(trial.Options{Device: "x"}))
	results, err := e.AttemptSteps(ctx, loads)
	if err != nil || len(results) != 2 || results[1].Load != loads[1] || results[1].Device != "x" {
		t.Errorf("results %v, error %v: expected both steps", len(results), err)
	}
	var wrong *trial.WrongError
	if _, err = e.AttemptSteps(ctx, loads); !errors.As(err, &wrong) {
		t.Errorf("error %v: expected a WrongError", err)
	}
	e = trial.NewEngine(&stairs{script{results: []trial.Result{sent(1000, 0), sent(1005, 0)}}}, quick(trial.Options{}))
	if _, err = e.AttemptSteps(ctx, loads); err == nil {
		t.Error("more frames received than sent in all steps together: expected an error")
	}
}
