// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
	"minne/internal/testing/simulated"
)

var (
	background = context.Background()
	subject    = result.Subject{Device: "simulated", Traffic: "one flow", FrameSize: 64, MeanSize: 64}
)

// engine is the real engine around a device that is a formula.
func engine(b trial.Bench) *trial.Engine {
	return trial.NewEngine(b, trial.Options{WarmUp: -1, Settle: -1})
}

// near says whether a figure is within a share of what is expected.
func near(got, want, within float64) bool { return math.Abs(got-want) <= math.Abs(want)*within }

// interrupted is a device at which someone presses Ctrl-C after some trials.
type interrupted struct {
	*simulated.Device
	after  int
	cancel context.CancelFunc
}

func (i *interrupted) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	if i.Trials() == i.after {
		i.cancel()
	}
	return i.Device.Attempt(ctx, load)
}

func (i *interrupted) AttemptSteps(ctx context.Context, loads []trial.Load) ([]trial.Result, error) {
	return attemptSteps(ctx, i, loads, 0)
}

// attemptSteps takes steps on a bench that has none: the buffer is empty at the start of each.
func attemptSteps(ctx context.Context, b trial.Bench, loads []trial.Load, lastLoss time.Duration) (out []trial.Result, err error) {
	for i, load := range loads {
		r, err := b.Attempt(ctx, load)
		if err != nil {
			return out, err
		}
		if i > 0 {
			r.LastLoss = lastLoss
		}
		out = append(out, r)
	}
	return out, nil
}

// everything runs each method on a bench and returns how many points or repetitions its value has.
var everything = map[string]func(ctx context.Context, b bench) (int, error){
	"loss curve": func(ctx context.Context, b bench) (int, error) {
		v, err := LossCurve(ctx, engine(b), LossCurveOptions{Subject: subject, MaxLoad: 1e6, Duration: time.Second, Full: true})
		return len(v.Points), errors.Join(err, same(v.Subject))
	},
	"back-to-back": func(ctx context.Context, b bench) (int, error) {
		v, err := BackToBack(ctx, engine(b), BackToBackOptions{Subject: subject, Rate: 2e6, Throughput: 5e5, Repeat: 5})
		return len(v.Bursts), errors.Join(err, same(v.Subject))
	},
	"latency": func(ctx context.Context, b bench) (int, error) {
		v, err := Latency(ctx, engine(b), LatencyOptions{Subject: subject, PDR: 5e5, Duration: time.Second})
		return len(v.Loads), errors.Join(err, same(v.Subject))
	},
	"overload": func(ctx context.Context, b bench) (int, error) {
		v, err := Overload(ctx, engine(b), OverloadOptions{Subject: subject, Throughput: 5e5, MaxLoad: 1e6, Repeat: 3})
		return len(v.Each), errors.Join(err, same(v.Subject))
	},
	"soak": func(ctx context.Context, b bench) (int, error) {
		v, err := Soak(ctx, engine(b), SoakOptions{Subject: subject, Load: 4e5, Duration: 20 * time.Second, Trial: time.Second})
		return len(v.Series), errors.Join(err, same(v.Subject))
	},
	"MRR": func(ctx context.Context, b bench) (int, error) {
		v, err := MRR(ctx, engine(b), MRROptions{Subject: subject, Load: 1e6})
		return len(v.Rates), errors.Join(err, same(v.Subject))
	},
}

func same(s result.Subject) error {
	if s != subject {
		return errors.New("the value has lost its subject")
	}
	return nil
}

type bench interface {
	trial.Bench
	trial.Stepper
}

func TestInterruptedMethodsReturnWhatTheyHave(t *testing.T) {
	for name, run := range everything {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			whole, err := run(ctx, &interrupted{Device: &simulated.Device{Capacity: 5e5, Buffer: 100}, after: -1})
			if err != nil {
				t.Fatal(err)
			}
			after := map[string]int{"back-to-back": 15, "latency": 2, "overload": 3}[name]
			if after == 0 {
				after = 5
			}
			part, err := run(ctx, &interrupted{Device: &simulated.Device{Capacity: 5e5, Buffer: 100}, after: after, cancel: cancel})
			if !errors.Is(err, context.Canceled) || part == 0 || part >= whole {
				t.Errorf("%d of %d points, error %v: expected some, and the error of the context", part, whole, err)
			}
		})
	}
}

func TestMethodsStopAtWrongForwarding(t *testing.T) {
	for name, run := range everything {
		t.Run(name, func(t *testing.T) {
			n, err := run(background, &interrupted{Device: &simulated.Device{Capacity: 5e5, BadTTL: 1}, after: -1})
			var wrong *trial.WrongError
			if !errors.As(err, &wrong) || n != 0 {
				t.Errorf("%d points, error %v: expected a WrongError and no figure", n, err)
			}
		})
	}
}

