// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"fmt"
	"strconv"
	"strings"
)

// The subset of PCRE. Bytes, not characters of an encoding. Greedy and lazy repeats mean the
// same here, because only the set of patterns that match is asked for. What is not in it is refused by
// its name: what can't be an automaton (back references, conditions, recursion), what would need
// a second one (look-around), and what takes away matches (possessive repeats, atomic groups).
const (
	maxRepeat = 2048    // of a counted repeat
	maxNodes  = 1 << 15 // bytes and assertions of one pattern, repeats written out
	maxNested = 100
)

type regexParser struct {
	text            string
	at              int
	end             int // of the expression: the closing slash
	fold, dotAll, m bool
	extended        bool
	nested          int
}

func (p *regexParser) fail(at int, format string, args ...any) error {
	return &SyntaxError{Column: at + 1, Message: fmt.Sprintf(format, args...)}
}

func (p *regexParser) refuse(at int, construct string) error {
	return p.fail(at, "%s: not in the subset that is compiled", construct)
}

// parseRegex reads /…/flags.
func parseRegex(text string) (Pattern, error) {
	p := &regexParser{text: text, at: 1}
	p.end = strings.LastIndexByte(text, '/')
	if p.end < 1 {
		return Pattern{}, p.fail(len(text), "no closing slash: expected /…/flags")
	}
	where, err := p.flags()
	if err != nil {
		return Pattern{}, err
	}
	n, err := p.choice()
	if err != nil {
		return Pattern{}, err
	}
	if p.at < p.end {
		return Pattern{}, p.fail(p.at, ") without (")
	}
	n, column := settled(n, true)
	if column > 0 {
		return Pattern{}, p.refuse(column-1, "$ with something behind it (/m has one that may)")
	}
	if size(n) > maxNodes {
		return Pattern{}, p.fail(1, "with its repeats written out it has more than %d parts: expected a smaller pattern", maxNodes)
	}
	return Pattern{Text: text, Where: where, root: n}, nil
}

// flags reads what stands behind the closing slash and returns Snort's flags of place.
func (p *regexParser) flags() (string, error) {
	where := ""
	for i := p.end + 1; i < len(p.text); i++ {
		switch f := p.text[i]; f {
		case 'i':
			p.fold = true
		case 's':
			p.dotAll = true
		case 'm':
			p.m = true
		case 'x':
			p.extended = true
		case 'G': // Snort's word for ungreedy, which changes no set of matches
		case 'B', 'C', 'D', 'H', 'I', 'K', 'M', 'P', 'Q', 'R', 'S', 'U', 'V', 'W', 'Y':
			where += string(f)
		case 'A', 'E', 'O':
			return "", p.refuse(i, "flag "+string(f))
		default:
			return "", p.fail(i, "unknown flag %q: expected i, s, m, x", f)
		}
	}
	return where, nil
}

// size counts the parts of a pattern with its repeats written out, up to a little above maxNodes.
func size(n node) int {
	total := 0
	switch n := n.(type) {
	case concatNode:
		for _, p := range n.parts {
			total = min(total+size(p), maxNodes+1)
		}
	case choiceNode:
		for _, p := range n.parts {
			total = min(total+size(p), maxNodes+1)
		}
	case repeatNode:
		total = min(max(n.min, n.max, 1)*size(n.part), maxNodes+1)
	default:
		total = 1
	}
	return total
}

func (p *regexParser) more() bool { return p.at < p.end }

func (p *regexParser) next(prefix string) bool { return strings.HasPrefix(p.text[p.at:p.end], prefix) }

