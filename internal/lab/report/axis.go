// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"
	"strings"
)

// axis maps values to places. It is made from the values that it must show, and is
// sound for any: none at all, one, all equal, zero, not a number, or huge.
type axis struct {
	label string
	lo    float64 // in the axis's own measure, see place
	hi    float64
	place func(v float64) float64 // to the axis's own measure
	ticks []tick
}

// tick is a place on an axis with its label; minor ones have none.
type tick struct {
	at    float64 // value
	label string
}

// limit keeps the arithmetic of axes away from overflow.
const limit = 1e30

// at returns where v lies on the axis, 0…1, and a bit more when v is beyond its ends.
func (a axis) at(v float64) float64 {
	if !finite(v) {
		return 0
	}
	p := (a.place(clamp(v)) - a.lo) / (a.hi - a.lo)
	return math.Max(-0.5, math.Min(1.5, p))
}

func clamp(v float64) float64 { return math.Max(-limit, math.Min(limit, v)) }

// bounds returns the least and the greatest of the values that are numbers.
func bounds(values []float64) (lo, hi float64, ok bool) {
	for _, v := range values {
		if !finite(v) {
			continue
		}
		v = clamp(v)
		if !ok {
			lo, hi, ok = v, v, true
		}
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	return lo, hi, ok
}

// linear makes an axis from 0, unless values are negative, to a bit more than the greatest value.
func linear(label string, values ...float64) axis {
	_, hi, _ := bounds(values)
	return between(label, append(values, 0, hi*1.02)...)
}

// between makes a linear axis that just holds the values, with ticks at round numbers.
func between(label string, values ...float64) axis {
	lo, hi, ok := bounds(values)
	if !ok {
		lo, hi = 0, 1
	}
	if least := 1e-9 * math.Max(math.Abs(lo), math.Abs(hi)); hi-lo <= least || hi-lo < 1e-30 {
		pad := math.Abs(hi) * 0.1
		if pad < 1e-30 {
			pad = 1
		}
		if lo = lo - pad; hi == 0 {
			lo = 0
		}
		hi += pad
	}
	step := roundStep((hi - lo) / 5)
	first, last := math.Floor(lo/step+1e-9), math.Ceil(hi/step-1e-9)
	room := 0.05 * (hi - lo)
	a := axis{label: label, lo: max(first*step, lo-room), hi: min(last*step, hi+room), place: func(v float64) float64 { return v }}
	power := int(math.Floor(math.Log10(step) + 1e-9))
	decimals := max(0, -power)
	if power <= 0 && math.Abs(step/math.Pow(10, float64(power))-2.5) < 0.01 {
		decimals++
	}
	for i := first; i <= last && len(a.ticks) < 20; i++ {
		a.ticks = append(a.ticks, tick{i * step, decimal(i*step, decimals)})
	}
	return a
}

// roundStep returns the least of 1, 2, 2.5, 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

func decimal(v float64, decimals int) string {
	if v == 0 {
		return "0"
	}
	if math.Abs(v) >= 1e7 || decimals > 6 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	if decimals == 0 && math.Abs(v) >= 10000 {
		return grouped(v)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// logarithmic makes an axis on which every power of ten takes the same room. write labels a tick.
func logarithmic(label string, write func(float64) string, values ...float64) axis {
	var positive []float64
	for _, v := range values {
		if v > 0 {
			positive = append(positive, math.Max(v, 1/limit))
		}
	}
	lo, hi, ok := bounds(positive)
	if !ok {
		lo, hi = 1, 10
	}
	room := math.Max(0.1, 0.04*math.Log10(hi/lo))
	a := axis{label: label, lo: math.Log10(lo) - room, hi: math.Log10(hi) + room, place: logPlace(math.Log10(lo) - room)}
	first, last := math.Floor(a.lo), math.Ceil(a.hi)
	every := math.Ceil((last - first) / 8)
	for d := first; d <= last; d++ {
		v := math.Pow(10, d)
		a.ticks = append(a.ticks, tick{v, ""})
		if math.Mod(d-first, every) == 0 {
			a.ticks[len(a.ticks)-1].label = write(v)
		}
		for m := 2.0; m < 10 && every == 1; m++ {
			t := tick{m * v, ""}
			if a.hi-a.lo <= 2 && (m == 2 || m == 5) {
				t.label = write(t.at)
			}
			a.ticks = append(a.ticks, t)
		}
	}
	return a
}

// logPlace puts what has no logarithm at the lower end.
func logPlace(least float64) func(float64) float64 {
	return func(v float64) float64 {
		if v <= 0 {
			return least
		}
		return math.Log10(v)
	}
}

// Loss ratios are shown from one in a million to all; "no loss" has a place of
// its own below, set off by a gap, because a logarithm has none for it.
const (
	leastLoss = 1e-6
	noLoss    = -7.0
)

func lossRatios() axis {
	a := axis{label: "Loss ratio", lo: noLoss, hi: 0, place: func(v float64) float64 {
		if v <= 0 {
			return noLoss
		}
		return math.Log10(math.Max(leastLoss, math.Min(1, v)))
	}}
	a.ticks = append(a.ticks, tick{0, "no loss"})
	for d := -6; d <= 0; d++ {
		v := math.Pow(10, float64(d))
		a.ticks = append(a.ticks, tick{v, powerOfTen(d)})
		for m := 2.0; m < 10 && d < 0; m++ {
			a.ticks = append(a.ticks, tick{m * v, ""})
		}
	}
	return a
}

func powerOfTen(d int) string {
	if d == 0 {
		return "1"
	}
	super := strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
	return "10" + super.Replace(strconv.Itoa(d))
}

// nines makes the axis of a percentile plot: every further nine takes the same room.
func nines(label string) axis {
	place := func(q float64) float64 { return -math.Log10(1 - math.Max(0, math.Min(q, 0.9999999))) }
	return axis{label: label, lo: place(0.5), hi: 5, place: place, ticks: []tick{{0.5, "50 %"}, {0.75, ""}, {0.9, "90 %"}, {0.95, ""}, {0.99, "99 %"}, {0.995, ""}, {0.999, "99.9 %"}, {0.9995, ""}, {0.9999, "99.99 %"}, {0.99995, ""}, {0.99999, "99.999 %"}}}
}

// frameSizes makes the axis of frame sizes, with ticks at the sizes of RFC 2544 section 9.1.
func frameSizes(label string, values ...float64) axis {
	_, hi, ok := bounds(values)
	if !ok || hi <= 1518 {
		a := between(label, 0, 1518)
		a.hi = 1560
		a.ticks = nil
		for _, size := range []float64{64, 128, 256, 512, 768, 1024, 1280, 1518} {
			a.ticks = append(a.ticks, tick{size, strconv.Itoa(int(size))})
		}
		return a
	}
	return linear(label, values...)
}
