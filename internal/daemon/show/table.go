// SPDX-License-Identifier: Apache-2.0

// Package show prints what the daemon tells as tables, in the words that
// operators know from Cisco and FRR, and says what the answers look like. Every function is pure: values in,
// text out. It knows nothing of the daemon.
package show

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table lays rows out in columns, two spaces apart. Signs in front of a column's
// head say what it is: ">" figures, set to the right; "~" text, which may go on in
// the next line; "!" a state, which has a colour; "|" begins a new line when the table
// is folded. A cell may have several lines.
//
// A table that is wider than the screen is folded: columns that don't fit stand in
// further lines, indented, below their heads.
type table struct {
	head []string
	rows [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// ifAny leaves out those of the named columns that have only "-".
func (t *table) ifAny(names ...string) {
	for _, name := range names {
		at := slices.Index(t.head, name)
		if at < 0 || slices.ContainsFunc(t.rows, func(row []string) bool { return row[at] != "-" }) {
			continue
		}
		t.head = slices.Delete(t.head, at, at+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], at, at+1)
		}
	}
}

// Table is a table for other packages.
type Table struct{ table }

// NewTable returns a table with these columns; signs in front of their heads: > figures, ~ text, ! state, | a new line when folded.
func NewTable(head ...string) *Table { return &Table{table{head: head}} }

// Row adds a row.
func (t *Table) Row(cells ...string) { t.row(cells...) }

// Write prints the table.
func (t *Table) Write(w io.Writer) error { return t.write(w) }

// column is how a column is set.
type column struct {
	head               string
	right, text, state bool
	breaks             bool // begins a line of a folded table
	width              int
}

// leastText is how narrow a column of text may become before it goes into a line
// of its own; foldIndent is how far such lines are indented.
const (
	leastText  = 24
	foldIndent = 4
)

func (t *table) write(w io.Writer) error { return t.layOut(w, true) }

// rowsOnly writes the table without its head.
func (t *table) rowsOnly(w io.Writer) error { return t.layOut(w, false) }

func (t *table) layOut(w io.Writer, withHead bool) error {
	if paper, ok := w.(*Paper); ok {
		paper.put(t, withHead)
		return nil
	}
	screen, _ := w.(*Screen)
	columns := t.columns(withHead)
	lines := [][]int{make([]int, len(columns))}
	for i := range columns {
		lines[0][i] = i
	}
	if width := screen.width(); width > 0 {
		lines = fold(columns, width)
	}
	if withHead {
		head := make([]string, len(columns))
		for i, c := range columns {
			head[i] = c.head
		}
		if err := writeRow(w, nil, columns, lines, head); err != nil {
			return err
		}
	}
	for _, row := range t.rows {
		if err := writeRow(w, screen, columns, lines, row); err != nil {
			return err
		}
	}
	return nil
}

// columns reads the signs of the heads and measures the cells.
func (t *table) columns(withHead bool) []column {
	columns := make([]column, len(t.head))
	for i, h := range t.head {
		c := &columns[i]
		c.head = strings.TrimLeft(h, ">~!|")
		signs := h[:len(h)-len(c.head)]
		c.right, c.text, c.state = strings.Contains(signs, ">"), strings.Contains(signs, "~"), strings.Contains(signs, "!")
		c.breaks = strings.Contains(signs, "|")
		if withHead {
			c.width = utf8.RuneCountInString(c.head)
		}
	}
	for _, row := range t.rows {
		for i, cell := range row {
			for line := range strings.SplitSeq(cell, "\n") {
				columns[i].width = max(columns[i].width, utf8.RuneCountInString(line))
			}
		}
	}
	return columns
}

// fold shares columns out to lines that are no wider than width, and makes columns of
// text narrower where that helps.
func fold(columns []column, width int) (lines [][]int) {
	var line []int
	used := 0
	widen := func() { // what is left of a line is its texts'
		for _, i := range line {
			if c := &columns[i]; c.text {
				more := min(c.width-least(c), max(0, width-used))
				c.width = least(c) + more
				used += more
			}
		}
	}
	total := -2
	for i := range columns {
		total += 2 + least(&columns[i])
	}
	for i := range columns {
		need := least(&columns[i])
		if len(line) > 0 && (used+2+need > width || total > width && columns[i].breaks) {
			widen()
			lines, line, used = append(lines, line), nil, foldIndent
		}
		if len(line) > 0 {
			used += 2
		}
		line = append(line, i)
		used += need
	}
	widen()
	return append(lines, line)
}

// least is the narrowest that a column can be.
func least(c *column) int {
	if c.text {
		return min(c.width, max(leastText, utf8.RuneCountInString(c.head)))
	}
	return c.width
}

// writeRow writes a row in as many lines as its columns and cells need.
func writeRow(w io.Writer, screen *Screen, columns []column, lines [][]int, row []string) error {
	for n, line := range lines {
		cells, height := make([][]string, len(line)), 0
		for at, i := range line {
			if i < len(row) && row[i] != "" {
				cells[at] = cellLines(row[i], columns[i])
				height = max(height, len(cells[at]))
			}
		}
		if n == 0 {
			height = max(height, 1)
		}
		for h := range height {
			var b strings.Builder
			blanks := 0 // that stand before the next word, if there is one
			if n > 0 {
				blanks = foldIndent
			}
			for at, i := range line {
				text := ""
				if h < len(cells[at]) {
					text = cells[at][h]
				}
				pad := columns[i].width - utf8.RuneCountInString(text)
				if columns[i].right {
					blanks += pad
				}
				if text != "" {
					b.WriteString(strings.Repeat(" ", max(blanks, 0)))
					blanks = 0
					if columns[i].state {
						text = screen.paint(text)
					}
					b.WriteString(text)
				}
				if !columns[i].right {
					blanks += pad
				}
				blanks += 2
			}
			if _, err := io.WriteString(rawOf(w), b.String()+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// cellLines are the lines of a cell, no wider than its column where that is text.
func cellLines(cell string, c column) (lines []string) {
	for line := range strings.SplitSeq(cell, "\n") {
		if c.text {
			lines = append(lines, wrap(line, c.width, 0)...)
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}

// count prints a number with its thousands apart: 1,062,046.
func count[N int | uint32 | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// bytes prints a size with the largest unit that keeps three figures.
func bytes(n uint64) string { return scaled(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB") }

// bits prints a rate in bit/s.
func bits(perSecond float64) string {
	return scaled(perSecond, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// packets prints a rate in packets/s.
func packets(perSecond float64) string { return scaled(perSecond, 1000, "pps", "kpps", "Mpps") }

func scaled(v, step float64, units ...string) string {
	unit := 0
	for v >= step && unit < len(units)-1 {
		v /= step
		unit++
	}
	if unit == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[unit])
	}
	return fmt.Sprintf("%.3g %s", v, units[unit])
}

// since prints a time span as FRR does: 00:01:02, 3d04h05m, 2w3d04h.
func since(d time.Duration) string {
	day := 24 * time.Hour
	hours, minutes := int(d%day/time.Hour), int(d%time.Hour/time.Minute)
	switch {
	case d < day:
		return fmt.Sprintf("%02d:%02d:%02d", hours, minutes, int(d%time.Minute/time.Second))
	case d < 7*day:
		return fmt.Sprintf("%dd%02dh%02dm", d/day, hours, minutes)
	}
	return fmt.Sprintf("%dw%dd%02dh", d/(7*day), d%(7*day)/day, hours)
}

// orDash is the value, or a dash in its place.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