// A search that found nothing must not become a measurement at full load.
func TestMethodsRefuseALoadOfNothing(t *testing.T) {
	device := &simulated.Device{Capacity: 1e6, TesterRate: 2e6}
	e := engine(device)
	_, curve := LossCurve(background, e, LossCurveOptions{})
	_, burst := BackToBack(background, e, BackToBackOptions{})
	_, latency := Latency(background, e, LatencyOptions{})
	_, overload := Overload(background, e, OverloadOptions{MaxLoad: 1e6})
	_, reset := Reset(background, e, ResetOptions{Name: "restart"})
	for i, err := range []error{curve, burst, latency, overload, reset} {
		if err == nil || !strings.Contains(err.Error(), "expected more than 0") {
			t.Errorf("method %d: error %v", i, err)
		}
	}
	if device.Trials() != 0 {
		t.Errorf("%d trials: expected none", device.Trials())
	}
	if found, err := Latency(background, e, LatencyOptions{Shares: []float64{0}, Repeat: 1}); err != nil || len(found.Loads) != 1 {
		t.Errorf("the least load needs no PDR: %v", err)
	}
}

func TestPaceTellsTheRemainingTime(t *testing.T) {
	var texts []string
	var left []time.Duration
	p := newPace(func(text string, l time.Duration) { texts, left = append(texts, text), append(left, l) }, time.Hour)
	p.next("first")
	p.past(30 * time.Minute)
	p.begun = time.Now().Add(-time.Hour) // half took an hour
	p.next("second")
	if texts[1] != "second" || left[0] != time.Hour || !near(left[1].Hours(), 1, 0.01) {
		t.Errorf("left %v: expected an hour each time", left)
	}
	newPace(nil, time.Hour).next("nobody listens")
}

func TestLossCurve(t *testing.T) {
	for _, c := range []struct {
		name   string
		full   bool
		shares []float64
	}{
		{"until two are without loss", false, []float64{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4}},
		{"to the least load", true, []float64{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			curve, err := LossCurve(background, engine(&simulated.Device{Capacity: 550e3}),
				LossCurveOptions{Subject: subject, MaxLoad: 1e6, Full: c.full})
			if err != nil || len(curve.Points) != len(c.shares) {
				t.Fatalf("%d points, error %v: expected %d", len(curve.Points), err, len(c.shares))
			}
			for i, p := range curve.Points {
				loss := max(0, 1-0.55/c.shares[i])
				if !near(p.Share, c.shares[i], 1e-9) || !near(p.Offered, p.Share*1e6, 1e-9) || !near(p.Forward, min(550e3, p.Offered), 1e-6) || math.Abs(p.Loss-loss) > 1e-6 {
					t.Errorf("point %d is %+v: expected share %g with loss %g", i, p, c.shares[i], loss)
				}
			}
		})
	}
}

func TestBackToBack(t *testing.T) {
	// A burst of n frames at rate R passes when n ≤ C·n/R + B, so n = B ÷ (1 − C/R);
	// the corrected buffer time is then B ÷ R.
	for _, c := range []struct {
		name      string
		device    simulated.Device
		rate      float64
		longest   float64
		buffer    time.Duration
		within    float64
		unbounded bool
	}{
		{"a ring of 256", simulated.Device{Capacity: 1e6, Buffer: 256}, 2e6, 512, 128 * time.Microsecond, 0.01, false},
		{"a large buffer", simulated.Device{Capacity: 1e6, Buffer: 60000}, 4e6, 80000, 15 * time.Millisecond, 0.01, false},
		{"no buffer", simulated.Device{Capacity: 1e6}, 2e6, 1, 0, 0, false},
		{"as fast as the tester can", simulated.Device{Capacity: 1e6, Buffer: 256, TesterRate: 2e6}, 0, 512, 128 * time.Microsecond, 0.01, false},
		{"noisy", simulated.Device{Seed: 3, Capacity: 1e6, Buffer: 2000, Fade: 0.01}, 2e6, 3960, 990 * time.Microsecond, 0.03, false},
		{"faster than the tester", simulated.Device{Capacity: 2e6}, 1e6, 2e6, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := BackToBack(background, engine(&c.device), BackToBackOptions{
				Subject: subject, Rate: c.rate, MaxRate: c.device.TesterRate, Throughput: c.device.Capacity})
			if err != nil || len(found.Bursts) != 50 {
				t.Fatalf("%d searches, error %v: expected 50", len(found.Bursts), err)
			}
			if !near(found.Mean, c.longest, max(c.within, 1.1/c.longest)) || found.Unbounded != c.unbounded {
				t.Errorf("mean burst %g, unbounded %v: expected %g, %v", found.Mean, found.Unbounded, c.longest, c.unbounded)
			}
			if math.Abs(float64(found.Corrected-c.buffer)) > c.within*float64(c.buffer)+1000 && !c.unbounded {
				t.Errorf("corrected buffer time %v: expected %v", found.Corrected, c.buffer)
			}
			if want := c.rate + c.device.TesterRate; !near(found.BurstRate, want, 1e-3) || !near(float64(found.BufferTime), found.Mean/want*1e9, 1e-3) {
				t.Errorf("burst rate %g, implied buffer time %v", found.BurstRate, found.BufferTime)
			}
		})
	}
	found, err := BackToBack(background, engine(&simulated.Device{Capacity: 1e6, Outages: []simulated.Outage{{For: time.Hour}}}),
		BackToBackOptions{Rate: 2e6, Repeat: 2})
	if err != nil || found.Mean != 0 || found.Unbounded {
		t.Errorf("a dead device: mean %g, error %v: expected 0", found.Mean, err)
	}
}

