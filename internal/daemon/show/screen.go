// SPDX-License-Identifier: Apache-2.0

package show

import (
	stdbytes "bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// Screen is what people read views on. Lines that are wider go on, indented, in the
// next one, broken between words; tables fold. What a program reads has no Screen:
// its lines stay whole.
type Screen struct {
	w       io.Writer
	columns int  // 0: any width
	colours bool // states are green, yellow or red
	begun   []byte
}

// NewScreen returns a screen on w, so many columns wide (0: any width).
func NewScreen(w io.Writer, columns int, colours bool) *Screen {
	return &Screen{w: w, columns: columns, colours: colours}
}

// Write prints lines. What has no end of line yet waits for Flush, or for its rest.
func (s *Screen) Write(text []byte) (int, error) {
	s.begun = append(s.begun, text...)
	end := stdbytes.LastIndexByte(s.begun, '\n')
	if end < 0 {
		return len(text), nil
	}
	whole := string(s.begun[:end])
	s.begun = append(s.begun[:0], s.begun[end+1:]...)
	for line := range strings.SplitSeq(whole, "\n") {
		if err := s.print(line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// Flush prints what still waits for the end of its line.
func (s *Screen) Flush() error {
	rest := string(s.begun)
	s.begun = nil
	_, err := io.WriteString(s.w, rest)
	return err
}

func (s *Screen) print(line string) error {
	for i, part := range wrap(line, s.columns, 2) {
		if i == 0 {
			part = s.paintLine(part)
		}
		if _, err := io.WriteString(s.w, part+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// width is that of the screen, 0 without one.
func (s *Screen) width() int {
	if s == nil {
		return 0
	}
	return s.columns
}

// widthOf is that of what views are printed on, 0 for any.
func widthOf(w io.Writer) int {
	s, _ := w.(*Screen)
	return s.width()
}

// rawOf is where lines go that fit already.
func rawOf(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.w
	}
	return w
}

// wrap breaks a line between words into lines of at most width columns (0: any), those
// after the first indented by as much as the first and by hang. A longer word stays whole.
func wrap(line string, width, hang int) []string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return []string{line}
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	var lines []string
	rest := line
	for {
		cut := breakAt(rest, width, indent)
		if cut < 0 {
			return append(lines, rest)
		}
		lines = append(lines, strings.TrimRight(rest[:cut], " "))
		if len(lines) == 1 {
			indent += hang
		}
		rest = strings.Repeat(" ", indent) + strings.TrimLeft(rest[cut:], " ")
	}
}

// breakAt is where a line wider than width is broken: at the last blank that lets it fit,
// or behind the first word when that is longer; -1 when it need not be, or can't.
func breakAt(line string, width, indent int) int {
	if utf8.RuneCountInString(line) <= width {
		return -1
	}
	at, columns := -1, 0
	for i, r := range line {
		if i > indent && r == ' ' && (columns <= width || at < 0) {
			at = i
		}
		columns++
	}
	return at
}

// Colours of ANSI terminals (ECMA-48, SGR).
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	plain  = "\x1b[0m"
)

// colourOf gives words their colour, by how a state begins.
var colourOf = []struct{ word, colour string }{
	{"up", green}, {"native", green}, {"ready", green}, {"running", green}, {"established", green}, {"full", green},
	{"reachable", green}, {"permanent", green}, {"healthy", green}, {"selected", green}, {"ok", green},
	{"no-carrier", yellow}, {"generic", yellow}, {"stale", yellow}, {"starting", yellow}, {"delay", yellow}, {"probe", yellow},
	{"degraded", yellow}, {"repaired", yellow}, {"filling", yellow}, {"warning", yellow}, {"minor", yellow},
	{"down", red}, {"off", red}, {"not running", red}, {"not in place", red}, {"ended", red}, {"failed", red}, {"incomplete", red},
	{"dropped", red}, {"denied", red}, {"deny", red}, {"reject", red}, {"unusable", red}, {"critical", red}, {"major", red},
}

// colour of a text that begins with a state, "" for others.
func colour(text string) string {
	lower := strings.ToLower(text)
	for _, c := range colourOf {
		if rest, ok := strings.CutPrefix(lower, c.word); ok && (rest == "" || !isLetter(rest[0])) {
			return c.colour
		}
	}
	return ""
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || c == '-' }

// paint gives a state its colour, where there are colours.
func (s *Screen) paint(text string) string {
	if s == nil || !s.colours {
		return text
	}
	if c := colour(text); c != "" {
		return c + text + plain
	}
	return text
}

// paintLine colours the state that a line of text is about: "degraded: …", "Fast path: ready …".
func (s *Screen) paintLine(line string) string {
	if !s.colours {
		return line
	}
	name, state, ok := strings.Cut(line, ": ")
	if !ok {
		return line
	}
	if c := colour(name); c != "" {
		return c + name + plain + ": " + state
	}
	word, rest := state, ""
	if i := strings.IndexAny(state, ":;,( "); i > 0 && colour(state) == colour(state[:i]) {
		word, rest = state[:i], state[i:]
	}
	return name + ": " + s.paint(word) + rest
}
