// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// The sections about long runs, energy, TCP and UDP, and the papers.

func sortByX(points []point) {
	slices.SortStableFunc(points, func(a, b point) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
}

func soakSection(r *result.Result, draw bool) section {
	s := section{ID: "soak", Title: "Soak", Method: "One load for a long time; the drift is the slope of the forwarding rate with its 95 % interval."}
	if len(r.Soak) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "load", "duration", "lost", "drift per hour", "95 % interval"), left("steady", "verdict"))}
	for n, m := range r.Soak {
		steady := "no"
		if m.Steady {
			steady = "yes"
		}
		t.add(m.Device, m.Traffic, size(m.Subject), packetRate(m.Load), lasting(lengthOf(m.Series)), count(m.Lost), signedPercent(m.Drift), signedPercent(m.DriftLow)+" to "+signedPercent(m.DriftHigh), steady, m.Verdict)
		if draw && len(m.Series) > 0 {
			s.Figures = append(s.Figures, soakFigure(n, m))
		}
	}
	s.Tables = []table{t}
	return s
}

func signedPercent(v float64) string {
	if !finite(v) {
		return none
	}
	return fmt.Sprintf("%+.3g %%", v*100)
}

func lengthOf(series []trial.Point) time.Duration {
	if len(series) == 0 {
		return 0
	}
	return series[len(series)-1].At
}

// soakBins is how many places of time a soak plot tells apart.
const soakBins = 300

// bin is what a soak plot shows of a stretch of time: middle, least and greatest of its intervals.
type bin struct {
	at             float64 // s
	rate, low, top float64
	delay          []float64 // medians of the intervals, ns
	lost           bool
}

func binned(series []trial.Point) (out []bin) {
	per := (len(series) + soakBins - 1) / soakBins
	before := time.Duration(0)
	for part := range slices.Chunk(series, max(1, per)) {
		b := bin{low: math.Inf(1)}
		received, start := uint64(0), before
		for _, p := range part {
			if length := (p.At - before).Seconds(); length > 0 {
				v := float64(p.Received) / length
				b.low, b.top = math.Min(b.low, v), math.Max(b.top, v)
			}
			received += p.Received
			b.lost = b.lost || p.Received < p.Sent
			if p.Latency > 0 {
				b.delay = append(b.delay, float64(p.Latency))
			}
			before = p.At
		}
		if length := (before - start).Seconds(); length > 0 {
			b.rate, b.at = float64(received)/length, start.Seconds()+length/2
			out = append(out, b)
		}
	}
	return out
}

func soakFigure(n int, m result.Soak) figure {
	bins := binned(m.Series)
	end := lengthOf(m.Series).Seconds()
	clock := fitting(end, times)
	x := between("Time ["+clock.name+"]", 0, end/clock.size)
	var tops, delays []float64
	for _, b := range bins {
		tops = append(tops, b.top)
		delays = append(delays, b.delay...)
	}
	_, greatest, _ := bounds(append(tops, m.Load))
	u := fitting(greatest, packetRates)
	rate := linePlot{id: pictureID("soak", n, "rate"), title: "Soak, forwarded rate: " + subjectOf(m.Subject), height: 210, x: x, y: linear("Forwarded ["+u.name+"]", greatest*1.08/u.size),
		levels: []level{{"offered: " + packetRate(m.Load), m.Load / u.size}}}
	delay := linePlot{id: pictureID("soak", n, "latency"), title: "Soak, median latency: " + subjectOf(m.Subject), height: 170, x: x}
	forwarded, median := series{label: "forwarded", look: look{"#0072B2", "", ""}}, series{label: "latency, median", look: look{"#0072B2", "", ""}}
	marks := 0
	for _, b := range bins {
		at := b.at / clock.size
		forwarded.points = append(forwarded.points, point{at, b.rate / u.size})
		forwarded.low, forwarded.high = append(forwarded.low, b.low/u.size), append(forwarded.high, b.top/u.size)
		if len(b.delay) > 0 {
			slices.Sort(b.delay)
			median.points = append(median.points, point{at, b.delay[len(b.delay)/2]})
			median.low, median.high = append(median.low, b.delay[0]), append(median.high, b.delay[len(b.delay)-1])
		}
		if b.lost {
			rate.troubles = append(rate.troubles, at)
			marks++
		}
	}
	rate.series, rate.trouble = []series{forwarded}, "loss"
	rate.description = fmt.Sprintf("%s over %s; loss in %d of %d stretches of time. %s", describe(rate.series, " "+clock.name, u.name), lasting(lengthOf(m.Series)), marks, len(bins), m.Verdict)
	f := figure{Title: "Soak: " + subjectOf(m.Subject), Caption: "Grey is from the least to the greatest interval within a stretch of time. A cross at the top is a stretch with loss."}
	if len(median.points) > 0 {
		du := fitting(slices.Max(delays), durations)
		for i := range median.points {
			median.points[i].y /= du.size
			median.low[i] /= du.size
			median.high[i] /= du.size
		}
		delay.y = linear("Latency ["+du.name+"]", slices.Max(delays)/du.size)
		delay.series = []series{median}
		delay.description = describe(delay.series, " "+clock.name, du.name)
		alike(&rate, &delay)
		f.Pictures = append(f.Pictures, rate.draw(), delay.draw())
		return f
	}
	f.Pictures = append(f.Pictures, rate.draw())
	return f
}

