// SPDX-License-Identifier: Apache-2.0

package statistics

import (
	"math"
	"math/rand/v2"
	"testing"

	"minne/internal/lab/result"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.values); got != c.want {
			t.Errorf("%v: %v, expected %v", c.values, got, c.want)
		}
	}
}

func TestIntervalOfFewValues(t *testing.T) {
	if got := Interval(nil); got != (result.Interval{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got := Interval([]float64{3}); got != (result.Interval{Median: 3, Low: 3, High: 3}) {
		t.Errorf("of one value: %+v", got)
	}
	values := []float64{1, 2, 3, 4}
	first, second := Interval(values), Interval(values)
	if first != second {
		t.Errorf("the same values gave %+v and %+v", first, second)
	}
}

// distributions have the median 1.
var distributions = map[string]func(*rand.Rand) float64{
	"normal":     func(r *rand.Rand) float64 { return 1 + r.NormFloat64()/20 },
	"log-normal": func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() / 5) },
	// As of a machine that another tenant slows down now and then.
	"with outliers": func(r *rand.Rand) float64 {
		v := 1 + r.NormFloat64()/50
		if r.IntN(20) == 0 {
			v += 0.02 * float64(1-2*r.IntN(2)) * r.ExpFloat64() * 20
		}
		return v
	},
}

// The interval must hold the true median in about 95 of 100 experiments.
func TestIntervalCoversTheTrueMedian(t *testing.T) {
	const experiments = 250
	for name, draw := range distributions {
		for _, n := range []int{15, 40} {
			random := rand.New(rand.NewPCG(7, uint64(n)))
			covered := 0
			values := make([]float64, n)
			for range experiments {
				for i := range values {
					values[i] = draw(random)
				}
				if got := Interval(values); got.Low <= 1 && 1 <= got.High {
					covered++
				}
			}
			if share := float64(covered) / experiments; share < 0.9 || share > 0.99 {
				t.Errorf("%s, %d values: %.3f of the intervals hold the median, expected about 0.95", name, n, share)
			}
		}
	}
}

// rounds simulates a comparison: A, B, A in each round, with a machine that drifts.
func rounds(random *rand.Rand, n int, ratio, noise float64) (b, same result.Interval) {
	var ratios, sames []float64
	for range n {
		drift := 1 + random.Float64()/2
		time := func(v float64) float64 { return drift * v * math.Exp(noise*random.NormFloat64()) }
		a1, bTime, a2 := time(1), time(1/ratio), time(1)
		ratios = append(ratios, math.Sqrt(a1*a2)/bTime)
		sames = append(sames, a1/a2)
	}
	return Interval(ratios), Interval(sames)
}

func TestVerdictOnSimulatedRounds(t *testing.T) {
	const experiments = 100
	for _, c := range []struct {
		ratio, noise float64
		rounds       int
		want         Verdict
		least        float64 // share of experiments with that verdict
	}{
		{1, 0.03, 30, NoDifference, 0.97},
		{1, 0.15, 30, NoDifference, 0.97},
		{1, 0.03, 10, NoDifference, 0.95},
		{1.08, 0.03, 30, Faster, 0.95},
		{1 / 1.08, 0.03, 30, Slower, 0.95},
		{2, 0.15, 8, Faster, 0.95},
		{1.01, 0.15, 30, NoDifference, 0.9}, // too small to be seen
	} {
		random := rand.New(rand.NewPCG(3, 4))
		count := map[Verdict]int{}
		for range experiments {
			b, same := rounds(random, c.rounds, c.ratio, c.noise)
			count[Assess(b, same)]++
		}
		if share := float64(count[c.want]) / experiments; share < c.least {
			t.Errorf("ratio %.3f, noise %.2f, %d rounds: %v, expected %q in %.2f", c.ratio, c.noise, c.rounds, count, c.want, c.least)
		}
	}
}

func TestVerdictOnIntervals(t *testing.T) {
	i := func(low, high float64) result.Interval {
		return result.Interval{Low: low, High: high, Median: (low + high) / 2}
	}
	for _, c := range []struct {
		name        string
		ratio, same result.Interval
		want        Verdict
	}{
		{"all above", i(1.10, 1.20), i(0.99, 1.01), Faster},
		{"all below", i(0.80, 0.90), i(0.99, 1.01), Slower},
		{"holds 1", i(0.98, 1.20), i(0.99, 1.01), NoDifference},
		{"above 1, but inside the noise", i(1.01, 1.05), i(0.98, 1.03), NoDifference},
		{"above the noise, which leans the other way", i(1.02, 1.05), i(0.96, 0.99), NoDifference},
		{"beyond it", i(1.05, 1.08), i(0.96, 0.99), Faster},
		{"slower, with noise that leans up", i(0.96, 0.99), i(1.01, 1.05), NoDifference},
		{"a broken A", i(1.5, 1.6), i(0, 0), Faster},
	} {
		if got := Assess(c.ratio, c.same); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}
