// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"minne/internal/model/config"
)

// Rules as a table: a CSV file (RFC 4180) whose first line names the columns. Each
// further line is a rule made of the same words as a rule in the configuration.
// Lines that begin with # are comments.

// csvColumns are the columns a rule file may have, in the order of a rule's words.
var csvColumns = []string{"action", "protocol", "source", "source-port", "destination", "port", "options"}

const csvRequired = 2 // of the columns

// rulesFile reads the rules of a file. expect is the number of rows, 0 for any.
func (c *compiler) rulesFile(path string, policy config.FirewallPolicy, add func(parsed, place)) {
	file, text, err := c.file(policy.RulesFile)
	if err != nil {
		c.report.Refuse(path+".rules-file", err.Error(), "a CSV file with the columns "+strings.Join(csvColumns, ", "), "")
		return
	}
	t := table{compiler: c, file: file, text: text, lines: strings.Split(text, "\n")}
	rows := t.read(add)
	if policy.ExpectRows > 0 && rows != policy.ExpectRows {
		c.report.Refuse(path+".expect-rows", fmt.Sprintf("%s has %d rows, not %d", file, rows, policy.ExpectRows),
			"the whole file, or the right number", "")
	}
}

// table is a rule file while it is read.
type table struct {
	*compiler
	file, text string
	lines      []string
	columns    []string
}

// read returns the number of rows.
func (t *table) read(add func(parsed, place)) (rows int) {
	r := csv.NewReader(strings.NewReader(t.text))
	r.Comment, r.TrimLeadingSpace = '#', true
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			if t.columns == nil {
				t.report.RefuseLine(t.file, t.text, 0, 0, "the file has no rules", "a first line "+strings.Join(csvColumns, ","), "")
			}
			return rows
		}
		if err != nil {
			rows++ // a broken line is one all the same
			var broken *csv.ParseError
			if !errors.As(err, &broken) {
				t.report.RefuseLine(t.file, t.text, 0, 0, err.Error(), "", "")
				return rows
			}
			t.broken(broken)
			if !errors.Is(err, csv.ErrFieldCount) {
				return rows
			}
			continue
		}
		if t.columns == nil {
			if !t.header(r, record) {
				return rows
			}
			continue
		}
		rows++
		if p, at, ok := t.row(r, record); ok {
			add(p, at)
		}
	}
}

func (t *table) broken(err *csv.ParseError) {
	message, expected := "the line is not CSV: "+err.Err.Error(), `quotes around a whole cell, doubled ("") inside`
	if errors.Is(err, csv.ErrFieldCount) {
		message, expected = "the line has another number of cells than the first", fmt.Sprintf("%d: %s", len(t.columns), strings.Join(t.columns, ", "))
	}
	t.report.RefuseLine(t.file, t.text, err.StartLine, 1, message, expected, "")
}

func (t *table) header(r *csv.Reader, record []string) bool {
	ok := true
	for i, name := range record {
		name = strings.TrimSpace(name)
		line, column := t.at(r, i)
		switch {
		case !slices.Contains(csvColumns, name):
			t.report.RefuseLine(t.file, t.text, line, column+1, fmt.Sprintf("there is no column %q", abridge(name)),
				"columns from "+strings.Join(csvColumns, ", "), config.Nearest(strings.ToLower(name), csvColumns))
			ok = false
		case slices.Contains(t.columns, name):
			t.report.RefuseLine(t.file, t.text, line, column+1, fmt.Sprintf("column %s is given twice", name), "each column once", "")
			ok = false
		}
		t.columns = append(t.columns, name)
	}
	for _, name := range csvColumns[:csvRequired] {
		if ok && !slices.Contains(t.columns, name) {
			t.report.RefuseLine(t.file, t.text, 1, 1, "column "+name+" is missing", "a first line "+strings.Join(csvColumns, ","), "")
			ok = false
		}
	}
	return ok
}

// at is where a cell of the record just read begins: line from 1, characters from 0.
func (t *table) at(r *csv.Reader, cell int) (line, column int) {
	line, bytes := r.FieldPos(cell)
	if line-1 < len(t.lines) && bytes-1 <= len(t.lines[line-1]) {
		return line, utf8.RuneCountInString(t.lines[line-1][:bytes-1])
	}
	return line, 0
}

// row makes a rule of a line.
func (t *table) row(r *csv.Reader, record []string) (p parsed, where place, ok bool) {
	first, _ := t.at(r, 0)
	where = place{file: t.file, text: t.text, line: first}
	cells := map[string]word{}
	for i, text := range record {
		_, column := t.at(r, i)
		cells[t.columns[i]] = word{text: strings.TrimSpace(text), at: column}
	}
	list, err := rowWords(cells)
	if err == nil {
		p, err = parseWords(&reader{words: list, end: word{at: utf8.RuneCountInString(t.lines[first-1])}, names: t.names()}, joined(list))
	}
	if err != nil {
		t.refuseWord(where, err)
		return p, where, false
	}
	return p, where, true
}

// rowWords puts cells into the order of a rule's words.
func rowWords(cells map[string]word) (list []word, _ *wordError) {
	for _, name := range csvColumns {
		w, given := cells[name]
		switch {
		case name == "options":
			more, err := split(w.text)
			if err != nil {
				err.word.at += w.at
				return nil, err
			}
			for _, o := range more {
				o.at += w.at
				list = append(list, o)
			}
			continue
		case strings.ContainsAny(w.text, " \n\""):
			return nil, wrong(w, "one word; several addresses or ports with commas and no blanks", "", "the cell %s can't be %q", name, abridge(w.text))
		case given && w.text == "" && (name == "action" || name == "protocol"):
			return nil, wrong(w, "permit, deny or reject, and a protocol", "", "the cell %s is empty", name)
		case w.text == "" && (name == "source" || name == "destination"):
			w.text = AnyName
		case w.text == "":
			continue
		case name == "source-port":
			list = append(list, word{text: "from", at: w.at})
		}
		list = append(list, w)
	}
	return list, nil
}

// joined writes words as a rule.
func joined(list []word) string {
	var b strings.Builder
	for i, w := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		if w.quoted {
			fmt.Fprintf(&b, `"%s"`, w.text)
		} else {
			b.WriteString(w.text)
		}
	}
	return b.String()
}