// choice reads alternatives up to a closing bracket or the end.
func (p *regexParser) choice() (node, error) {
	var parts []node
	for {
		n, err := p.concat()
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
		if !p.more() || p.text[p.at] != '|' {
			break
		}
		p.at++
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return choiceNode{parts}, nil
}

func (p *regexParser) concat() (node, error) {
	var parts []node
	for p.more() && p.text[p.at] != '|' && p.text[p.at] != ')' {
		if p.skipExtended() {
			continue
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		n, err = p.repeats(n)
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return concatNode{parts}, nil
}

// skipExtended passes over white space and remarks under /x.
func (p *regexParser) skipExtended() bool {
	switch {
	case !p.extended || !p.more():
		return false
	case space.has(p.text[p.at]):
		p.at++
		return true
	case p.text[p.at] == '#':
		for p.more() && p.text[p.at] != '\n' {
			p.at++
		}
		return true
	}
	return false
}

func (p *regexParser) atom() (node, error) {
	c := p.text[p.at]
	switch c {
	case '(':
		return p.group()
	case '[':
		set, err := p.class()
		return bytesNode{set}, err
	case '\\':
		return p.escape()
	case '.':
		p.at++
		if p.dotAll {
			return bytesNode{anyByte}, nil
		}
		return bytesNode{newline.not()}, nil
	case '^':
		p.at++
		if p.m {
			return startOfLine, nil
		}
		return startOfData, nil
	case '$':
		p.at++
		if p.m {
			return endOfLine, nil
		}
		return finalNode{p.at}, nil
	case '*', '+', '?':
		return nil, p.fail(p.at, "%c repeats nothing: expected something before it", c)
	}
	p.at++
	return p.single(c), nil
}

// single takes one byte, in either case under /i.
func (p *regexParser) single(c byte) node {
	s := setOf(c)
	if p.fold {
		s = s.folded()
	}
	return bytesNode{s}
}

func (p *regexParser) group() (node, error) {
	open := p.at
	if p.nested++; p.nested > maxNested {
		return nil, p.fail(open, "more than %d groups inside each other", maxNested)
	}
	fold, dotAll, m, extended := p.fold, p.dotAll, p.m, p.extended
	p.at++
	if p.next("*") {
		return nil, p.refuse(open, "verb (*…)")
	}
	if p.next("?") {
		done, err := p.groupKind(open)
		if err != nil {
			return nil, err
		}
		if done { // options for the rest of the group around, or a remark
			p.nested--
			return concatNode{}, nil
		}
	}
	n, err := p.choice()
	if err != nil {
		return nil, err
	}
	if !p.more() {
		return nil, p.fail(open, "( without )")
	}
	p.at++
	p.nested--
	p.fold, p.dotAll, p.m, p.extended = fold, dotAll, m, extended
	return n, nil
}

// refusedGroups are those that an automaton of this package can't be.
var refusedGroups = []struct{ opening, name string }{
	{"?=", "look-ahead (?=…)"}, {"?!", "negative look-ahead (?!…)"},
	{"?<=", "look-behind (?<=…)"}, {"?<!", "negative look-behind (?<!…)"},
	{"?>", "atomic group (?>…)"}, {"?|", "branch reset (?|…)"}, {"?(", "condition (?(…)…)"},
	{"?P=", "back reference (?P=…)"}, {"?P>", "recursion (?P>…)"}, {"?R", "recursion (?R)"}, {"?&", "recursion (?&…)"},
	{"?+", "recursion (?+…)"}, {"?0", "recursion (?0)"}, {"?1", "recursion (?1)"}, {"?C", "callout (?C)"},
}

// groupKind reads what stands behind "(" from "?" on. It reports whether the group is complete.
func (p *regexParser) groupKind(open int) (bool, error) {
	for _, r := range refusedGroups {
		if p.next(r.opening) {
			return false, p.refuse(open, r.name)
		}
	}
	switch {
	case p.next("?:"):
		p.at += 2
		return false, nil
	case p.next("?#"):
		n := strings.IndexByte(p.text[p.at:p.end], ')')
		if n < 0 {
			return false, p.fail(open, "( without )")
		}
		p.at += n + 1
		return true, nil
	case p.next("?P<"), p.next("?<"), p.next("?'"):
		closing := byte('>')
		if p.next("?'") {
			closing = '\''
		}
		from := strings.IndexAny(p.text[p.at:p.end], "<'") + p.at + 1
		n := strings.IndexByte(p.text[from:p.end], closing)
		if n < 1 {
			return false, p.fail(open, "name of a group without its end: expected (?P<name>…)")
		}
		p.at = from + n + 1
		return false, nil
	}
	return p.options(open)
}

// options reads (?ims-x) or the beginning of (?i:…).
func (p *regexParser) options(open int) (bool, error) {
	on := true
	for p.at++; p.more(); p.at++ {
		switch p.text[p.at] {
		case 'i':
			p.fold = on
		case 's':
			p.dotAll = on
		case 'm':
			p.m = on
		case 'x':
			p.extended = on
		case 'U': // ungreedy
		case '-':
			on = false
		case ')':
			p.at++
			return true, nil
		case ':':
			p.at++
			return false, nil
		default:
			return false, p.refuse(open, fmt.Sprintf("group (?%c…)", p.text[p.at]))
		}
	}
	return false, p.fail(open, "( without )")
}

// repeats reads *, +, ?, {n,m} behind a part.
func (p *regexParser) repeats(n node) (node, error) {
	repeated := false
	for {
		for p.skipExtended() {
		}
		if !p.more() {
			return n, nil
		}
		at := p.at
		lo, hi, ok, err := p.repeat()
		if err != nil || !ok {
			return n, err
		}
		if repeated {
			return nil, p.fail(at, "a repeat of a repeat: expected a group around the first")
		}
		repeated = true
		n = repeatNode{n, lo, hi}
		if p.next("+") {
			return nil, p.refuse(at, "possessive repeat")
		}
		if p.next("?") {
			p.at++
		}
	}
}

func (p *regexParser) repeat() (lo, hi int, ok bool, err error) {
	switch p.text[p.at] {
	case '*':
		p.at++
		return 0, -1, true, nil
	case '+':
		p.at++
		return 1, -1, true, nil
	case '?':
		p.at++
		return 0, 1, true, nil
	case '{':
		return p.counted()
	}
	return 0, 0, false, nil
}

// counted reads {n}, {n,} or {n,m}; anything else is a brace that stands for itself.
func (p *regexParser) counted() (lo, hi int, ok bool, err error) {
	n := strings.IndexByte(p.text[p.at:p.end], '}')
	if n < 0 {
		return 0, 0, false, nil
	}
	first, second, comma := strings.Cut(p.text[p.at+1:p.at+n], ",")
	if !allDigits(first) || first == "" || !allDigits(second) {
		return 0, 0, false, nil
	}
	lo, err = strconv.Atoi(first)
	switch {
	case err != nil:
	case !comma:
		hi = lo
	case second == "":
		hi = -1
	default:
		hi, err = strconv.Atoi(second)
	}
	if err != nil || lo > maxRepeat || hi > maxRepeat {
		return 0, 0, false, p.fail(p.at, "count of a repeat: at most %d", maxRepeat)
	}
	if hi >= 0 && hi < lo {
		return 0, 0, false, p.fail(p.at, "count from %d to %d: expected the smaller one first", lo, hi)
	}
	p.at += n + 1
	return lo, hi, true, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !digits.has(s[i]) {
			return false
		}
	}
	return true
}
