// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"math"
	"testing"
	"time"

	"minne/internal/lab/method"
	"minne/internal/lab/result"
	"minne/internal/lab/search"
	"minne/internal/lab/trial"
	"minne/internal/testing/faulty"
)

// figures are what a trial tells and a faulty device knows.
type figures struct{ Lost, Duplicated, Reordered uint64 }

// Loss, duplicates, reordering and an outage of a known device are in the trial, frame by frame.
func TestPlantedFaultsAreMeasured(t *testing.T) {
	const outage = 150 * time.Millisecond
	for _, c := range []struct {
		name, traffic string
		faults        faulty.Faults
		want          figures // of 5000 frames; without both directions
	}{
		{"none", "one-flow", faulty.Faults{}, figures{}},
		{"loss", "one-flow", faulty.Faults{Drop: 97}, figures{Lost: 51}},
		{"loss of a mix, both ways", "bidirectional size=imix family=ipv4:50,ipv6:50 flows=20", faulty.Faults{Drop: 50}, figures{Lost: 100}},
		{"duplicates", "rdos", faulty.Faults{Duplicate: 100}, figures{Duplicated: 50}},
		// The frame that the last one overtakes is still in the device.
		{"reordering", "flows=10 family=ipv6", faulty.Faults{Reorder: 10}, figures{Lost: 1, Reordered: 499}},
		{"an outage", "one-flow", faulty.Faults{OutageAt: 1000, OutageFor: outage}, figures{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, truth := faultyTrial(t, c.traffic, c.faults)
			want := c.want
			if c.faults.OutageFor > 0 {
				if want.Lost = truth.Dark; truth.Dark == 0 {
					t.Error("the outage lost nothing")
				}
				if r.Silence < outage || r.Silence > r.Elapsed+outage {
					t.Errorf("a silence of %v in an outage of %v", r.Silence, outage)
				}
			}
			if got := (figures{r.Lost(), r.Duplicated, r.Reordered}); got != want {
				t.Errorf("the trial tells %+v, expected %+v", got, want)
			}
			if done := (figures{truth.Lost(), truth.Duplicated, truth.Reordered}); done != want {
				t.Errorf("the device did %+v, expected %+v", done, want)
			}
			if r.Corrupted+r.BadTTL+r.BadHeader+r.BadMAC != 0 {
				t.Errorf("frames are said to be wrong: %+v", r)
			}
		})
	}
}

// faultyTrial makes a trial of 5000 frames, in which the machine itself loses none, and
// returns it with what the device did in both directions together.
func faultyTrial(t *testing.T, traffic string, f faulty.Faults) (trial.Result, faulty.Truth) {
	t.Helper()
	const frames = 5000
	for range tries {
		b := newBed(t, f)
		r, err := b.rig(t, traffic).Attempt(t.Context(), trial.Load{Rate: 2 * rate, Frames: frames})
		if err != nil {
			t.Fatal(err)
		}
		left, right, err := b.device.Truth()
		if err != nil {
			t.Fatal(err)
		}
		left.Arrived += right.Arrived
		left.Dropped += right.Dropped
		if left.Arrived == frames && r.Received+left.Lost() == frames {
			return r, left
		}
		t.Logf("sent %d, the device got %d, %d came back: the machine lost some, once more", r.Sent, left.Arrived, r.Received)
	}
	t.Fatalf("the machine is too busy: it lost frames in %d trials", tries)
	return trial.Result{}, faulty.Truth{}
}

// Of a device that loses 1 % whatever the load, a search finds neither NDR nor PDR, and the
// greatest load for who takes 5 %.
func TestSearchOfALossyDevice(t *testing.T) {
	b := newBed(t, faulty.Faults{Drop: 100})
	short := func(g result.Goal, name string, loss float64) result.Goal {
		g.Name, g.LossRatio, g.Width = name, loss, 0.05
		g.InitialTrial, g.FinalDuration, g.DurationSum = 200*time.Millisecond, 200*time.Millisecond, 600*time.Millisecond
		return g
	}
	const least, most = 3000, 15_000
	bounds, err := search.Run(t.Context(), engine(b.rig(t, "one-flow"), most), search.Options{
		Goals:   []result.Goal{short(search.NDR(), "NDR", 0), short(search.PDR(), "PDR", 0.005), short(search.PDR(), "5 %", 0.05)},
		MinLoad: least, MaxLoad: most,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ lower, upper float64 }{{0, least}, {0, least}, {most, 0}} {
		if g := bounds[i]; g.Lower != want.lower || g.Upper != want.upper || g.Irregular == "" {
			t.Errorf("%s: from %g to %g (%q), expected from %g to %g", g.Goal.Name, g.Lower, g.Upper, g.Irregular, want.lower, want.upper)
		}
	}
	if got := bounds[2].Conditional; math.Abs(got/most-0.99) > 0.01 {
		t.Errorf("a conditional throughput of %g at a load of %g and 1 %% of loss", got, float64(most))
	}
}

// Delays are reported as they are, but for 5 % and the tester's own delay that is reported beside them.
func TestPlantedDelaysAreMeasured(t *testing.T) {
	alone := newBed(t, faulty.Faults{}).rig(t, "one-flow")
	for _, delay := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			pdr := min(2000, 0.4/delay.Seconds()) // more would queue up before a device that keeps each frame so long
			device := newBed(t, faulty.Faults{Delay: delay}).rig(t, "one-flow")
			var wrong []string
			for range tries { // the median of few frames is no better than the machine is quiet
				found, err := method.Latency(t.Context(), engine(device, pdr), method.LatencyOptions{
					PDR: pdr, Shares: []float64{0.25, 0.9}, Duration: 400 * time.Millisecond, Repeat: 1, Alone: engine(alone, pdr),
				})
				if err != nil {
					t.Fatal(err)
				}
				if wrong = offDelay(found, delay); len(wrong) == 0 {
					return
				}
				t.Log(wrong)
			}
			t.Error(wrong)
		})
	}
}

// offDelay says which loads have medians that are not the planted delay.
func offDelay(found result.Latency, delay time.Duration) (wrong []string) {
	for _, l := range found.Loads {
		least, most := delay*95/100, delay*105/100+l.Bias
		if l.P50 < least || l.P50 > most || l.Bias <= 0 || l.Bias > delay {
			wrong = append(wrong, fmt.Sprintf("at %g frames/s the median of %s is %v, expected %v to %v", l.Offered, l.Spectrum, l.P50, least, most))
		}
	}
	return wrong
}
