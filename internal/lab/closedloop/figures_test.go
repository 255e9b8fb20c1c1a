// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"math"
	"math/rand/v2"
	"testing"

	"minne/internal/lab/statistics"
)

// sample is what rounds of four sides came to on a simulated machine: A, B, again
// A, and no device; ns per frame.
func sample(own [3]float64, without, noise float64, n int) (out [4][]float64) {
	random := rand.New(rand.NewPCG(5, 6))
	for range n {
		drift := 1 + random.Float64()/4
		for i, t := range append(own[:], 0) {
			out[i] = append(out[i], drift*(without+t)*math.Exp(noise*random.NormFloat64()))
		}
	}
	return out
}

func TestCostIsWithLessWithout(t *testing.T) {
	s := sample([3]float64{250, 0, 250}, 100, 0.01, 40)
	c := cost(s[0], s[3], s[2])
	// The machine is up to a quarter slower than its best, by an eighth in the median.
	if c.PerPacket.Median < 250 || c.PerPacket.Median > 315 || c.PerPacket.Low > c.PerPacket.Median || c.PerPacket.High < c.PerPacket.Median {
		t.Errorf("cost %+v, expected about 280", c.PerPacket)
	}
	if c.SameSame.Low > 0 || c.SameSame.High < 0 || c.SameSame.High-c.SameSame.Low > 10 {
		t.Errorf("A/A %+v, expected around 0", c.SameSame)
	}
	if c.Without.Median < 100 || c.With.Median < 350 {
		t.Errorf("%+v", c)
	}
}

func TestExtraIsMoreLessPlain(t *testing.T) {
	s := sample([3]float64{100, 110, 100}, 100, 0.001, 40)
	longer, same := statistics.Extra(s[0], s[1], s[2])
	if longer.Median < 9 || longer.Median > 14 || same.Low > 1 || same.High < -1 || same.High-same.Low > 5 {
		t.Errorf("%+v, A/A %+v, expected about 11 and 0", longer, same)
	}
}

// Two processors that each take 100 ns for a frame, and 125 when both send, forward 1.6 times as many as one.
func TestScaleIsTogetherOverOne(t *testing.T) {
	one, two, again := []float64{2. / 100, 2. / 110}, []float64{2. / 125, 2. / 137.5}, []float64{2. / 100, 2. / 110}
	more, same := scale(one, two, again)
	if math.Abs(more.Median-1.6) > 1e-9 || same.Median != 1 {
		t.Errorf("%+v, A/A %+v, expected 1.6 and 1", more, same)
	}
}

func TestComparisonOfSamples(t *testing.T) {
	for _, c := range []struct {
		name    string
		own     [3]float64
		want    statistics.Verdict
		ratio   float64
		costs   float64 // 0: none
		without float64
	}{
		{"twice as fast without the tester", [3]float64{400, 200, 400}, statistics.Faster, 500.0 / 300, 2, 100},
		{"slower", [3]float64{200, 300, 200}, statistics.Slower, 0.75, 2.0 / 3, 100},
		{"the same", [3]float64{400, 400, 400}, statistics.NoDifference, 1, 1, 100},
		{"equal devices that differ by 5 %", [3]float64{400, 410, 375}, statistics.NoDifference, 0.956, 0.945, 100},
		{"a cable", [3]float64{400, 0, 400}, statistics.Faster, 5, 0, 100},
	} {
		s := sample(c.own, c.without, 0.01, 40)
		got := against(s[0], s[1], s[2], s[3])
		if got.Verdict != string(c.want) || math.Abs(got.Ratio.Median/c.ratio-1) > 0.02 {
			t.Errorf("%s: %+v, expected %q and %.2f", c.name, got, c.want, c.ratio)
		}
		switch {
		case c.costs == 0:
			if got.CostRatio != nil {
				t.Errorf("%s: cost ratio %+v of a device that costs nothing", c.name, got.CostRatio)
			}
		case got.CostRatio == nil || math.Abs(got.CostRatio.Median/c.costs-1) > 0.03:
			t.Errorf("%s: cost ratio %+v, expected %.2f", c.name, got.CostRatio, c.costs)
		}
	}
}
