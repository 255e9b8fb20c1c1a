// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"minne/internal/lab/result"
)

// WriteTables prints a result for a terminal: doubts first, then the summary, then
// every section's tables.
func WriteTables(w io.Writer, r *result.Result) error {
	p := &printer{w: w}
	p.line(r.Title)
	for _, d := range Doubts(r) {
		p.linef("! %s", d)
	}
	p.line("")
	for _, f := range runFacts(r) {
		p.linef("  %s: %s", f.Name, f.Value)
	}
	p.body(Summary(r), sections(r, false), r.Notes)
	if len(r.Trials) > 0 {
		p.line("")
		p.linef("%d trials; their counters are in trials.csv and result.json", len(r.Trials))
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(terminalText(text), " "))
	}
}

func (p *printer) linef(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// body prints what was found in words, then in tables, then what there is to note.
func (p *printer) body(summary []string, sections []section, notes []string) {
	p.list("summary", summary)
	for _, s := range sections {
		p.heading(s.Title)
		for _, t := range s.Tables {
			if t.Title != "" {
				p.line(t.Title)
			}
			p.table(t)
			p.list("", t.Notes)
		}
	}
	p.list("notes", notes)
}

// list prints lines below a heading; neither when there are none.
func (p *printer) list(heading string, lines []string) {
	if len(lines) > 0 && heading != "" {
		p.heading(heading)
	}
	for _, l := range lines {
		p.linef("  %s", l)
	}
}

// heading leaves a line free above.
func (p *printer) heading(text string) {
	p.line("")
	p.line(strings.ToUpper(text))
}

// terminalText keeps what a shared file says from steering the reader's terminal.
func terminalText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

// table prints columns that stand under each other, numbers to the right. Columns
// in which nothing stands are left out.
func (p *printer) table(t table) {
	lines := append([][]string{names(t.Columns)}, t.Rows...)
	widths, used := make([]int, len(t.Columns)), make([]bool, len(t.Columns))
	for n, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(terminalText(cell)))
			used[i] = used[i] || n > 0 && cell != ""
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			if !used[i] {
				continue
			}
			cell = terminalText(cell)
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if b.WriteString("  "); t.Columns[i].Numbers {
				b.WriteString(space + cell)
			} else {
				b.WriteString(cell + space)
			}
		}
		p.line(b.String())
	}
}

func names(all []column) (out []string) {
	for _, c := range all {
		out = append(out, c.Name)
	}
	return out
}
