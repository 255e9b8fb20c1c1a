// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one line of the result: a figure, or a check, or both.
type Row struct {
	Topic  string  `json:"topic"`
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
	Detail string  `json:"detail,omitempty"`
	Failed string  `json:"failed,omitempty"` // why the check failed
}

// Report collects what a scenario finds and tells its progress.
type Report struct {
	Rows []Row `json:"rows"`

	progress io.Writer
	start    time.Time
}

// NewReport tells progress to w, with the seconds since now.
func NewReport(w io.Writer) *Report { return &Report{progress: w, start: time.Now()} }

// Step says what is done next.
func (r *Report) Step(format string, args ...any) {
	fmt.Fprintf(r.progress, "%6.1f s  %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// Add adds a row and tells it at once.
func (r *Report) Add(row Row) {
	r.Rows = append(r.Rows, row)
	fmt.Fprintf(r.progress, "          %s %s: %s\n", row.mark(), row.What, row.text())
}

// Failed says whether any check failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Failed != "" })
}

func (row Row) mark() string {
	if row.Failed != "" {
		return "✗"
	}
	return "✓"
}

func (row Row) text() string {
	text := strings.TrimSpace(number(row.Value) + " " + row.Unit)
	if row.Unit == "ok" {
		text = "yes"
		if row.Failed != "" {
			text = "no"
		}
	}
	if row.Detail != "" {
		text += " (" + row.Detail + ")"
	}
	if row.Failed != "" {
		text += ": " + row.Failed
	}
	return text
}

// number writes a figure with as many digits as say something, in groups of three.
func number(v float64) string {
	if v != float64(int64(v)) && v < 100 {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	}
	digits := fmt.Sprintf("%.0f", v)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// WriteTable prints all rows as a table.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	topic := ""
	for _, row := range r.Rows {
		if row.Topic != topic {
			topic = row.Topic
			fmt.Fprintf(t, "\n%s\t\t\n", strings.ToUpper(topic))
		}
		fmt.Fprintf(t, "  %s %s\t%s\n", row.mark(), row.What, row.text())
	}
	return t.Flush()
}
