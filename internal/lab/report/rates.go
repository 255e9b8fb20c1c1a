// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"minne/internal/lab/result"
)

// The sections about rates: throughput, the greatest rate received, and the low-power
// router paper's Figure 6, the rate against the frame size.

// wireOverhead is what Ethernet adds to every frame: preamble, start delimiter and gap.
const wireOverhead = 20

// ethernetRate is the most frames per second that a line carries in one direction.
func ethernetRate(lineBPS, size float64) float64 { return lineBPS / 8 / (size + wireOverhead) }

func throughputSection(r *result.Result, draw bool) section {
	s := section{ID: "throughput", Title: "Throughput",
		Method: "Searched by MLRsearch (RFC 9971; the RFC 2544 goal is section 26.1): the lower bound is the greatest load that met the goal, the upper bound the least that did not, both as offered frames per second of all directions together. The conditional throughput is what was forwarded at the lower bound in its worst trials that count (RFC 9971 section 4.9.3)."}
	if len(r.Throughput) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame"), left("goal"), right("lower", "upper", "conditional", "at lower bound", "trials", "took"), left("remark"))}
	for _, m := range r.Throughput {
		for _, b := range m.Bounds {
			t.add(m.Device, m.Traffic, size(m.Subject), b.Goal.Name, lowerText(b), upperText(b), exactRate(b.Conditional), bitRate(carried(m.Subject, b.Lower)), grouped(float64(m.Trials)), lasting(m.Took), b.Irregular)
		}
		if len(m.Bounds) == 0 {
			t.add(m.Device, m.Traffic, size(m.Subject), none, none, none, none, none, grouped(float64(m.Trials)), lasting(m.Took), "no goal reached an end")
		}
	}
	s.Tables = []table{t, goalTable(r)}
	if draw {
		s.Figures = append(rateFigures(r, "throughput", "Throughput", throughputRates(r)), boundFigures(r)...)
	}
	return s
}

func lowerText(b result.Bound) string {
	if b.Lower <= 0 {
		return "none found"
	}
	return exactRate(b.Lower)
}

// exactRate has one digit more, since bounds are often half a percent apart.
func exactRate(fps float64) string {
	u := fitting(fps, packetRates)
	return digits(fps/u.size, 4) + " " + u.name
}

func upperText(b result.Bound) string {
	if b.Unlimited {
		return "beyond the tester"
	}
	if b.Upper <= 0 {
		return "none found"
	}
	return exactRate(b.Upper)
}

// goalTable says what the names of the goals mean.
func goalTable(r *result.Result) table {
	t := table{Title: "Goals", Columns: columns(left("goal"), right("loss ratio", "exceed ratio", "final trial", "duration sum", "width"))}
	seen := map[result.Goal]bool{}
	for _, m := range r.Throughput {
		for _, b := range m.Bounds {
			if g := b.Goal; !seen[g] {
				seen[g] = true
				t.add(g.Name, percent(g.LossRatio), percent(g.ExceedRatio), elapsed(g.FinalDuration), elapsed(g.DurationSum), percent(g.Width))
			}
		}
	}
	return t
}

// sized is a rate at a frame size.
type sized struct {
	device, traffic string
	size, fps       float64
}

// throughputRates returns the lower bounds of the strictest goal.
func throughputRates(r *result.Result) (out []sized) {
	for _, m := range r.Throughput {
		if b, ok := strictest(m.Bounds); ok && m.FrameSize > 0 {
			out = append(out, sized{m.Device, m.Traffic, float64(m.FrameSize), b.Lower})
		}
	}
	return out
}

func strictest(all []result.Bound) (result.Bound, bool) {
	if len(all) == 0 {
		return result.Bound{}, false
	}
	return slices.MinFunc(all, func(a, b result.Bound) int {
		switch {
		case a.Goal.LossRatio < b.Goal.LossRatio:
			return -1
		case a.Goal.LossRatio > b.Goal.LossRatio:
			return 1
		}
		return 0
	}), true
}

// line is a rate of Ethernet to compare with.
type line struct {
	label string
	bps   float64
}

