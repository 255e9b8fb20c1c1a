// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"fmt"
	"regexp"
	"strings"
)

// The reference is Go's regexp. It knows characters, not bytes: every byte from 128 on stands
// for the character of that number (ISO 8859-1), in patterns and in data.

func latin1(data []byte) string {
	var s strings.Builder
	for _, b := range data {
		s.WriteRune(rune(b))
	}
	return s.String()
}

// reference compiles a pattern with Go's regexp.
func reference(p Pattern) (*regexp.Regexp, error) {
	if p.Literal != nil {
		return regexp.Compile(regexp.QuoteMeta(latin1(p.Literal)))
	}
	end := strings.LastIndexByte(p.Text, '/')
	flags := ""
	for _, f := range p.Text[end+1:] {
		if strings.ContainsRune("ism", f) {
			flags += string(f)
		}
	}
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	return regexp.Compile(flags + goSyntax(p.Text[1:end], strings.Contains(flags, "m")))
}

// goSyntax rewrites what means something else in Go: $ without /m, \s, \S, \h, \Z, and bytes that are no ASCII.
func goSyntax(text string, multiline bool) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, `\s`):
			b.WriteString(map[bool]string{true: `\s\v`, false: `[\s\v]`}[inside])
			i++
		case strings.HasPrefix(rest, `\S`):
			b.WriteString(map[bool]string{true: `\x00-\x08\x0e-\x1f\x21-\x{ff}`, false: `[^\s\v]`}[inside])
			i++
		case strings.HasPrefix(rest, `\h`):
			b.WriteString(map[bool]string{true: ` \t\xa0`, false: `[ \t\xa0]`}[inside])
			i++
		case strings.HasPrefix(rest, `\Z`), c == '$' && !inside && !multiline:
			b.WriteString(`(?:\n?\z)`)
			if c == '\\' {
				i++
			}
		case c == '\\':
			b.WriteString(text[i : i+2])
			i++
		case c == '[' && !inside:
			inside = true
			b.WriteByte(c)
			if strings.HasPrefix(rest, "[^") {
				b.WriteByte('^')
				i++
			}
			if text[i+1] == ']' {
				b.WriteString(`\]`)
				i++
			}
		case c == '[' && inside && !strings.HasPrefix(rest, "[:"):
			b.WriteString(`\[`)
		case c == '[':
			n := strings.Index(rest, ":]") + 2
			b.WriteString(rest[:n])
			i += n - 1
		case c == '-' && inside && i > 0 && !strings.HasSuffix(b.String(), "[") && danglingHyphen(text, i):
			b.WriteString(`\-`)
		case c == ']':
			inside = false
			b.WriteByte(c)
		case c >= 128:
			fmt.Fprintf(&b, `\x{%x}`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// danglingHyphen tells whether a hyphen in a class, of which the sets \d \w \s are neighbours, stands for itself.
func danglingHyphen(text string, i int) bool {
	set := func(s string) bool { return len(s) == 2 && s[0] == '\\' && strings.Contains("dwsDWSh", s[1:]) }
	return i >= 2 && set(text[i-2:i]) || i+3 <= len(text) && set(text[i+1:i+3])
}
