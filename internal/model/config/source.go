// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFile is the biggest configuration that is read, in bytes. The router of a
// university with thousands of VLANs stays below a tenth of it.
const maxFile = 4 << 20

const (
	maxExcerpt = 160    // characters of a line that are shown with a problem
	maxLine    = 10_000 // bytes; of a longer line nothing is shown
)

// position is a place in the source; both count from 1, the column in characters.
type position struct{ line, column int }

// source is the text of a file, kept to show lines and to find places by path.
type source struct {
	file  string
	lines []string
	at    map[string]position // path → place: the value of a scalar, the key of a section
	idle  map[string]bool     // paths whose text only repeats defaults
}

// place finds a path, or the nearest section around it, in the file.
func (s *source) place(path string) position {
	for path != "" {
		if at, ok := s.at[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return s.at[""]
}

// newSource refuses text that can't be a configuration, whatever YAML says of
// it, and returns the text with line ends made equal.
func newSource(file string, data []byte) (*source, []byte, *problems) {
	src := &source{file: file, at: map[string]position{}, idle: map[string]bool{}}
	ps := &problems{source: src}
	if len(data) > maxFile {
		ps.add(position{}, Problem{
			Message:  fmt.Sprintf("the file has more than %d MB", maxFile>>20),
			Expected: "a configuration; is this the right file?",
		})
		return src, nil, ps
	}
	src.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	var text strings.Builder
	for i, line := range src.lines {
		p, column := strangeCharacter(line)
		if column == 0 {
			line, column = tabsAsBlanks(line)
			p = Problem{Message: "a tab", Expected: "spaces; tabs are allowed only at the end of a line and in front of a comment"}
		}
		if column > 0 {
			src.lines[i] = strings.ToValidUTF8(src.lines[i], "\uFFFD")
			ps.add(position{i + 1, column}, p)
			break // one is enough: a binary file has thousands
		}
		text.WriteString(line)
		text.WriteByte('\n')
	}
	return src, []byte(text.String()), ps
}

// tabsAsBlanks replaces each tab by one blank where it means nothing, so that
// columns stay; elsewhere it returns the column of the tab.
func tabsAsBlanks(line string) (string, int) {
	at := strings.IndexByte(line, '\t')
	if at < 0 {
		return line, 0
	}
	rest := strings.TrimLeft(line[at:], " \t")
	if rest != "" && rest[0] != '#' && !strings.HasPrefix(strings.TrimLeft(line, " "), "#") && !strings.Contains(line[:at], " #") {
		return line, utf8.RuneCountInString(line[:at]) + 1
	}
	return strings.ReplaceAll(line, "\t", " "), 0
}

// strangeCharacter finds the first character of a line that a configuration
// never holds: broken UTF-8, control characters, and those that make text look
// other than it is (byte order marks, changes of writing direction).
func strangeCharacter(line string) (Problem, int) {
	column := 0
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			return Problem{Message: fmt.Sprintf("byte %#02x is not UTF-8", line[i]), Expected: "a text file in UTF-8"}, column
		case r == 0xFEFF:
			return Problem{Message: "byte order mark", Expected: "UTF-8 without a byte order mark"}, column
		case r == 0:
			return Problem{Message: "a zero byte", Expected: "a text file in UTF-8"}, column
		case r != '\t' && (unicode.IsControl(r) || isHiddenFormat(r)):
			return Problem{Message: fmt.Sprintf("control character %U", r), Expected: "printable text"}, column
		}
		i += size
	}
	return Problem{}, 0
}

// isHiddenFormat reports line separators and changes of writing direction.
func isHiddenFormat(r rune) bool {
	return r == 0x2028 || r == 0x2029 || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// secretValue finds what stands after a key that sounds like a secret, so that
// a password written in the wrong place is not repeated on screens and in logs.
var secretValue = regexp.MustCompile(`(?i)[\w-]*(?:pa?s+w|pwd|passphrase|secr|psk|md5|auth-?key|private-?key|preshared)[\w-]*["']?\s*:\s*(\S.*)$`)

// excerpt returns a line for showing and the number of terminal cells in front
// of the place: tabs become spaces, wide characters take two cells.
func (s *source) excerpt(at position) (line string, caret int) {
	if at.line > len(s.lines) || len(s.lines[at.line-1]) > maxLine {
		return "", 0
	}
	text := strings.TrimRight(s.lines[at.line-1], " \t")
	masked := len(text) // from here on nothing is shown
	if m := secretValue.FindStringSubmatchIndex(text); m != nil {
		masked = m[2]
	}
	var b strings.Builder
	first, column, cells := 1, 0, 0
	if at.column > maxExcerpt/2 {
		first = at.column - maxExcerpt/2
		b.WriteString("…")
		cells++
	}
	for i, r := range text {
		column++
		if column < first {
			continue
		}
		if column == at.column {
			caret = cells
		}
		if column >= first+maxExcerpt {
			b.WriteString("…")
			break
		}
		switch {
		case i == masked:
			b.WriteString("…")
			cells++
		case i > masked:
		case r == '\t':
			width := 8 - cells%8
			b.WriteString(strings.Repeat(" ", width))
			cells += width
		case !unicode.IsPrint(r):
			b.WriteRune('\uFFFD')
			cells++
		default:
			b.WriteRune(r)
			cells += cellWidth(r)
		}
	}
	if at.column > column {
		caret = cells
	}
	return b.String(), caret
}

// cellWidth returns how many cells of a terminal a character takes: 0 for
// combining marks, 2 for East Asian wide characters and pictographs (UAX #11).
func cellWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115F, r >= 0x2E80 && r <= 0x303E, r >= 0x3041 && r <= 0xA4CF,
		r >= 0xAC00 && r <= 0xD7A3, r >= 0xF900 && r <= 0xFAFF, r >= 0xFE30 && r <= 0xFE6F,
		r >= 0xFF01 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6, r >= 0x1F300 && r <= 0x1FAFF, r >= 0x20000 && r <= 0x3FFFD:
		return 2
	}
	return 1
}
