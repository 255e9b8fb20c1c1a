// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"minne/internal/lab/result"
)

// The sections about loss and delay: loss curves, latency, back-to-back bursts,
// recovery, and latency under saturating TCP.

func lossSection(r *result.Result, draw bool) section {
	s := section{ID: "loss", Title: "Frame loss", Method: "Loss ratio at falling loads (RFC 2544 section 26.3). Frames that the tester could not send count as lost."}
	if len(r.Loss) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "share", "offered", "forwarded", "loss"))}
	for _, c := range r.Loss {
		for _, p := range c.Points {
			t.add(c.Device, c.Traffic, size(c.Subject), percent(p.Share), packetRate(p.Offered), packetRate(p.Forward), percent(p.Loss))
		}
	}
	s.Tables = []table{t}
	if draw {
		s.Figures = lossFigures(r.Loss)
	}
	return s
}

func lossFigures(all []result.LossCurve) (out []figure) {
	for n, b := range bundles(all, func(c result.LossCurve) result.Subject { return c.Subject }) {
		var offered []float64
		for _, c := range b.members {
			for _, p := range c.Points {
				offered = append(offered, p.Offered)
			}
		}
		_, greatest, _ := bounds(offered)
		u := fitting(greatest, packetRates)
		p := linePlot{id: pictureID("loss", n, ""), title: "Loss against load: " + b.title, x: linear("Offered load ["+u.name+"]", greatest/u.size), y: lossRatios(),
			levels: []level{{"0.5 %, the loss that PDR allows", 0.005}}}
		for i, c := range b.members {
			line := series{label: b.names[i], look: style(i)}
			for _, q := range c.Points {
				line.points = append(line.points, point{q.Offered / u.size, q.Loss})
			}
			sortByX(line.points)
			p.series = append(p.series, line)
		}
		p.description = describe(p.series, " "+u.name, "loss ratio")
		out = append(out, figure{Title: p.title, Caption: "Logarithmic; trials without loss are at the bottom.", Pictures: []template.HTML{p.draw()}})
	}
	return out
}

func latencySection(r *result.Result, draw bool) section {
	s := section{ID: "latency", Title: "Latency",
		Method: "Time from sending to receiving a frame, of every frame, at shares of the PDR (RFC 2544 section 26.2, percentiles as RFC 8219 section 7.2). The figures contain the tester's own share, which the column bias shows."}
	if len(r.Latency) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "load", "offered", "min", "50 %", "90 %", "99 %", "99.9 %", "max", "bias, 50 %", "loss"))}
	for _, l := range r.Latency {
		for _, p := range l.Loads {
			t.add(append([]string{l.Device, l.Traffic, size(l.Subject), loadName(p.Share)}, delayCells(p)...)...)
		}
	}
	s.Tables = []table{t}
	if draw {
		for n, l := range r.Latency {
			names := make([]string, len(l.Loads))
			for i, p := range l.Loads {
				names[i] = loadName(p.Share)
			}
			s.Figures = append(s.Figures, latencyFigure(pictureID("latency", n, ""), "Latency: "+subjectOf(l.Subject), l.Loads, names, l.BiasNS))
		}
	}
	return s
}

func loadName(share float64) string {
	if share <= 0 {
		return "least load"
	}
	return percent(share) + " of PDR"
}

func delayCells(p result.LatencyPoint) []string {
	out := []string{packetRate(p.Offered)}
	for _, d := range []time.Duration{p.Min, p.P50, p.P90, p.P99, p.P999, p.Max, p.Bias} {
		out = append(out, elapsed(d))
	}
	return append(out, percent(p.Loss))
}

func latencyFigure(id, title string, loads []result.LatencyPoint, names []string, bias float64) figure {
	values := []float64{bias}
	p := linePlot{id: id, title: title, x: nines("Share of frames that arrived within this time (percentile)")}
	for i, l := range loads {
		line := series{label: names[i], look: style(i)}
		line.points, line.dots = percentiles(l)
		values = append(values, ys(line.points)...)
		p.series = append(p.series, line)
	}
	if bias > 0 {
		p.levels = []level{{"tester alone, " + strings.ReplaceAll("50 %: "+nanoseconds(bias), " ", "\u00a0"), bias}}
	}
	p.y = logarithmic("Latency", func(v float64) string { return tickText(v, durations) }, values...)
	for i, l := range loads {
		p.description += fmt.Sprintf("%s: median %s, 99 %% %s, maximum %s; ", names[i], elapsed(l.P50), elapsed(l.P99), elapsed(l.Max))
	}
	return figure{Title: title, Caption: "Every step to the right is one more nine. A line ends where so few frames lie beyond that one of them decides.", Pictures: []template.HTML{p.draw()}}
}

