// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// The YAML library takes every colon in a list in brackets inside braces for
// the end of a key, so that {via: [fe80::1%lan]} becomes a section with the key
// fe80. By YAML 1.2 (section 7.3.3) a colon ends a plain key only when a blank,
// a bracket, a brace or a comma follows. joinColons puts such texts, IPv6 and
// MAC addresses above all, together again.

// joinColons returns the tokens with plain texts in lists whole. lines is the source.
func joinColons(tokens token.Tokens, lines []string) token.Tokens {
	var joined token.Tokens
	var open []token.Type // brackets and braces around the token
	source := ruler{lines: lines}
	changed := false
	for i := 0; i < len(tokens); i++ {
		tk := tokens[i]
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, tk.Type)
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(0, len(open)-1)]
		}
		inList := len(open) > 1 && open[len(open)-1] == token.SequenceStartType
		if !inList || tk.Type != token.MappingValueType || strings.ContainsRune(" \t,[]{}", source.after(tk)) {
			joined = append(joined, tk)
			continue
		}
		text, origin, at := ":", tk.Origin, tk.Position
		if n := len(joined) - 1; n >= 0 && adjacent(joined[n], tk) {
			text, origin, at = joined[n].Value+text, joined[n].Origin+origin, joined[n].Position
			joined = joined[:n]
		}
		if i+1 < len(tokens) && adjacent(tk, tokens[i+1]) && isPlain(tokens[i+1]) {
			i++
			text, origin = text+tokens[i].Value, origin+tokens[i].Origin
		}
		joined = append(joined, token.String(text, origin, at))
		changed = true
	}
	if !changed {
		return tokens
	}
	var linked token.Tokens
	linked.Add(joined...)
	return linked
}

// ruler finds characters by line and column; it keeps the last line cut into characters.
type ruler struct {
	lines []string
	line  int
	runes []rune
}

// after returns the character behind a token of one character, or a blank at the end of the line.
func (r *ruler) after(tk *token.Token) rune {
	if tk.Position.Line != r.line && tk.Position.Line <= len(r.lines) {
		r.line, r.runes = tk.Position.Line, []rune(r.lines[tk.Position.Line-1])
	}
	if tk.Position.Line != r.line || tk.Position.Column >= len(r.runes) {
		return ' '
	}
	return r.runes[tk.Position.Column]
}

// adjacent reports whether b stands behind the plain text or colon a without a blank.
func adjacent(a, b *token.Token) bool {
	return (isPlain(a) || a.Type == token.MappingValueType) && a.Position.Line == b.Position.Line &&
		a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

// isPlain reports whether a token is text without quotes.
func isPlain(tk *token.Token) bool {
	return tk.CharacterType == token.CharacterTypeMiscellaneous
}
