// SPDX-License-Identifier: Apache-2.0

package search

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"minne/internal/lab/result"
	"minne/internal/testing/simulated"
)

// reference is testdata/reference.json: what the FD.io project's MLRsearch found on
// simulated devices. scripts/mlrsearch-reference.py writes it.
type reference struct {
	MinLoad float64                       `json:"min_load"`
	MaxLoad float64                       `json:"max_load"`
	Shapes  map[string]map[string]float64 `json:"shapes"`
	Goals   map[string][]referenceGoal    `json:"goals"`
	Runs    []referenceRun                `json:"runs"`
}

type referenceGoal struct {
	Loss, Exceed, Final, Sum, Initial, Width float64
}

type referenceRun struct {
	shape, goals string
	seed         uint64
	capacity     float64
	trials       int
	seconds      float64 // of all trials
	found        [][3]float64
}

func (r *referenceRun) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.shape, &r.goals, &r.seed, &r.capacity, &r.trials, &r.seconds, &r.found})
}

func readReference(t *testing.T) (ref reference) {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

func (ref reference) goalsOf(run referenceRun) (out []result.Goal) {
	for _, g := range ref.Goals[run.goals] {
		out = append(out, result.Goal{
			Name: run.goals, LossRatio: g.Loss, ExceedRatio: g.Exceed, Width: g.Width,
			FinalDuration: seconds(g.Final), DurationSum: seconds(g.Sum), InitialTrial: seconds(g.Initial),
		})
	}
	return out
}

func (ref reference) deviceOf(run referenceRun) *simulated.Device {
	shape := ref.Shapes[run.shape]
	return &simulated.Device{
		Seed: run.seed, Capacity: run.capacity, Buffer: shape["Buffer"],
		Fade: shape["Fade"], Tires: shape["Tires"], TiresAfter: seconds(shape["TiresAfter"]),
		SpikeRate: shape["SpikeRate"], SpikeSize: shape["SpikeSize"],
		Knee: shape["Knee"], KneeLoss: shape["KneeLoss"], TesterRate: shape["TesterRate"],
	}
}

// The same bounds as the reference on each of 200 noisy devices.
//
// "The same" is meant strictly: each relevant bound and the Conditional Throughput
// are no further from the reference's than the goal's width (relative), and a bound
// is missing where the reference has none. A device's noise depends on its seed, on
// the load and on how often that load was tried (package simulated), so the two
// searches measure the same device even when they try loads in another order.
func TestSameBoundsAsTheReference(t *testing.T) {
	ref := readReference(t)
	if len(ref.Runs) < 200 {
		t.Fatalf("%d runs: expected at least 200", len(ref.Runs))
	}
	ours, theirs, identical, disagree := 0, 0, 0, 0
	var oursSeconds, theirSeconds float64
	for _, run := range ref.Runs {
		device := ref.deviceOf(run)
		goals := ref.goalsOf(run)
		got, err := Run(context.Background(), device, Options{Goals: goals, MinLoad: ref.MinLoad, MaxLoad: ref.MaxLoad})
		if err != nil {
			t.Fatalf("%s, %s, seed %d: %v", run.shape, run.goals, run.seed, err)
		}
		same, equal := true, true
		for i, want := range run.found {
			for j, value := range [3]float64{got[i].Lower, got[i].Upper, got[i].Conditional} {
				apart := math.Abs(value - want[j])
				same = same && apart <= goals[i].Width*max(value, want[j])
				equal = equal && apart <= 0.01
			}
		}
		if !same {
			disagree++
			t.Errorf("%s, %s, seed %d: found %v, the reference %v", run.shape, run.goals, run.seed, figures(got), run.found)
		}
		if equal {
			identical++
		}
		ours, theirs = ours+device.Trials(), theirs+run.trials
		oursSeconds += (device.Now() - time.Duration(device.Trials())*simulated.Drain).Seconds()
		theirSeconds += run.seconds
	}
	t.Logf("%d runs: %d disagree, %d equal to 0.01 frames per second; %d trials (%.0f s), the reference %d (%.0f s)",
		len(ref.Runs), disagree, identical, ours, oursSeconds, theirs, theirSeconds)
	if math.Abs(float64(ours-theirs)) > 0.02*float64(theirs) {
		t.Errorf("%d trials in all, the reference needed %d: expected within 2 %%", ours, theirs)
	}
}

func figures(all []result.Bound) (out [][3]float64) {
	for _, b := range all {
		out = append(out, [3]float64{b.Lower, b.Upper, b.Conditional})
	}
	return out
}
