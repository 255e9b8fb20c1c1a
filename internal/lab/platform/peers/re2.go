// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strings"
)

// re2Syntax rewrites what of PCRE's syntax RE2 does not know, or takes for something else: \s and \S (PCRE's have the vertical
// tab), \h, \Z and $ (before a line feed at the end, too), brackets and hyphens that stand for themselves in a class, bytes that are
// no ASCII, and the spaces and comments of extended patterns.
func re2Syntax(text string, multiline, extended bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			b.WriteString(re2Escape(text[i+1], false))
			i += 2
		case c == '[':
			n := re2Class(&b, text[i:])
			i += n
		case c == '$' && !multiline:
			b.WriteString(`(?:\n?\z)`)
			i++
		case extended && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			i++
		case extended && c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		default:
			writeByte(&b, c)
			i++
		}
	}
	return b.String()
}

func writeByte(b *strings.Builder, c byte) {
	if c >= 128 {
		fmt.Fprintf(b, `\x{%x}`, c)
		return
	}
	b.WriteByte(c)
}

// re2Escape is \c, outside a class or in it.
func re2Escape(c byte, inside bool) string {
	set := func(s string) string {
		if inside {
			return s
		}
		return "[" + s + "]"
	}
	switch c {
	case 's':
		return set(`\s\v`)
	case 'S':
		return set(`\x00-\x08\x0e-\x1f\x21-\x{ff}`)
	case 'h':
		return set(`\t \x{a0}`)
	case 'Z':
		return `(?:\n?\z)`
	case 'e':
		return `\x1b`
	}
	if strings.IndexByte(`/"'<>:;,=!@#%&~-_ `+"`", c) >= 0 && !inside { // needs no escape there
		return string(c)
	}
	if c >= 128 {
		return fmt.Sprintf(`\x{%x}`, c)
	}
	return `\` + string(c)
}

// re2Class rewrites the class that text begins with, and returns its length.
func re2Class(b *strings.Builder, text string) int {
	b.WriteByte('[')
	i := 1
	if i < len(text) && text[i] == '^' {
		b.WriteByte('^')
		i++
	}
	first := i
	for i < len(text) {
		rest := text[i:]
		switch {
		case rest[0] == ']' && i > first:
			b.WriteByte(']')
			return i + 1
		case rest[0] == ']':
			b.WriteString(`\]`)
		case strings.HasPrefix(rest, "[:") && strings.Contains(rest, ":]"):
			n := strings.Index(rest, ":]") + 2
			b.WriteString(rest[:n])
			i += n
			continue
		case rest[0] == '[':
			b.WriteString(`\[`)
		case rest[0] == '-' && (i == first || len(rest) > 1 && rest[1] == ']' || besideSet(text, i)):
			b.WriteString(`\-`)
		case rest[0] == '\\' && len(rest) > 1:
			if rest[1] == 'b' {
				b.WriteString(`\x08`) // a backspace, in a class
			} else {
				b.WriteString(re2Escape(rest[1], true))
			}
			i += 2
			continue
		default:
			writeByte(b, rest[0])
		}
		i++
	}
	return i
}

// besideSet is whether the hyphen at text[i] has a set like \d before or behind it, so that it makes no range.
func besideSet(text string, i int) bool {
	set := func(s string) bool { return len(s) == 2 && s[0] == '\\' && strings.IndexByte("dwsDWSh", s[1]) >= 0 }
	return i >= 2 && set(text[i-2:i]) || i+3 <= len(text) && set(text[i+1:i+3])
}