func energySection(r *result.Result, draw bool) section {
	s := section{ID: "energy", Title: "Energy", Method: "Power and CPU time at steps of load. Joules per packet and per Gbit are of the power above idle at the greatest step."}
	if len(r.Energy) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "load", "rate", "bit rate", "power", "CPU busy", "CPU per packet"))}
	sum := table{Title: "Energy per packet", Columns: columns(left("device", "traffic"), right("frame", "per packet", "per Gbit"), left("source"))}
	for _, m := range r.Energy {
		for _, p := range m.Steps {
			watts := "not measured"
			if p.Watts > 0 {
				watts = fmt.Sprintf("%.2f W", p.Watts)
			}
			t.add(m.Device, m.Traffic, size(m.Subject), percent(p.Share), packetRate(p.Rate), bitRate(p.BitRate), watts, percent(p.CPUShare), nanoseconds(p.CPUPacket))
		}
		packet, gbit, source := none, none, m.Source
		if m.JoulePerPacket != 0 {
			packet, gbit = in(m.JoulePerPacket, energies), in(m.JoulePerGbit, energies)
		}
		if m.Missing != "" {
			source = m.Missing
		}
		sum.add(m.Device, m.Traffic, size(m.Subject), packet, gbit, source)
	}
	s.Tables = []table{t, sum}
	if draw {
		s.Figures = energyFigures(r.Energy)
	}
	return s
}

func energyFigures(all []result.Energy) (out []figure) {
	var powered []result.Energy
	var joules []row
	var greatest float64
	for _, m := range all {
		if m.JoulePerPacket > 0 && finite(m.JoulePerPacket) {
			greatest = max(greatest, m.JoulePerPacket)
		}
		if slices.ContainsFunc(m.Steps, func(p result.EnergyStep) bool { return p.Watts > 0 }) {
			powered = append(powered, m)
		}
	}
	for n, b := range bundles(powered, func(m result.Energy) result.Subject { return m.Subject }) {
		out = append(out, powerFigure(n, b))
	}
	u := fitting(greatest, energies)
	for _, m := range powered {
		if m.JoulePerPacket > 0 {
			v := m.JoulePerPacket / u.size
			joules = append(joules, row{label: subjectOf(m.Subject), items: []item{{low: v, high: v, at: v, bar: true, text: in(m.JoulePerPacket, energies) + " per packet, " + in(m.JoulePerGbit, energies) + " per Gbit"}}})
		}
	}
	f := figure{Title: "Energy per packet above idle", Caption: "At the greatest step of load."}
	for n, part := range chunks(joules, rowsPerPicture) {
		p := rowPlot{id: pictureID("joules", n, ""), title: f.Title, x: linear("Energy per packet ["+u.name+"]", greatest/u.size), rows: part, description: describeRows(part)}
		f.Pictures = append(f.Pictures, p.draw())
	}
	if len(f.Pictures) > 0 {
		out = append(out, f)
	}
	return out
}

