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
	"slices"
	"strings"
	"text/tabwriter"

	"minne/internal/lab/result"
)

// Figure is one line of the headline.
type Figure struct {
	ID      string `json:"id"`
	What    string `json:"what"`
	Unit    string `json:"unit"` // "×" for ratios, "ns", "ms"
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

// Measure measures the figures that are asked for. Its error is that of ctx, or says which figure there is not;
// one that can't be measured is among the others, with the reason.
func Measure(ctx context.Context, o Options) (Headline, error) {
	chosen, err := choose(figures, o.Only)
	if err != nil {
		return Headline{}, err
	}
	b := &Bench{Options: o}
	defer b.release()
	return measure(ctx, b, chosen)
}

// choose returns the figures that only speaks of, in their order.
func choose(all []definition, only []string) (chosen []definition, err error) {
	if len(only) == 0 {
		return all, nil
	}
	meant := func(word, id string) bool { return id == word || strings.HasPrefix(id, word+".") }
	for _, word := range only {
		if !slices.ContainsFunc(all, func(d definition) bool { return meant(word, d.id) }) {
			var ids []string
			for _, d := range all {
				ids = append(ids, d.id)
			}
			return nil, fmt.Errorf("no figure %q; expected one of %s, or the beginning of some of them as policy", word, strings.Join(ids, ", "))
		}
	}
	for _, d := range all {
		if slices.ContainsFunc(only, func(word string) bool { return meant(word, d.id) }) {
			chosen = append(chosen, d)
		}
	}
	return chosen, nil
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
