// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"fmt"
	"strings"
)

// Escapes and classes of the PCRE subset.

// classEscapes are the escapes that mean a set, inside brackets and outside.
var classEscapes = map[byte]byteSet{
	'd': digits, 'D': digits.not(), 'w': word, 'W': word.not(), 's': space, 'S': space.not(),
	'h': setOf(' ', '\t', 0xa0), 'H': setOf(' ', '\t', 0xa0).not(),
	'v': setOf('\n', '\v', '\f', '\r', 0x85), 'V': setOf('\n', '\v', '\f', '\r', 0x85).not(), 'N': newline.not(),
}

// byteEscapes are those that mean one byte.
var byteEscapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'f': '\f', 'a': 7, 'e': 27}

// escape reads a backslash and what it means, outside brackets.
func (p *regexParser) escape() (node, error) {
	at := p.at
	if at+1 >= p.end {
		return nil, p.fail(at, "backslash at the end: expected something behind it")
	}
	switch c := p.text[at+1]; c {
	case 'b', 'B', 'A', 'z', 'Z':
		p.at += 2
		return map[byte]node{'b': wordBoundary, 'B': noWordBoundary, 'A': startOfData, 'z': endOfData, 'Z': finalNode{at + 1}}[c], nil
	case 'Q':
		return p.quoted()
	case 'E': // the end of a quotation that has not begun means nothing
		p.at += 2
		return concatNode{}, nil
	case 'G', 'K', 'R', 'X', 'C', 'p', 'P', 'g', 'k':
		return nil, p.refuse(at, `\`+string(c))
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return nil, p.refuse(at, `back reference \`+string(c))
	}
	set, _, err := p.escaped()
	if err != nil {
		return nil, err
	}
	if p.fold {
		set = set.folded()
	}
	return bytesNode{set}, nil
}

// quoted reads \Q…\E.
func (p *regexParser) quoted() (node, error) {
	p.at += 2
	n := strings.Index(p.text[p.at:p.end], `\E`)
	after := n + 2
	if n < 0 {
		n, after = p.end-p.at, p.end-p.at
	}
	var parts []node
	for i := range n {
		parts = append(parts, p.single(p.text[p.at+i]))
	}
	p.at += after
	return concatNode{parts}, nil
}

// escaped reads an escape that means bytes; one says that it is a single one.
func (p *regexParser) escaped() (set byteSet, one bool, err error) {
	at := p.at
	if at+1 >= p.end {
		return set, false, p.fail(at, "backslash at the end: expected something behind it")
	}
	c := p.text[at+1]
	p.at += 2
	if s, ok := classEscapes[c]; ok {
		return s, false, nil
	}
	if b, ok := byteEscapes[c]; ok {
		return setOf(b), true, nil
	}
	switch c {
	case 'x':
		b, err := p.hexEscape(at)
		return setOf(b), true, err
	case 'c':
		if !p.more() || p.text[p.at] < 32 || p.text[p.at] > 126 {
			return set, false, p.fail(at, `\c: expected a printable ASCII character`)
		}
		b := p.text[p.at]
		if lower.has(b) {
			b -= 32
		}
		p.at++
		return setOf(b ^ 64), true, nil
	case '0', '1', '2', '3', '4', '5', '6', '7': // outside brackets only \0 comes here
		v := 0
		for p.at--; p.more() && p.at < at+4 && p.text[p.at] >= '0' && p.text[p.at] <= '7'; p.at++ {
			v = v*8 + int(p.text[p.at]-'0')
		}
		if v > 255 {
			return set, false, p.fail(at, `\%o: not a byte`, v)
		}
		return setOf(byte(v)), true, nil
	}
	if word.has(c) && c != '_' {
		return set, false, p.refuse(at, `\`+string(c))
	}
	return setOf(c), true, nil
}

// hexEscape reads up to two digits behind \x, or \x{…}.
func (p *regexParser) hexEscape(at int) (byte, error) {
	v, n := 0, 0
	braces := p.next("{")
	if braces {
		p.at++
	}
	for p.more() && posix["xdigit"].has(p.text[p.at]) && (braces || n < 2) && v < 256 {
		var digit int
		_, err := fmt.Sscanf(p.text[p.at:p.at+1], "%x", &digit)
		if err != nil {
			return 0, err
		}
		v, n, p.at = v*16+digit, n+1, p.at+1
	}
	if braces {
		if !p.next("}") || n == 0 || v > 255 {
			return 0, p.fail(at, `\x{…}: expected hexadecimal digits of one byte`)
		}
		p.at++
	}
	return byte(v), nil
}

// class reads […].
func (p *regexParser) class() (byteSet, error) {
	var set byteSet
	open := p.at
	p.at++
	negated := p.next("^")
	if negated {
		p.at++
	}
	for first := true; ; first = false {
		if !p.more() {
			return set, p.fail(open, "[ without ]")
		}
		if p.next("]") && !first {
			break
		}
		part, one, err := p.member()
		if err != nil {
			return set, err
		}
		if p.next("-") && p.at+1 < p.end && p.text[p.at+1] != ']' {
			part, err = p.span(part, one)
			if err != nil {
				return set, err
			}
		}
		set = set.or(part)
	}
	p.at++
	if p.fold {
		set = set.folded()
	}
	if negated {
		set = set.not()
	}
	return set, nil
}

// member reads one part of a class; one says that it is a single byte.
func (p *regexParser) member() (set byteSet, one bool, err error) {
	c := p.text[p.at]
	if p.next("[:") {
		if n := strings.Index(p.text[p.at:p.end], ":]"); n > 1 {
			name := p.text[p.at+2 : p.at+n]
			s, ok := posix[strings.TrimPrefix(name, "^")]
			if !ok {
				return set, false, p.fail(p.at, "class [:%s:] is unknown", name)
			}
			if name[0] == '^' {
				s = s.not()
			}
			p.at += n + 2
			return s, false, nil
		}
	}
	if p.next("[.") || p.next("[=") {
		return set, false, p.refuse(p.at, "collating element "+p.text[p.at:p.at+2])
	}
	if c != '\\' {
		p.at++
		return setOf(c), true, nil
	}
	if p.at+1 < p.end {
		switch p.text[p.at+1] {
		case 'b': // backspace inside brackets
			p.at += 2
			return setOf(8), true, nil
		case 'Q', 'E', 'N', 'R', 'X', 'B', 'p', 'P', '8', '9':
			return set, false, p.refuse(p.at, `\`+p.text[p.at+1:p.at+2]+" inside brackets")
		}
	}
	return p.escaped()
}

// span reads the rest of a range whose first member was read. Behind a set, the hyphen stands for itself.
func (p *regexParser) span(first byteSet, one bool) (byteSet, error) {
	at := p.at
	if !one {
		p.at++
		return first.or(setOf('-')), nil
	}
	p.at++
	last, single, err := p.member()
	if err != nil {
		return first, err
	}
	if !single {
		return first.or(last).or(setOf('-')), nil
	}
	lo, hi := first.least(), last.least()
	if lo > hi {
		return first, p.fail(at, "range from %#x to %#x: expected the smaller byte first", lo, hi)
	}
	return setRange(lo, hi), nil
}