func powerFigure(n int, b bundle[result.Energy]) figure {
	var rates, watts []float64
	for _, m := range b.members {
		for _, p := range m.Steps {
			rates, watts = append(rates, p.Rate), append(watts, p.Watts)
		}
	}
	_, fastest, _ := bounds(rates)
	u := fitting(fastest, packetRates)
	p := linePlot{id: pictureID("power", n, ""), title: "Power over load: " + b.title, x: linear("Forwarded ["+u.name+"]", fastest/u.size), y: linear("Power [W]", watts...)}
	for i, m := range b.members {
		line := series{label: b.names[i] + " (" + m.Source + ")", look: style(i)}
		for _, q := range m.Steps {
			if q.Watts > 0 {
				line.points = append(line.points, point{q.Rate / u.size, q.Watts})
			}
		}
		sortByX(line.points)
		p.series = append(p.series, line)
	}
	p.description = describe(p.series, " "+u.name, "W")
	return figure{Title: p.title, Caption: "From idle at the left to the greatest load.", Pictures: []template.HTML{p.draw()}}
}

func matrixSection(r *result.Result, _ bool) section {
	s := section{ID: "matrix", Title: "TCP and UDP", Method: "iperf3 transfers over both IP versions at the packet sizes of the platform benchmarking paper; rates are of the payload that arrived."}
	for _, m := range r.Matrix {
		greatest := 0.0
		for _, c := range m.Cells {
			greatest = max(greatest, c.BitRate)
		}
		t := table{Title: joined(m.Device, m.Path), Columns: columns(left("family", "protocol"), right("packet", "payload", "goodput", "packets", "loss", "retransmits", "CPU"), left("remark"))}
		for _, c := range m.Cells {
			cells := []string{c.Family, c.Protocol, fmt.Sprintf("%d B", c.Bytes), fmt.Sprintf("%d B", c.Payload), bitRate(c.BitRate), packetRate(c.Packets), percent(c.Loss), grouped(float64(c.Retransmits)), significant(c.CPUPercent) + " %", c.Failed}
			if c.Protocol == "TCP" {
				cells[6] = none
			} else {
				cells[7] = none
			}
			if c.Packets == 0 {
				cells[5] = none
			}
			if c.Failed != "" {
				cells[4], cells[5], cells[6], cells[7], cells[8] = none, none, none, none, none
			}
			bars := make([]float64, len(cells))
			if greatest > 0 && finite(greatest) && c.Failed == "" {
				bars[4] = c.BitRate / greatest
			}
			t.Rows, t.Bars = append(t.Rows, cells), append(t.Bars, bars)
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

// unmeasured says why rows of a paper have no figure beside them, each reason once.
func unmeasured(rows []result.PaperRow) (notes []string) {
	var reasons []string
	rowsOf := map[string][]string{}
	for _, w := range rows {
		if w.Missing == "" {
			continue
		}
		if rowsOf[w.Missing] == nil {
			reasons = append(reasons, w.Missing)
		}
		rowsOf[w.Missing] = append(rowsOf[w.Missing], w.What)
	}
	for _, why := range reasons {
		notes = append(notes, "Not measured: "+strings.Join(rowsOf[why], "; ")+": "+why)
	}
	return notes
}

func paperSection(r *result.Result, _ bool) section {
	s := section{ID: "papers", Title: "Comparison with the papers", Method: "What a paper reports and what was measured here. Read what may be compared before comparing."}
	for _, p := range r.Papers {
		t := table{Title: joined(p.Name, p.Source), Columns: columns(left("figure"), right("paper", "measured", "interval"), left("unit"))}
		for _, w := range p.Rows {
			paper, span := w.PaperSays, none
			if w.Paper != 0 {
				paper = significant(w.Paper)
			}
			paper = cmp.Or(paper, none)
			if w.Low != 0 || w.High != 0 {
				span = significant(w.Low) + "–" + significant(w.High)
			}
			measured := significant(w.Measured)
			if w.Missing != "" {
				measured = none
			}
			t.add(w.What, paper, measured, span, w.Unit)
		}
		t.Notes = append(t.Notes, unmeasured(p.Rows)...)
		if p.Comparable != "" {
			t.Notes = append(t.Notes, "Comparable: "+p.Comparable)
		}
		if p.Not != "" {
			t.Notes = append(t.Notes, "Not comparable: "+p.Not)
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}