// lines returns the ports' line rate, or where ports have none (veth), rates of
// Ethernet near the figures, said to be for reference.
func lines(r *result.Result, rates []sized) []line {
	if r.Tester.LineRate > 0 {
		return []line{{"theoretical, line rate of the ports: " + bitRate(r.Tester.LineRate), r.Tester.LineRate}}
	}
	greatest := 0.0
	for _, x := range rates {
		if finite(x.fps) {
			greatest = max(greatest, x.fps*(x.size+wireOverhead)*8)
		}
	}
	speeds := []float64{1e9, 10e9, 25e9, 100e9, 400e9}
	i := 0
	for i < len(speeds)-2 && speeds[i+1] < greatest {
		i++
	}
	var out []line
	for _, bps := range speeds[i : i+2] {
		out = append(out, line{"for reference: " + bitRate(bps) + " Ethernet (these ports have no line rate)", bps})
	}
	return out
}

// rateFigures draws the rate against the frame size, one figure per kind of traffic.
func rateFigures(r *result.Result, kind, name string, rates []sized) (out []figure) {
	var kinds []string
	for _, x := range rates {
		if !slices.Contains(kinds, x.traffic) {
			kinds = append(kinds, x.traffic)
		}
	}
	for n, traffic := range kinds {
		var mine []sized
		sizes := map[float64]bool{}
		for _, x := range rates {
			if x.traffic == traffic {
				mine = append(mine, x)
				sizes[x.size] = true
			}
		}
		if len(sizes) < 2 {
			continue // one size is no curve; the bounds show it
		}
		f := figure{Title: name + " against frame size: " + traffic,
			Caption: "Rates of all directions together; frame sizes and bit rates with FCS, without preamble and gap. The theoretical lines are one direction of Ethernet (RFC 2544 appendix B)."}
		against := lines(r, mine)
		bits := ratePlot(pictureID(kind, n, "bits"), f.Title, mine, against, true)
		packets := ratePlot(pictureID(kind, n, "packets"), f.Title, mine, against, false)
		alike(&bits, &packets)
		f.Pictures = []template.HTML{bits.draw(), packets.draw()}
		out = append(out, f)
	}
	return out
}

func ratePlot(id, title string, rates []sized, against []line, bits bool) linePlot {
	what, units := "Packet rate", packetRates
	if bits {
		what, units = "Bit rate", bitRates
	}
	measure := func(size, fps float64) float64 {
		if bits {
			return fps * size * 8
		}
		return fps
	}
	var sizes, values []float64
	greatest := 0.0
	for _, x := range rates {
		sizes = append(sizes, x.size)
		if v := measure(x.size, x.fps); finite(v) {
			values, greatest = append(values, v), max(greatest, clamp(v))
		}
	}
	u := fitting(greatest, units)
	p := linePlot{id: id, title: title + ", " + strings.ToLower(what), x: frameSizes("Frame size with FCS [bytes]", sizes...)}
	lo, hi, _ := bounds(append(sizes, 64, 1518))
	top := greatest
	for i, l := range against {
		curve := theoretical(l.bps, lo, hi, measure, u.size)
		if _, most, _ := bounds(ys(curve)); i == 0 || most*u.size <= 2.5*greatest {
			top = max(top, most*u.size)
			p.series = append(p.series, series{label: l.label, points: curve, look: look{grey, []string{"6 3", "1.5 3"}[i%2], ""}})
		}
	}
	if p.y = linear(what+" ["+u.name+"]", top/u.size); !bits { // small frames come ten times as fast as large ones
		for _, s := range p.series {
			values = append(values, scaled(ys(s.points), u.size)...)
		}
		p.y = logarithmic(what, func(v float64) string { return tickText(v*u.size, packetRates) }, scaled(values, 1/u.size)...)
	}
	for i, device := range devicesOf(rates) {
		s := series{label: device, look: style(i)}
		for _, x := range rates {
			if x.device == device {
				s.points = append(s.points, point{x.size, measure(x.size, x.fps) / u.size})
			}
		}
		slices.SortFunc(s.points, func(a, b point) int { return int(a.x - b.x) })
		p.series = append(p.series, s)
	}
	p.description = describe(p.series, " B", u.name)
	return p
}

func devicesOf(rates []sized) (out []string) {
	for _, x := range rates {
		if !slices.Contains(out, x.device) {
			out = append(out, x.device)
		}
	}
	return out
}

func theoretical(bps, lo, hi float64, measure func(size, fps float64) float64, unit float64) (out []point) {
	const steps = 60
	for i := range steps + 1 {
		size := lo * math.Pow(hi/lo, float64(i)/steps)
		out = append(out, point{size, measure(size, ethernetRate(bps, size)) / unit})
	}
	return out
}

