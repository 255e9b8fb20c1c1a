// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"minne/internal/lab/result"
)

// The page: one HTML file with its style and pictures inside, no script, and a policy
// that forbids the browser to load anything.

//go:embed page.html
var pageText string

// shownTrials is how many trials the page lists; trials.csv has all.
const shownTrials = 1000

var page = template.Must(template.New("report").Funcs(template.FuncMap{"bar": bar, "id": func(t string) string { return pictureID(t, 0, "") }}).Parse(pageText))

// pageData is what page.html sees.
type pageData struct {
	*result.Result
	Digest        string // SHA-256 of result.json
	Doubts        []string
	Summary       []string
	Run           factList
	MachineFacts  factList
	TesterFacts   factList
	DeviceTable   table
	Sections      []section
	TrialTable    table
	TrialsLeftOut int
}

func writePage(w io.Writer, r *result.Result, digest string) error {
	d := pageData{
		Result: r, Digest: digest, Doubts: Doubts(r), Summary: Summary(r), Run: runFacts(r),
		MachineFacts: machineFacts(r.Machine), TesterFacts: testerFacts(r.Tester), DeviceTable: deviceTable(r.Devices),
		Sections: sections(r, true), TrialTable: trialTable(r, shownTrials), TrialsLeftOut: max(0, len(r.Trials)-shownTrials),
	}
	for i := range d.Sections {
		for j := range d.Sections[i].Tables {
			d.Sections[i].Tables[j] = used(d.Sections[i].Tables[j])
		}
	}
	d.DeviceTable, d.TrialTable = used(d.DeviceTable), used(d.TrialTable)
	if err := page.Execute(w, d); err != nil {
		return fmt.Errorf("%s: %w", PageFile, err)
	}
	return nil
}

// unbroken is the most bytes of a figure whose unit always stays beside it.
const unbroken = 14

// used leaves out the columns in which nothing stands.
func used(t table) table {
	keep := make([]bool, len(t.Columns))
	for _, row := range t.Rows {
		for i, cell := range row {
			keep[i] = keep[i] || cell != ""
		}
	}
	out := t
	out.Columns, out.Rows, out.Bars = filter(t.Columns, keep), nil, nil
	for _, row := range t.Rows {
		row = slices.Clone(row)
		for i, cell := range row {
			if t.Columns[i].Numbers && len(cell) <= unbroken {
				row[i] = strings.ReplaceAll(cell, " ", "\u00a0")
			}
		}
		out.Rows = append(out.Rows, filter(row, keep))
	}
	for _, row := range t.Bars {
		out.Bars = append(out.Bars, filter(row, keep))
	}
	return out
}

func filter[T any](all []T, keep []bool) (out []T) {
	for i, v := range all {
		if keep[i] {
			out = append(out, v)
		}
	}
	return out
}

// bar draws a bar beside a figure of a table, or nothing when the table has none there.
func bar(t table, row, column int) template.HTML {
	if row >= len(t.Bars) || t.Bars[row][column] <= 0 || !finite(t.Bars[row][column]) {
		return ""
	}
	width := 90 * min(1, t.Bars[row][column])
	return template.HTML(strings.TrimSpace(fmt.Sprintf(`<svg class="bar" viewBox="0 0 90 10" width="90" height="10" aria-hidden="true"><rect x="0" y="1" width="%s" height="8" fill="#56B4E9" stroke="#222"/></svg>`, coordinate(width))))
}
