// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// finder is what is compared with the reference. It compiles patterns to a search for their numbers in data that comes in pieces.
type finder func(patterns []Pattern) (search, error)

type search func(pieces [][]byte) []int

func interpreted(o Options) finder {
	return func(patterns []Pattern) (search, error) {
		a, err := Compile(patterns, o)
		if err != nil {
			return nil, err
		}
		return func(pieces [][]byte) []int {
			s := a.Stream()
			for _, p := range pieces {
				s.Feed(p)
			}
			s.End()
			return s.Found()
		}, nil
	}
}

// expected are the numbers that Go's regexp finds.
func expected(t testing.TB, patterns []Pattern, data []byte) []int {
	t.Helper()
	var ids []int
	text := latin1(data)
	for i, p := range patterns {
		re, err := reference(p)
		if err != nil {
			t.Fatalf("%s: Go's regexp: %v", p.Text, err)
		}
		if re.MatchString(text) {
			ids = append(ids, i)
		}
	}
	return ids
}

// randomRegex writes patterns over few letters, so that they meet the data often.
type randomRegex struct{ *rand.Rand }

func (r randomRegex) one(of ...string) string { return of[r.IntN(len(of))] }

func (r randomRegex) class() string {
	s := "["
	if r.IntN(3) == 0 {
		s += "^"
	}
	for range 1 + r.IntN(3) {
		s += r.one("a", "b", "a-c", `\d`, `\w`, `\s`, `\n`, `\x41`, "B-b", `\S`, "-", `\xe0-\xff`, `\D`, `[:alpha:]`)
	}
	return s + "]"
}

func (r randomRegex) atom(depth int) string {
	if depth > 0 && r.IntN(4) == 0 {
		return r.one("(", "(?:", "(?P<n>", "(?s:", "(?-s:") + r.choice(depth-1) + ")"
	}
	switch r.IntN(14) {
	case 0:
		return r.class()
	case 1:
		return "."
	case 2:
		return r.one("^", `\b`, `\B`, `\A`)
	case 3:
		return r.one(`\n`, `\xff`, `\x{80}`, `\t`)
	case 4:
		return r.one(`\d`, `\w`, `\s`, `\W`, `\S`, `\D`, `\h`)
	}
	return r.one("a", "b", "c", "ab", "B", "1", `\.`, " ")
}

func (r randomRegex) concat(depth int) string {
	s := ""
	for range 1 + r.IntN(4) {
		a := r.atom(depth)
		if r.IntN(3) == 0 && !strings.HasPrefix(a, "^") && !strings.HasPrefix(strings.ToLower(a), `\b`) && a != `\A` && len(a) != 2 {
			a += r.one("*", "+", "?", "{2}", "{1,3}", "{0,2}", "{3,}", "*?", "+?", "{2,4}?", "{12}", ".*", ".*")
		}
		s += a
	}
	return s
}

func (r randomRegex) choice(depth int) string {
	s := r.concat(depth)
	for r.IntN(4) == 0 {
		s += "|" + r.concat(depth)
	}
	return s
}

// pattern is a random one of the subset.
func (r randomRegex) pattern() Pattern {
	for {
		text := "/" + r.choice(2)
		if r.IntN(5) == 0 {
			text += r.one("$", `\z`, `\b`, `\Z`)
		}
		text += "/" + r.one("", "", "s", "s", "m", "i", "sm", "ism", "mU")
		if strings.Contains(text, "/i") && strings.Contains(text, `\x`) {
			continue // Go folds the case of characters beyond ASCII too
		}
		p, err := ParsePattern(text)
		if err != nil {
			continue
		}
		if _, err := reference(p); err == nil {
			return p
		}
	}
}

func (r randomRegex) literal() Pattern {
	b := make([]byte, 1+r.IntN(4))
	for i := range b {
		b[i] = r.one("a", "b", "c", "\n", "\x00", "\xff")[0]
	}
	p, err := Literal(b)
	if err != nil {
		panic(err)
	}
	return p
}

func (r randomRegex) patterns() []Pattern {
	list := make([]Pattern, 1+r.IntN(6))
	for i := range list {
		list[i] = r.pattern()
		if r.IntN(4) == 0 {
			list[i] = r.literal()
		}
	}
	return list
}

func (r randomRegex) data() []byte {
	data := make([]byte, r.IntN(40))
	for i := range data {
		data[i] = r.one("a", "b", "c", "a", "b", "A", "B", "1", " ", "\n", ".", "\xff", "\x80", "\x00", "\v", "_")[0]
	}
	return data
}

