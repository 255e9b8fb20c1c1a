// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
)

// Document is a report about something else than a result of the lab, such as the
// benchmark of platforms: it looks the same, on a page and on a terminal.
type Document struct {
	Title    string
	Facts    []Fact
	Summary  []string // what it found, in words
	Sections []Section
	Notes    []string
}

// What documents are made of.
type (
	Fact    = fact
	Section = section
	Figure  = figure
	Table   = table
	Column  = column
)

//go:embed document.html
var documentText string

var documentPage = template.Must(template.Must(page.Clone()).Parse(documentText))

// WritePage writes the document as one HTML file that needs nothing else.
func (d *Document) WritePage(w io.Writer) error {
	shown := *d
	shown.Sections = append([]Section(nil), d.Sections...)
	for i, s := range shown.Sections {
		shown.Sections[i].Tables = nil
		for _, t := range s.Tables {
			shown.Sections[i].Tables = append(shown.Sections[i].Tables, used(t))
		}
	}
	return documentPage.ExecuteTemplate(w, "document", shown)
}

// WriteTerminal prints the document without its pictures.
func (d *Document) WriteTerminal(w io.Writer) error {
	p := &printer{w: w}
	p.line(d.Title)
	p.line("")
	for _, f := range d.Facts {
		p.linef("  %s: %s", f.Name, f.Value)
	}
	p.body(d.Summary, d.Sections, d.Notes)
	return p.err
}

// Bar is a value with its interval in a plot of bars; bars with the same label stand together.
type Bar struct {
	Label string
	Value result.Interval
	Text  string // stands beside it
}

// Bars draws bars from zero. id must be the page's only one of this name.
func Bars(id, title, label string, bars []Bar) template.HTML {
	values := []float64{}
	for _, b := range bars {
		values = append(values, b.Value.Median, b.Value.High)
	}
	p := rowPlot{id: pictureID(id, 0, ""), title: title, x: linear(label, values...)}
	for _, b := range bars {
		it := item{low: b.Value.Low, high: b.Value.High, at: b.Value.Median, bar: true, text: b.Text}
		if n := len(p.rows); n > 0 && p.rows[n-1].label == b.Label {
			p.rows[n-1].items = append(p.rows[n-1].items, it)
			continue
		}
		p.rows = append(p.rows, row{label: b.Label, items: []item{it}})
	}
	for _, b := range bars {
		p.description += fmt.Sprintf("%s: %s. ", b.Label, b.Text)
	}
	return p.draw()
}

// Nanoseconds writes a time; Bytes an amount of memory.
func Nanoseconds(ns float64) string { return nanoseconds(ns) }

// Bytes writes an amount of memory.
func Bytes(n float64) string {
	return in(n, []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}})
}

// Significant writes a number with three significant digits.
func Significant(v float64) string {
	if math.IsNaN(v) {
		return none
	}
	return significant(v)
}

// MachineFacts say on what computer something was measured.
func MachineFacts(m machine.Machine) []Fact { return machineFacts(m) }

// MatrixSection shows what hosts transfer.
func MatrixSection(all []result.Matrix, draw bool) Section {
	return matrixSection(&result.Result{Matrix: all}, draw)
}