// percentiles returns the curve of a latency and where its markers stand. Without a
// spectrum, the percentiles of the table make the curve.
func percentiles(l result.LatencyPoint) (curve, dots []point) {
	n := float64(l.Spectrum.Count())
	if n == 0 {
		for _, p := range []struct {
			q float64
			d time.Duration
		}{{0.5, l.P50}, {0.9, l.P90}, {0.99, l.P99}, {0.999, l.P999}} {
			if p.d > 0 {
				curve = append(curve, point{p.q, float64(p.d)})
			}
		}
		return curve, curve
	}
	const steps = 80
	for i := range steps + 1 {
		nine := 0.30103 + (5-0.30103)*float64(i)/steps
		q := 1 - math.Pow(10, -nine)
		if i > 0 && (1-q)*n < 1 {
			break
		}
		curve = append(curve, point{q, float64(l.Spectrum.Quantile(q))})
	}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if (1-q)*n >= 1-1e-9 {
			dots = append(dots, point{q, float64(l.Spectrum.Quantile(q))})
		}
	}
	return curve, dots
}

func backToBackSection(r *result.Result, _ bool) section {
	s := section{ID: "back-to-back", Title: "Back-to-back frames",
		Method: "The longest burst without loss (RFC 2544 section 26.4, repetitions and corrected buffer time as RFC 9004 sections 5 and 6.4)."}
	if len(r.BackToBack) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame", "burst, mean", "± deviation", "repetitions", "burst rate", "throughput", "buffer time", "corrected"))}
	for _, b := range r.BackToBack {
		mean := grouped(math.Round(b.Mean)) + " frames"
		if b.Unbounded {
			mean = "no burst lost: over " + mean
		}
		t.add(b.Device, b.Traffic, size(b.Subject), mean, significant(b.Deviation), grouped(float64(len(b.Bursts))), packetRate(b.BurstRate), packetRate(b.Throughput), elapsed(b.BufferTime), elapsed(b.Corrected))
	}
	s.Tables = []table{t}
	return s
}

func recoverySection(r *result.Result, draw bool) section {
	s := section{ID: "recovery", Title: "Recovery", Method: "How long forwarding stopped, by frame loss or time stamps (RFC 6201 section 4; events of RFC 2544 sections 26.5 and 26.6)."}
	if len(r.Recovery) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "traffic"), right("frame"), left("event"), right("load", "outage, median", "least", "most", "repetitions", "lost, most"), left("method"))}
	for _, m := range r.Recovery {
		least, most := m.Outage, m.Outage
		for _, d := range m.Each {
			least, most = min(least, d), max(most, d)
		}
		lost := uint64(0)
		for _, n := range m.Lost {
			lost = max(lost, n)
		}
		t.add(m.Device, m.Traffic, size(m.Subject), m.Event, packetRate(m.Load), elapsed(m.Outage), elapsed(least), elapsed(most), grouped(float64(len(m.Each))), count(lost), m.Method)
	}
	s.Tables = []table{t}
	return s
}

func responsivenessSection(r *result.Result, draw bool) section {
	s := section{ID: "responsiveness", Title: "Responsiveness under load", Method: "Latency while TCP saturates the device both ways, compared with the latency of the idle device; round trips per minute express the same as users notice it."}
	if len(r.Responsiveness) == 0 {
		return s
	}
	t := table{Columns: columns(left("device", "state"), right("TCP", "min", "50 %", "90 %", "99 %", "99.9 %", "max", "loss", "round trips a minute"))}
	for n, m := range r.Responsiveness {
		t.add(delayRow(m.Device, "idle", none, m.Idle, none)...)
		t.add(delayRow(m.Device, "loaded", bitRate(m.BitRate), m.Loaded, significant(m.RPM))...)
		if draw {
			s.Figures = append(s.Figures, latencyFigure(pictureID("responsiveness", n, ""), "Latency idle and under load: "+m.Device, []result.LatencyPoint{m.Idle, m.Loaded}, []string{"idle", "TCP both ways"}, 0))
		}
	}
	s.Tables = []table{t}
	return s
}

func delayRow(device, state, tcp string, p result.LatencyPoint, rpm string) []string {
	out := []string{device, state, tcp}
	for _, d := range []time.Duration{p.Min, p.P50, p.P90, p.P99, p.P999, p.Max} {
		out = append(out, elapsed(d))
	}
	return append(out, percent(p.Loss), rpm)
}