// pieces cuts data at random places.
func (r randomRegex) pieces(data []byte) [][]byte {
	var list [][]byte
	for len(data) > 0 {
		n := 1 + r.IntN(len(data))
		list = append(list, data[:n])
		data = data[n:]
	}
	return list
}

// agree compares a finder with the reference on random patterns and data.
func agree(t *testing.T, find finder, count int, seed uint64) {
	t.Helper()
	if testing.Short() {
		count /= 5
	}
	r := randomRegex{rand.New(rand.NewPCG(seed, 5))}
	found, refused := 0, 0
	for range count {
		patterns := r.patterns()
		search, err := find(patterns)
		if err != nil {
			refused++
			continue
		}
		for range 8 {
			data := r.data()
			got := search(r.pieces(data))
			want := expected(t, patterns, data)
			found += len(want)
			if !slices.Equal(got, want) {
				report(t, find, patterns, data)
				return
			}
		}
	}
	t.Logf("%d sets, %d matches, %d sets refused", count, found, refused)
	if found < count || refused > count/3 {
		t.Errorf("%d matches and %d refused of %d: the test says too little", found, refused, count)
	}
}

// report makes a wrong case smaller while it stays wrong, and tells of it.
func report(t *testing.T, find finder, patterns []Pattern, data []byte) {
	t.Helper()
	wrong := func(patterns []Pattern, data []byte) bool {
		for _, p := range patterns {
			if _, err := reference(p); err != nil {
				return false
			}
		}
		search, err := find(patterns)
		return err == nil && !slices.Equal(search([][]byte{data}), expected(t, patterns, data))
	}
	for smaller := wrong(patterns, data); smaller; {
		smaller = false
		for i := range patterns {
			if less := slices.Delete(slices.Clone(patterns), i, i+1); len(less) > 0 && wrong(less, data) {
				patterns, smaller = less, true
				break
			}
			if p, ok := shorter(patterns[i], func(p Pattern) bool {
				other := slices.Clone(patterns)
				other[i] = p
				return wrong(other, data)
			}); ok {
				patterns[i], smaller = p, true
			}
		}
		for i := range data {
			if less := slices.Delete(slices.Clone(data), i, i+1); wrong(patterns, less) {
				data, smaller = less, true
				break
			}
		}
	}
	var texts []string
	for _, p := range patterns {
		texts = append(texts, p.Text)
	}
	search, err := find(patterns)
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("patterns %q in %q: found %v, expected %v", texts, data, search([][]byte{data}), expected(t, patterns, data))
}

// shorter takes one or two characters out of a pattern.
func shorter(p Pattern, wrong func(Pattern) bool) (Pattern, bool) {
	for width := 3; width > 0; width-- {
		for i := 0; i+width <= len(p.Text); i++ {
			q, err := ParsePattern(p.Text[:i] + p.Text[i+width:])
			if err == nil && wrong(q) {
				return q, true
			}
		}
	}
	return p, false
}

func TestAgreesWithRegexp(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{States: 1000}), 2000, 1)
}

func TestAgreesWithoutDefaults(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{States: 1000, Defaults: -1}), 300, 2)
}

func TestAgreesWithManyDefaults(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{States: 1000, Defaults: 8, Rows: -1}), 500, 3)
}

func TestAgreesInManyGroups(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{States: 150}), 500, 4)
}

func TestTooMuchIsNamed(t *testing.T) {
	t.Parallel()
	p, err := ParsePattern("/a.{20}b/s")
	if err != nil {
		t.Fatal(err)
	}
	var explodes *ErrExplodes
	if _, err = Compile([]Pattern{p}, Options{States: 1000}); !errors.As(err, &explodes) || !strings.Contains(err.Error(), "a.{20}b") {
		t.Errorf("2^20 states in 1,000: %v", err)
	}
}

func TestHybridAgreesWithRegexp(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{Hybrid: true, States: 1000}), 2000, 6)
}

func TestHybridOfSmallHeadsAgrees(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{Hybrid: true, States: 30}), 1000, 7)
}

// TestTailsAsBits has nearly no tail small enough to be a DFA.
func TestTailsAsBits(t *testing.T) {
	t.Parallel()
	agree(t, interpreted(Options{Hybrid: true, States: 100, tailStates: 2}), 1000, 8)
}
