// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	maxProblems   = 20    // how many problems of one file are told at once
	enoughToCount = 1_000 // from here on problems are only counted
)

// Problem is one thing wrong in a file: where, what, what was expected instead.
type Problem struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`   // from 1; 0 when no single place is to blame
	Column   int    `json:"column,omitempty"` // in characters, from 1
	Path     string `json:"path,omitempty"`   // e.g. interfaces.lan.addresses[0]
	Message  string `json:"message"`
	Expected string `json:"expected,omitempty"`
	Nearest  string `json:"nearest,omitempty"` // the right word or value that was probably meant
	Source   string `json:"source,omitempty"`  // the line, values of secrets masked
	caret    int    // cells of the terminal in front of the caret
}

// String returns the problem as a compiler prints it: place and message, the
// line, a caret under the column, what was expected, what was probably meant.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.place())
	b.WriteString(p.Message)
	if p.Line > 0 && p.Source != "" {
		number := fmt.Sprintf("%5d", p.Line)
		fmt.Fprintf(&b, "\n%s | %s\n%s | %s^", number, p.Source, strings.Repeat(" ", len(number)), strings.Repeat(" ", p.caret))
	}
	if p.Expected != "" {
		b.WriteString("\n      expected " + p.Expected)
	}
	if p.Nearest != "" {
		b.WriteString("\n      did you mean " + p.Nearest + "?")
	}
	return b.String()
}

// place returns "file:line:column: " as far as it is known, or the path in the file.
func (p Problem) place() string {
	place := p.File
	if p.Line > 0 {
		if place == "" {
			place = "line "
		} else {
			place += ":"
		}
		place += fmt.Sprintf("%d:%d", p.Line, p.Column)
	} else if p.Path != "" {
		if place != "" {
			place += ": "
		}
		place += p.Path
	}
	if place == "" {
		return ""
	}
	return place + ": "
}

// Error is a refused file: every problem found, in the order of the file.
type Error struct {
	Problems []Problem `json:"problems"`
	More     int       `json:"more,omitempty"` // problems found beyond those listed
}

// Error returns all problems, one after the other.
func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "\n")
}

// problems gathers what is wrong with one file.
type problems struct {
	source *source
	list   []Problem
	more   int // not in list
}

// add notes a problem at a place; at line 0 the whole file is meant.
func (ps *problems) add(at position, p Problem) {
	if ps.full() {
		ps.more++
		return
	}
	p.File = ps.source.file
	if at.line > 0 {
		p.Line, p.Column = at.line, at.column
	}
	ps.list = append(ps.list, p)
}

// full reports whether more problems are only counted, so that hints for them are wasted work.
func (ps *problems) full() bool { return len(ps.list) >= enoughToCount }

// err returns the problems in the order of the file, or nil when there are none.
func (ps *problems) err() error {
	if len(ps.list) == 0 {
		return nil
	}
	list, more := ps.shown()
	return &Error{Problems: list, More: more}
}

// shown returns the problems to tell, in the order of the file and with their
// lines, and how many more there are.
func (ps *problems) shown() (list []Problem, more int) {
	list, more = sortProblems(ps.list), ps.more
	if len(list) > maxProblems {
		list, more = list[:maxProblems], more+len(list)-maxProblems
	}
	for i, p := range list {
		if p.Line > 0 {
			list[i].Source, list[i].caret = ps.source.excerpt(position{p.Line, p.Column})
		}
	}
	return list, more
}

// sortProblems orders problems by place; those without one come last.
func sortProblems(list []Problem) []Problem {
	slices.SortStableFunc(list, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
	return slices.CompactFunc(list, func(a, b Problem) bool { return a == b })
}
