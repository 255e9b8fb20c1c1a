// SPDX-License-Identifier: Apache-2.0

package responsiveness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"minne/internal/lab/histogram"
	"minne/internal/lab/statistics"
)

// Line is what was measured in one direction.
type Line struct {
	Direction Direction           `json:"direction"`
	One       float64             `json:"one"`   // bit/s of payload of the host with one connection; median of windows
	Many      float64             `json:"many"`  // of that with 64
	Jain      float64             `json:"jain"`  // median of windows; 0 on the idle line
	RPM       float64             `json:"rpm"`   // round trips per minute, by the mean round trip
	Trips     histogram.Histogram `json:"trips"` // of all windows
}

// Report is a line idle, and filled in either direction.
type Report struct {
	Rate  float64 `json:"rate"` // bit/s that the line is shaped to
	Lines []Line  `json:"lines"`
}

// Run measures all three.
func Run(ctx context.Context, binary string, windows int, each time.Duration, progress func(string)) (r Report, err error) {
	progress("building a router in User-Mode Linux and three hosts")
	b, err := New(ctx, binary)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	r.Rate = LineRate
	for _, d := range []Direction{Idle, Up, Down} {
		progress("measuring the line, transfers: " + string(d))
		all, err := b.Measure(ctx, d, windows, each)
		if err != nil {
			return r, fmt.Errorf("%s: %w", d, err)
		}
		r.Lines = append(r.Lines, line(d, all))
	}
	return r, nil
}

func line(d Direction, all []Window) Line {
	l := Line{Direction: d}
	var one, many, jain []float64
	for i := range all {
		l.Trips.Add(&all[i].Trips)
		one, many, jain = append(one, all[i].Hosts[0]), append(many, all[i].Hosts[1]), append(jain, all[i].Jain())
	}
	l.One, l.Many, l.Jain = statistics.Median(one), statistics.Median(many), statistics.Median(jain)
	if mean := l.Trips.Mean(); mean > 0 {
		l.RPM = time.Minute.Seconds() / mean.Seconds()
	}
	return l
}

// WriteTable prints the report for people.
func (r Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Line of %.0f Mbit/s, cake, two hosts behind NAT: one with 1 TCP connection, one with 64\n\n", r.Rate/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "transfers\t1 connection\t64 connections\tJain's index\tround trip 50 %\t99 %\tround trips per minute\t")
	for i := range r.Lines {
		l := &r.Lines[i]
		share := fmt.Sprintf("%.1f Mbit/s\t%.1f Mbit/s\t%.3f", l.One/1e6, l.Many/1e6, l.Jain)
		if l.Direction == Idle {
			share = "-\t-\t-"
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f ms\t%.1f ms\t%.0f\t\n", l.Direction, share, milli(l.Trips.Quantile(0.5)), milli(l.Trips.Quantile(0.99)), l.RPM)
	}
	return w.Flush()
}

func milli(d time.Duration) float64 { return d.Seconds() * 1000 }
