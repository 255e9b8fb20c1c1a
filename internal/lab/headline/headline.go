// SPDX-License-Identifier: Apache-2.0

// Package headline measures the few figures by which Minne is judged, in one run
// of minutes: what `minne lab headline` prints, and what is compared from one
// state of the program to the next.
//
// Each figure has an id that never changes its meaning, an interval, and the
// interval of the same measurement against itself. A capability adds its figures
// by a line in the list of figures.go. What can't be measured on a machine is
// listed with the reason, never left out and never guessed.
package headline

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"minne/internal/lab/result"
)

// Figure is one line of the headline.
type Figure struct {
	ID      string `json:"id"`
	What    string `json:"what"`
	Unit    string `json:"unit"` // "×" for ratios, "ns"
	Against string `json:"against"`
	*Measured
	Missing string `json:"missing,omitempty"` // why it could not be measured; then there are no values
}

// Measured is a figure's value with its 95 % interval, and the interval of the
// same measurement against itself: what is inside that is noise. For a ratio that
// is around 1, for a difference around 0.
type Measured struct {
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	AALow  float64 `json:"aa_low"`
	AAHigh float64 `json:"aa_high"`
}

func measured(value, same result.Interval) Measured {
	return Measured{Value: value.Median, Low: value.Low, High: value.High, AALow: same.Low, AAHigh: same.High}
}

// Headline is all figures.
type Headline struct {
	Figures []Figure `json:"figures"`
}

// definition is how a figure comes about.
type definition struct {
	id, what, unit, against string
	measure                 func(context.Context, *Bench) (Measured, error)
}

// Measure measures all figures. Its error is that of ctx; a figure that can't be measured is
// among the others, with the reason.
func Measure(ctx context.Context, o Options) (Headline, error) {
	b := &Bench{Options: o}
	defer b.release()
	return measure(ctx, b, figures)
}

func measure(ctx context.Context, b *Bench, all []definition) (h Headline, err error) {
	for _, d := range all {
		b.Progress("measuring " + d.id)
		f := Figure{ID: d.id, What: d.what, Unit: d.unit, Against: d.against}
		m, err := d.measure(ctx, b)
		if ctx.Err() != nil {
			return h, ctx.Err()
		}
		if err != nil {
			f.Missing = err.Error()
		} else {
			f.Measured = &m
		}
		h.Figures = append(h.Figures, f)
	}
	return h, nil
}

// WriteTable prints the figures for people.
func (h Headline) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tvalue\t95 % interval\tA/A\twhat\tagainst\t")
	for _, f := range h.Figures {
		if f.Measured == nil {
			fmt.Fprintf(w, "%s\tmissing: %s\n", f.ID, f.Missing)
			continue
		}
		digits := 2
		if f.Unit != "×" {
			digits = 1
		}
		between := func(low, high float64) string { return fmt.Sprintf("%.*f to %.*f", digits, low, digits, high) }
		fmt.Fprintf(w, "%s\t%.*f %s\t%s\t%s\t%s\t%s\t\n", f.ID, digits, f.Value, f.Unit, between(f.Low, f.High), between(f.AALow, f.AAHigh), f.What, f.Against)
	}
	return w.Flush()
}
