// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Print writes a result for people.
func (r *Result) Print(out io.Writer) error {
	p := printer{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	p.line("%s", r.Name)
	for _, text := range []string{r.Source, r.With} {
		for line := range strings.Lines(text) {
			p.line("  %s", strings.TrimSpace(line))
		}
	}
	p.parts(r)
	p.compared(r)
	p.steps("What it takes and gives", r.Figures)
	if r.Supply != nil {
		p.supply(r.Supply)
	}
	p.list("Assumed, because the sheet has no value", r.Assumptions)
	p.list("Warnings", r.Warnings)
	return p.w.Flush()
}

type printer struct{ w *tabwriter.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p printer) parts(r *Result) {
	price := "Price"
	if r.Currency != "" {
		price += " " + r.Currency
	}
	if r.Year > 0 {
		price += fmt.Sprintf(" (%d)", r.Year)
	}
	p.line("\nPart\tPieces\t%s\tIdle W\tLoad W\tNote", price)
	for _, l := range r.Lines {
		p.line("%s\t%d\t%s\t%s\t%s\t%s", l.Part, l.Quantity, known(l.Price, money), known(l.Idle, num), known(l.Load, num), l.Note)
	}
	p.line("sum\t%d\t%s\t%s\t%s\t", r.Pieces, atLeast(r.Price, r.Unpriced, money), atLeast(r.SumIdle, r.Unpowered, num), atLeast(r.SumLoad, r.Unpowered, num))
	if r.Metered {
		p.line("measured\t\t\t%s\t%s\t", known(r.Idle, num), known(r.Load, num))
	}
	if r.Unpriced > 0 {
		p.line("%s of the parts have no price.", count(r.Unpriced, len(r.Lines)))
	}
	if r.Unpowered > 0 {
		p.line("%s of the parts have no watts.", count(r.Unpowered, len(r.Lines)))
	}
}

func count(n, of int) string {
	if n == of {
		return "All"
	}
	return fmt.Sprintf("%d", n)
}

func (p printer) compared(r *Result) {
	if len(r.Comparisons) == 0 {
		return
	}
	p.line("\nCompared with\tW\tPrice\tThis one takes\tThis one costs")
	for _, c := range r.Comparisons {
		p.line("%s\t%s\t%s\t%s\t%s", c.Name, known(c.Watts, num), known(c.Price, money), share(c.WattsShare), share(c.PriceShare))
	}
}

func share(s *float64) string {
	if s == nil {
		return "?"
	}
	return fmt.Sprintf("%.0f %% of it", *s*100)
}

// steps prints a figure, its formula, and the formula with the numbers put in.
func (p printer) steps(title string, steps []Step) {
	if len(steps) == 0 {
		return
	}
	p.line("\n%s", title)
	for _, s := range steps {
		unit := s.Unit
		if unit != "" {
			unit = " " + unit
		}
		p.line("%s: %s%s", s.Name, num(s.Value), unit)
		p.line("    %s = %s", s.Formula, s.Numbers)
		if s.Source != "" {
			p.line("    %s", s.Source)
		}
	}
}

func (p printer) supply(z *Sized) {
	p.steps("Supply", z.Steps)
	if z.Months != nil {
		p.line("\nThe sun at %s°, on a panel tilted by %s°, on the mean day of each month", num(z.Latitude), num(z.Tilt))
		p.line("Month\tDay\tDeclination °\tDay h\tAbove air\tClearness\tGround\tDiffuse\tBeam ratio\tPanel Wh/m²")
		for i, m := range z.Months {
			p.line("%s\t%d\t%.2f\t%.2f\t%.0f\t%.3f\t%.0f\t%.3f\t%.3f\t%.0f", months[i], m.Day, m.Declination, m.Hours, m.AboveAir, m.Clearness, m.Horizontal, m.Diffuse, m.BeamRatio, m.Tilted)
		}
	}
	p.line("\nTo buy")
	p.line("battery\t%s V %s of at least %.0f Ah", num(z.Volts), z.Chemistry, math.Ceil(z.AmpHours))
	if z.PanelPeak > 0 {
		p.line("panel\tat least %.0f Wp, tilted by %s° towards the equator (worst month: %s)", math.Ceil(z.PanelPeak), num(z.Tilt), z.Worst)
	}
	for _, c := range z.Cables {
		if c.Area > 0 {
			p.line("cable\t%s: 2 × %s mm² copper, which loses %s %%", c.Name, num(c.Area), num(c.Drop))
		}
	}
}

func (p printer) list(title string, texts []string) {
	if len(texts) == 0 {
		return
	}
	p.line("\n%s", title)
	for _, text := range texts {
		p.line("- %s", text)
	}
}

func known(v *float64, form func(float64) string) string {
	if v == nil {
		return "?"
	}
	return form(*v)
}

func atLeast(v *float64, missing int, form func(float64) string) string {
	if v != nil && missing > 0 {
		return "≥ " + form(*v)
	}
	return known(v, form)
}

// num writes a figure with at most three digits behind the point and at most five that mean something.
func num(v float64) string {
	digits := 3
	for size := math.Abs(v); size >= 10 && digits > 0; size /= 10 {
		digits--
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return strings.Replace(text, "-", "−", 1)
}

// money writes a price with its cents.
func money(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
