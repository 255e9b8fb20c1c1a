// SPDX-License-Identifier: Apache-2.0

package show

import "strings"

// Paper is what a view is printed on when somebody else lays it out, such as a web page: texts and tables in the order in
// which they were printed. The zero value is empty. It never fails.
type Paper struct {
	Parts []Part
	Most  int // rows of a table that are kept; 0 for all
}

// Part is a text or a table.
type Part struct {
	Text  string // lines; "" for a table
	Table *Sheet
}

// Sheet is a table.
type Sheet struct {
	Head []Heading // none: rows alone
	Rows [][]Cell
	More int // rows that were left out
}

// Heading is a column.
type Heading struct {
	Text  string
	Right bool // figures
	Prose bool // text, which may be broken anywhere between words
}

// Cell is what stands in a row.
type Cell struct {
	Heading
	Lines []string
	Tone  string // good, warning or bad for a state; else ""
}

// Write prints a text.
func (p *Paper) Write(text []byte) (int, error) {
	if n := len(p.Parts); n == 0 || p.Parts[n-1].Table != nil {
		p.Parts = append(p.Parts, Part{})
	}
	p.Parts[len(p.Parts)-1].Text += string(text)
	return len(text), nil
}

// tones are the words for colours.
var tones = map[string]string{green: "good", yellow: "warning", red: "bad"}

// Tone says what a state is: good, warning, bad, or "" for a text that is none.
func Tone(text string) string { return tones[colour(text)] }

// put prints a table.
func (p *Paper) put(t *table, withHead bool) {
	s := &Sheet{}
	columns := t.columns(withHead)
	headings := make([]Heading, len(columns))
	for i, c := range columns {
		headings[i] = Heading{Text: c.head, Right: c.right, Prose: c.text}
	}
	if withHead {
		s.Head = headings
	}
	for n, row := range t.rows {
		if p.Most > 0 && n >= p.Most {
			s.More = len(t.rows) - n
			break
		}
		cells := make([]Cell, len(row))
		for i, text := range row {
			cells[i] = Cell{Heading: headings[i], Lines: strings.Split(text, "\n")}
			if columns[i].state {
				cells[i].Tone = Tone(text)
			}
		}
		s.Rows = append(s.Rows, cells)
	}
	p.Parts = append(p.Parts, Part{Table: s})
}
