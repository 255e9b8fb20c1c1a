// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"minne/internal/lab/destinations"
	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/session"
	"minne/internal/lab/statistics"
)

// Preset is an experiment of a paper.
type Preset struct {
	Name            string `json:"name"`
	Short           string `json:"short"`      // one line: what is measured
	Source          string `json:"source"`     // paper and place in it
	QuickTime, Time string `json:"-"`          // about how long it takes, for people
	Comparable      string `json:"comparable"` // what of the figures may be compared
	Not             string `json:"not_comparable"`

	rows []result.PaperRow
	run  func(ctx context.Context, e *experiment) error
}

// Presets are all of them.
func Presets() []Preset {
	return []Preset{figure6, fibTrie, multiQueue, flowLoad, crossPing, transmit, soak}
}

// Find returns the preset of a name.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("experiment %q: expected one of %s", name, strings.Join(names, ", "))
}

// Options say how to run a preset.
type Options struct {
	Means    device.Means
	Quick    bool          // rougher, in two minutes at most
	Duration time.Duration // of the soak; 0 is 24 h, or 40 s when quick
}

// experiment is a preset that runs.
type experiment struct {
	pace    pace
	means   device.Means
	session *session.Session
	at      int // of the paper in the result
	known   map[string]bool
}

// notReached is what rows say until they are measured.
const notReached = "the run ended before it came to this"

// Run carries the experiment out. What was measured so far is in the session's
// result, whatever the error.
func (p Preset) Run(ctx context.Context, s *session.Session, o Options) error {
	rhythm := fullPace
	if o.Quick {
		rhythm = quickPace
	}
	if o.Duration > 0 {
		rhythm.soak = o.Duration
	}
	return p.runAt(ctx, s, o.Means, rhythm)
}

func (p Preset) runAt(ctx context.Context, s *session.Session, means device.Means, rhythm pace) error {
	e := &experiment{pace: rhythm, means: means, session: s, known: map[string]bool{}}
	paper := result.Paper{Name: p.Name, Source: p.Source, Comparable: p.Comparable, Not: p.Not}
	for _, row := range p.rows {
		row.Missing = notReached
		paper.Rows = append(paper.Rows, row)
		e.known[row.What] = true
	}
	s.Update(func(r *result.Result) {
		e.at = len(r.Papers)
		r.Papers = append(r.Papers, paper)
	})
	return p.run(ctx, e)
}

// found enters the measured figure of a row, in the row's unit.
func (e *experiment) found(what string, measured result.Interval) {
	e.row(what, func(row *result.PaperRow) {
		row.Measured, row.Missing = measured.Median, ""
		if measured.Low != measured.High {
			row.Low, row.High = measured.Low, measured.High
		}
	})
}

// missing says why a row has no figure.
func (e *experiment) missing(what, why string) {
	e.row(what, func(row *result.PaperRow) { row.Missing = why })
}

func (e *experiment) row(what string, change func(*result.PaperRow)) {
	if !e.known[what] {
		panic("paper: no row " + what)
	}
	e.session.Update(func(r *result.Result) {
		// A snapshot of the result may be on its way to disk: rows are replaced, not changed.
		rows := append([]result.PaperRow(nil), r.Papers[e.at].Rows...)
		for i := range rows {
			if rows[i].What == what {
				change(&rows[i])
			}
		}
		r.Papers[e.at].Rows = rows
	})
}

// routers are the devices of most experiments: what the papers measured, as it is
// today, and what this project makes of it.
var routers = []device.Spec{{Kind: device.Kernel}, {Kind: device.Minne}}

// of names a row of one device.
func of(d device.Spec, what string) string { return what + ", " + d.String() }

// each returns the rows once for every router.
func each(rows ...result.PaperRow) (out []result.PaperRow) {
	for _, d := range routers {
		for _, row := range rows {
			row.What = of(d, row.What)
			out = append(out, row)
		}
	}
	return out
}

// said is a row about which the paper has no number.
func said(what, unit, says string) result.PaperRow {
	return result.PaperRow{What: what, Unit: unit, PaperSays: says}
}

// number is a row about which the paper has one.
func number(what, unit string, paper float64) result.PaperRow {
	return result.PaperRow{What: what, Unit: unit, Paper: paper}
}

// onlyDrawn is what a paper says that shows a figure without its numbers.
const onlyDrawn = "in a graph without numbers"

// plan measures devices with traffic in the open loop.
func (e *experiment) plan(devices []device.Spec, traffic []pattern.Pattern, methods ...measure.Method) (measure.Plan, error) {
	p := measure.Plan{Devices: devices, Traffic: traffic, Means: e.means, Methods: methods, WarmUp: e.pace.warmUp}
	var err error
	p.Table, err = table(traffic[0])
	return p, err
}

// table returns the routes of the device when the traffic draws its destinations from a table.
func table(p pattern.Pattern) ([]netip.Prefix, error) {
	if p.Table == "" {
		return nil, nil
	}
	t, err := destinations.Named(p.Table)
	return t.Prefixes(), err
}

// words parses a pattern of this package, which must be right.
func words(text string) pattern.Pattern {
	p, err := pattern.Parse(text)
	if err != nil {
		panic(err)
	}
	return p
}

// scaled returns the interval of repeated rates in another unit.
func scaled(rates []float64, factor float64) result.Interval {
	out := make([]float64, len(rates))
	for i, r := range rates {
		out[i] = r * factor
	}
	return statistics.Interval(out)
}

// verdict judges a comparison, if it has rounds enough for that: of fewer the
// interval is too narrow (see statistics.Interval).
func verdict(c result.Comparison) string {
	const least = 6
	if c.Rounds < least {
		return fmt.Sprintf("too few rounds for a verdict: %d, expected %d or more", c.Rounds, least)
	}
	return string(statistics.Assess(c.Ratio, c.SameSame))
}

// Factors from frames per second.
const (
	toKilo = 1e-3
	toMega = 1e-6
)

// megabits is the factor from frames of so many bytes per second to Mbit/s.
func megabits(bytes float64) float64 { return bytes * 8 * toMega }