func TestLatency(t *testing.T) {
	device := &simulated.Device{Capacity: 1e6, Delay: 100 * time.Microsecond, Jitter: 10 * time.Microsecond, GapEvery: 7, GapTime: 100 * time.Millisecond}
	alone := &simulated.Device{Capacity: 1e7, Delay: 4 * time.Microsecond}
	found, err := Latency(background, engine(device), LatencyOptions{Subject: subject, PDR: 900e3, Alone: engine(alone), Duration: time.Second})
	if err != nil || len(found.Loads) != 4 {
		t.Fatalf("%d loads, error %v: expected 4", len(found.Loads), err)
	}
	for i, rate := range []float64{1000, 90e3, 450e3, 810e3} {
		p := found.Loads[i]
		if p.Offered != rate || p.Loss != 0 || p.Spectrum.Count() < uint64(15*rate) {
			t.Errorf("load %d: %g frames/s, loss %g, %d delays: expected %g, 0, and 15 trials or more", i, p.Offered, p.Loss, p.Spectrum.Count(), rate)
		}
		for _, q := range []struct {
			got  time.Duration
			want float64 // µs: 100 − 10·ln(1 − q), in slices of a thousandth
		}{{p.Min, 100}, {p.P50, 106.9}, {p.P90, 123}, {p.P99, 146}, {p.P999, 165}, {p.Bias, 4}} {
			if !near(q.got.Seconds()*1e6, q.want, 0.02) {
				t.Errorf("load %d: %v, expected %g µs", i, q.got, q.want)
			}
		}
	}
	if !near(found.BiasNS, 4000, 0.01) {
		t.Errorf("bias %g ns: expected 4000", found.BiasNS)
	}
}

func TestLatencyCountsDisturbedTrialsOnlyForWantOfOthers(t *testing.T) {
	d := newDelays(LatencyOptions{PDR: 1000, Shares: []float64{0.5}})[0]
	try := func(delay time.Duration, void string) {
		r := trial.Result{Intended: 1, Sent: 1, Received: 1, Void: void}
		r.Latency.Record(delay)
		if err := d.try(background, fixed{r}, &d.device, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	try(100, "gap")
	if got := d.device.all().Max(); got != 100 {
		t.Errorf("delay %v: expected the disturbed trial's", got)
	}
	try(20, "")
	if got := d.device.all().Max(); got != 20 {
		t.Errorf("delay %v: expected the other trial's alone", got)
	}
	if err := d.try(background, fixed{trial.Result{Received: 5}}, &d.device, time.Second); !errors.Is(err, errNoLatency) {
		t.Errorf("error %v: expected %v", err, errNoLatency)
	}
}

// fixed is a tester whose trials have one outcome.
type fixed struct{ result trial.Result }

func (f fixed) Try(context.Context, trial.Load) (trial.Result, error) { return f.result, nil }

func TestMRR(t *testing.T) {
	device := &simulated.Device{Seed: 1, Capacity: 8e5, Fade: 0.02, TesterRate: 2e6}
	found, err := MRR(background, engine(device), MRROptions{Subject: subject})
	if err != nil || len(found.Rates) != 10 {
		t.Fatalf("%d trials, error %v: expected 10", len(found.Rates), err)
	}
	if !near(found.Mean, 8e5, 0.05) || found.Deviation <= 0 || found.Deviation > 5e4 || !near(found.Offered, 2e6, 1e-9) {
		t.Errorf("mean %g, deviation %g, offered %g: expected about 8e5, some, 2e6", found.Mean, found.Deviation, found.Offered)
	}
	if mean, deviation := meanDeviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); mean != 5 || !near(deviation, 2.138, 0.001) {
		t.Errorf("mean %g, deviation %g: expected 5, 2.138", mean, deviation)
	}
}
