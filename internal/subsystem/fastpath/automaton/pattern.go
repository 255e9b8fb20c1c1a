// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Pattern is what is searched for.
type Pattern struct {
	// Text as it was written: hex digits, or /…/flags.
	Text string
	// Where are Snort's flags for the part of a protocol's message that a rule applies the pattern to
	// (U: URI, H: header, R: behind the match before, …). They don't change what matches.
	Where string
	// Literal is the byte string, if the pattern is one.
	Literal []byte
	root    node
}

// SyntaxError tells what is wrong with a pattern, or which construct is not in the subset, and where.
type SyntaxError struct {
	File         string
	Line, Column int // from 1; Line 0 if the pattern is of no file
	Message      string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("column %d: %s", e.Column, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Literal is a pattern that matches a byte string.
func Literal(b []byte) (Pattern, error) {
	if len(b) == 0 {
		return Pattern{}, &SyntaxError{Column: 1, Message: "empty byte string: expected at least one byte"}
	}
	parts := make([]node, len(b))
	for i, v := range b {
		parts[i] = bytesNode{setOf(v)}
	}
	return Pattern{Text: hex.EncodeToString(b), Literal: bytes.Clone(b), root: concatNode{parts}}, nil
}

// parseHex reads a byte string in hexadecimal.
func parseHex(text string) (Pattern, error) {
	for i := range len(text) {
		if !strings.Contains("0123456789abcdefABCDEF", text[i:i+1]) {
			return Pattern{}, &SyntaxError{Column: i + 1, Message: fmt.Sprintf("%q in a byte string: expected hexadecimal digits, or /…/ for a regular expression", text[i])}
		}
	}
	if len(text)%2 != 0 {
		return Pattern{}, &SyntaxError{Column: len(text), Message: "odd number of hexadecimal digits: expected two per byte"}
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return Pattern{}, err
	}
	return Literal(b)
}

// ParsePattern reads a pattern as it stands in a file: /…/flags, or a byte string in hexadecimal.
func ParsePattern(text string) (Pattern, error) {
	if strings.HasPrefix(text, "/") {
		return parseRegex(text)
	}
	return parseHex(text)
}

// maxLine bounds a line of a pattern file, in bytes.
const maxLine = 1 << 16

// Read reads patterns, one a line; empty lines and those that begin with # are passed over.
// It returns all that could be read and an error for each other one, *SyntaxError, with file and line; an
// error of the reader itself ends it.
func Read(file string, r io.Reader) ([]Pattern, []error) {
	var (
		patterns []Pattern
		errs     []error
	)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSuffix(lines.Text(), "\r")
		if text == "" || text[0] == '#' {
			continue
		}
		p, err := ParsePattern(text)
		if err == nil {
			patterns = append(patterns, p)
			continue
		}
		var s *SyntaxError
		if errors.As(err, &s) {
			s.File, s.Line = file, number
		}
		errs = append(errs, err)
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: %w", file, number+1, err))
	}
	return patterns, errs
}
