// SPDX-License-Identifier: Apache-2.0

package automaton

import "math/bits"

// byteSet is a set of byte values.
type byteSet [4]uint64

// anyByte are all of them; newline, word and so on are PCRE's classes in the C locale.
var (
	anyByte = byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	newline = setOf('\n')
	digits  = setRange('0', '9')
	upper   = setRange('A', 'Z')
	lower   = setRange('a', 'z')
	word    = upper.or(lower).or(digits).or(setOf('_'))
	space   = setOf([]byte(" \t\n\v\f\r")...)
	blanks  = setOf([]byte(" \t")...)
	posix   = map[string]byteSet{
		"alpha": upper.or(lower), "digit": digits, "alnum": upper.or(lower).or(digits), "upper": upper, "lower": lower,
		"space": space, "blank": blanks, "punct": setRange('!', '~').without(upper.or(lower).or(digits)), "word": word,
		"xdigit": digits.or(setRange('a', 'f')).or(setRange('A', 'F')), "cntrl": setRange(0, 31).or(setOf(127)),
		"print": setRange(' ', '~'), "graph": setRange('!', '~'), "ascii": setRange(0, 127),
	}
)

func setOf(values ...byte) byteSet {
	var s byteSet
	for _, b := range values {
		s.add(b)
	}
	return s
}

func setRange(first, last byte) byteSet {
	var s byteSet
	for b := int(first); b <= int(last); b++ {
		s.add(byte(b))
	}
	return s
}

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

func (s byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s byteSet) or(o byteSet) byteSet {
	return byteSet{s[0] | o[0], s[1] | o[1], s[2] | o[2], s[3] | o[3]}
}

func (s byteSet) not() byteSet { return byteSet{^s[0], ^s[1], ^s[2], ^s[3]} }

func (s byteSet) without(o byteSet) byteSet {
	return byteSet{s[0] &^ o[0], s[1] &^ o[1], s[2] &^ o[2], s[3] &^ o[3]}
}

func (s byteSet) size() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// folded adds the other case of every ASCII letter.
func (s byteSet) folded() byteSet {
	for b := byte('a'); b <= 'z'; b++ {
		if s.has(b) || s.has(b-32) {
			s.add(b)
			s.add(b - 32)
		}
	}
	return s
}

// least is the smallest value of a set that is not empty.
func (s byteSet) least() byte {
	for i, w := range s {
		if w != 0 {
			return byte(64*i + bits.TrailingZeros64(w))
		}
	}
	return 0
}