func ys(points []point) (out []float64) {
	for _, p := range points {
		out = append(out, p.y)
	}
	return out
}

func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}

// describe says in words what a line plot shows: for every series its first and last point.
func describe(all []series, xUnit, yUnit string) string {
	var out []string
	for _, s := range all {
		if len(s.points) == 0 {
			continue
		}
		a, z := s.points[0], s.points[len(s.points)-1]
		out = append(out, fmt.Sprintf("%s: from %s %s at %s%s to %s %s at %s%s", s.label, significant(a.y), yUnit, significant(a.x), xUnit, significant(z.y), yUnit, significant(z.x), xUnit))
	}
	return strings.Join(out, "; ")
}

// rowsPerPicture keeps a picture of rows on one printed page.
const rowsPerPicture = 16

func boundFigures(r *result.Result) (out []figure) {
	f := figure{Title: "Bounds of the throughput for every goal",
		Caption: "The line goes from the lower to the upper bound; the marker is the lower bound. Text with at least: even the greatest load met the goal."}
	var goals []string
	var values []float64
	for _, m := range r.Throughput {
		for _, b := range m.Bounds {
			values = append(values, b.Lower, b.Upper)
			if !slices.Contains(goals, b.Goal.Name) {
				goals = append(goals, b.Goal.Name)
			}
		}
	}
	_, greatest, _ := bounds(values)
	u := fitting(greatest, packetRates)
	var rows []row
	for _, m := range r.Throughput {
		row := row{label: subjectOf(m.Subject)}
		for _, b := range m.Bounds {
			upper, text := b.Upper, b.Goal.Name+": "+span(b.Lower, b.Upper, packetRates)
			if upper <= 0 {
				upper, text = b.Lower, b.Goal.Name+": at least "+packetRate(b.Lower)
			}
			if b.Lower <= 0 {
				text = b.Goal.Name + ": below " + packetRate(upper)
			}
			if b.Lower <= 0 && b.Upper <= 0 {
				text = b.Goal.Name + ": not found"
			}
			row.items = append(row.items, item{low: b.Lower / u.size, high: upper / u.size, at: b.Lower / u.size, look: solid(slices.Index(goals, b.Goal.Name)), text: text})
		}
		if len(row.items) > 0 {
			rows = append(rows, row)
		}
	}
	for n, part := range chunks(rows, rowsPerPicture) {
		p := rowPlot{id: pictureID("bounds", n, ""), title: f.Title, x: linear("Offered load ["+u.name+"]", greatest/u.size), rows: part}
		p.description = describeRows(part)
		f.Pictures = append(f.Pictures, p.draw())
	}
	if len(f.Pictures) > 0 {
		out = append(out, f)
	}
	return out
}

// solid is a look without dashes, for intervals that are too short to show them.
func solid(i int) look {
	l := style(i)
	l.dash = ""
	return l
}

func chunks[T any](all []T, n int) (out [][]T) {
	for part := range slices.Chunk(all, n) {
		out = append(out, part)
	}
	return out
}

func describeRows(rows []row) string {
	var out []string
	for _, r := range rows {
		for _, i := range r.items {
			out = append(out, r.label+": "+i.text)
		}
	}
	return strings.Join(out, "; ")
}

func mrrSection(r *result.Result, draw bool) section {
	s := section{ID: "mrr", Title: "Greatest rate received",
		Method: "Frames per second that came back while the tester sent as fast as it can, several trials in a row (FD.io CSIT: maximum receive rate). Loss is allowed, so this is not a throughput."}
	if len(r.MRR) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "offered", "received, mean", "± deviation", "bit rate", "trials"))}
	var rates []sized
	for _, m := range r.MRR {
		t.add(m.Device, m.Traffic, size(m.Subject), packetRate(m.Offered), packetRate(m.Mean), packetRate(m.Deviation), bitRate(carried(m.Subject, m.Mean)), grouped(float64(len(m.Rates))))
		if m.FrameSize > 0 {
			rates = append(rates, sized{m.Device, m.Traffic, float64(m.FrameSize), m.Mean})
		}
	}
	s.Tables = []table{t}
	if draw {
		s.Figures = rateFigures(r, "mrr", "Forwarded rate", rates)
	}
	return s
}
