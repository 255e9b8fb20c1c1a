// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// Report gathers what other packages find wrong in parts of a configuration
// whose meaning only they know, such as the rules of the firewall, and tells it
// with the same places and carets as Parse and Check do.
type Report struct {
	own   *problems
	files map[string]*problems // of other files, by name
	order []string             // of those files
}

// NewReport returns an empty report about a configuration.
func NewReport(cfg *Config) *Report {
	src := cfg.source
	if src == nil {
		src = &source{}
	}
	return &Report{own: &problems{source: src}, files: map[string]*problems{}}
}

// Refuse notes that what stands at a path as "zones.lan" is wrong. A path that is
// not in the file stands for the nearest section around it.
func (r *Report) Refuse(path, message, expected, nearest string) {
	r.own.add(r.own.source.place(path), Problem{Path: path, Message: message, Expected: expected, Nearest: nearest})
}

// RefuseWord notes that a word inside the text at a path is wrong. offset is
// where the word begins in that text, in characters from 0.
func (r *Report) RefuseWord(path string, offset int, message, expected, nearest string) {
	r.own.add(r.wordAt(path, offset), Problem{Path: path, Message: message, Expected: expected, Nearest: nearest})
}

// wordAt finds a word inside a value. In quotes it stands one character further
// right; of a text of several lines only the beginning is known.
func (r *Report) wordAt(path string, offset int) position {
	src := r.own.source
	at := src.place(path)
	if _, exact := src.at[path]; !exact || at.line < 1 || at.line > len(src.lines) {
		return at
	}
	line := []rune(src.lines[at.line-1])
	if at.column > len(line) || strings.ContainsRune("|>", line[at.column-1]) {
		return at
	}
	if c := line[at.column-1]; c == '"' || c == '\'' {
		offset++
	}
	if at.column+offset <= len(line)+1 {
		at.column += offset
	}
	return at
}

// RefuseLine notes that something in another file is wrong; text is the whole
// file. At line 0 the whole file is meant.
func (r *Report) RefuseLine(file, text string, line, column int, message, expected, nearest string) {
	ps := r.files[file]
	if ps == nil {
		ps = &problems{source: &source{file: file, lines: strings.Split(text, "\n")}}
		r.files[file] = ps
		r.order = append(r.order, file)
	}
	ps.add(position{line, column}, Problem{Message: message, Expected: expected, Nearest: nearest})
}

// Place says where a path stands, as file:line.
func (r *Report) Place(path string) string {
	src := r.own.source
	if at := src.place(path); at.line > 0 {
		return fmt.Sprintf("%s:%d", src.file, at.line)
	}
	return path
}

// Problems returns what was noted, each file in its order.
func (r *Report) Problems() []Problem {
	list, _ := r.shown()
	return list
}

func (r *Report) shown() (list []Problem, more int) {
	list, more = r.own.shown()
	for _, file := range r.order {
		l, m := r.files[file].shown()
		list, more = append(list, l...), more+m
	}
	if len(list) > maxProblems {
		list, more = list[:maxProblems], more+len(list)-maxProblems
	}
	return list, more
}

// Err returns what was noted as an *Error, or nil.
func (r *Report) Err() error {
	list, more := r.shown()
	if len(list) == 0 {
		return nil
	}
	return &Error{Problems: list, More: more}
}
