// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"minne/internal/lab/result"
)

// The sections whose figures come with the noise of the same measurement made twice:
// comparisons and costs.

func comparisonSection(r *result.Result, draw bool) section {
	s := section{ID: "comparisons", Title: "Comparisons",
		Method: "Short trials of A, B and A again, interleaved; the figure is the median of the paired ratios with its 95 % bootstrap interval. The next column has the ratio of A to itself: a difference inside that interval is noise of this machine and no result."}
	if len(r.Comparisons) == 0 {
		return s
	}
	t := table{Columns: columns(left("B against A", "traffic"), right("frame", "A", "B", "B ÷ A", "95 % interval", "A ÷ A", "cost A ÷ B", "rounds", "voided", "lost"), left("verdict"))}
	for _, c := range r.Comparisons {
		cost := none
		if c.CostRatio != nil {
			cost = significant(c.CostRatio.Median) + " (" + interval(*c.CostRatio) + ")"
		}
		t.add(c.B+" against "+c.A, c.Traffic, size(c.Subject), packetRate(c.RateA), packetRate(c.RateB), ratio(c.Ratio.Median), interval(c.Ratio), interval(c.SameSame), cost, grouped(float64(c.Rounds)), grouped(float64(c.Voided)), count(c.Lost), c.Verdict)
	}
	s.Tables = []table{t}
	if draw {
		s.Figures = comparisonFigures(r.Comparisons)
	}
	return s
}

// interval writes the ends of an interval with digits enough to tell them apart.
func interval(i result.Interval) string { return ends(i.Low) + "–" + ends(i.High) }

func ends(v float64) string {
	if a := math.Abs(v); finite(v) && a >= 0.1 && a < 10 {
		return fmt.Sprintf("%.3f", v)
	}
	return significant(v)
}

func comparisonFigures(all []result.Comparison) []figure {
	f := figure{Title: "Ratios with their 95 % intervals",
		Caption: "Right of the line at 1, B is faster. The interval of A against itself is the noise: what overlaps it is no difference."}
	values := []float64{1}
	var rows []row
	for _, c := range all {
		r := row{label: joined(c.B+" against "+c.A, c.Traffic, size(c.Subject))}
		add := func(name string, i result.Interval, l look) {
			values = append(values, i.Low, i.Median, i.High)
			r.items = append(r.items, item{low: i.Low, high: i.High, at: i.Median, look: l, text: name + " " + significant(i.Median) + " (" + interval(i) + ")"})
		}
		add("rate", c.Ratio, solid(0))
		if c.CostRatio != nil {
			add("cost", *c.CostRatio, solid(1))
		}
		add("A ÷ A", c.SameSame, look{grey, "", "ring"})
		rows = append(rows, r)
	}
	x := ratioAxis("Ratio (more than 1: B is better)", values)
	for n, part := range chunks(rows, rowsPerPicture) {
		p := rowPlot{id: pictureID("comparisons", n, ""), title: f.Title, x: x, rows: part, line: 1, hasLine: true}
		p.description = describeRows(part)
		f.Pictures = append(f.Pictures, p.draw())
	}
	return []figure{f}
}

// ratioAxis is logarithmic when ratios differ much: twice and half are then as far from 1.
func ratioAxis(label string, values []float64) axis {
	values = slices.DeleteFunc(values, func(v float64) bool { return !finite(v) || v <= 0 })
	lo, hi, ok := bounds(values)
	if ok && hi/lo > 5 {
		return logarithmic(label, func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }, values...)
	}
	return between(label, values...)
}

func costSection(r *result.Result, draw bool) section {
	s := section{ID: "cost", Title: "CPU time per packet",
		Method: "One core, closed loop: generator, device and sink in one batch, less generator and sink alone, alternating. What remains is the device's own time for a packet. The interval of two equal measurements is the noise."}
	if len(r.Cost) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "per packet", "95 % interval", "with", "without", "A − A", "rounds", "voided", "lost"))}
	for _, c := range r.Cost {
		t.add(c.Device, c.Traffic, size(c.Subject), nanoseconds(c.PerPacket.Median), span(c.PerPacket.Low, c.PerPacket.High, durations), nanoseconds(c.With.Median), nanoseconds(c.Without.Median), span(c.SameSame.Low, c.SameSame.High, durations), grouped(float64(c.Rounds)), grouped(float64(c.Voided)), count(c.Lost))
	}
	s.Tables = []table{t}
	if draw {
		s.Figures = costFigures(r.Cost)
	}
	return s
}

func costFigures(all []result.Cost) []figure {
	f := figure{Title: "CPU time per packet of the device alone",
		Caption: "Bars are medians, whiskers 95 % intervals. The hollow marker is the difference of two equal measurements, which ought to be 0: its interval is the noise."}
	var values []float64
	for _, c := range all {
		values = append(values, c.PerPacket.High, c.PerPacket.Median, c.SameSame.High)
	}
	_, greatest, _ := bounds(values)
	u := fitting(greatest, durations)
	var rows []row
	lows := []float64{0}
	for _, c := range all {
		p, noise := c.PerPacket, c.SameSame
		lows = append(lows, p.Low/u.size, noise.Low/u.size)
		rows = append(rows, row{label: subjectOf(c.Subject), items: []item{
			{low: p.Low / u.size, high: p.High / u.size, at: p.Median / u.size, bar: true, text: nanoseconds(p.Median) + " (" + span(p.Low, p.High, durations) + ")"},
			{low: noise.Low / u.size, high: noise.High / u.size, at: noise.Median / u.size, look: look{grey, "", "ring"}, text: "A − A: " + span(noise.Low, noise.High, durations)},
		}})
	}
	x := between("CPU time per packet ["+u.name+"]", append(lows, greatest*1.02/u.size)...)
	for n, part := range chunks(rows, rowsPerPicture) {
		p := rowPlot{id: pictureID("cost", n, ""), title: f.Title, x: x, rows: part, line: 0, hasLine: true}
		p.description = describeRows(part)
		f.Pictures = append(f.Pictures, p.draw())
	}
	return []figure{f}
}
