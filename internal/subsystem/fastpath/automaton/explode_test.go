// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHybridWhereDFAExplodes compiles patterns whose DFA has more than a million states: each of 24 patterns may be
// waiting for its end or not.
func TestHybridWhereDFAExplodes(t *testing.T) {
	t.Parallel()
	var patterns []Pattern
	for i := range 24 {
		p, err := ParsePattern(fmt.Sprintf("/begin%c.*end%c/s", 'a'+i, 'a'+i))
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	b := &builder{patterns: patterns}
	ids := make([]int32, len(patterns))
	for i := range ids {
		ids[i] = int32(i)
	}
	n, err := b.nfa(ids, noBorders)
	if err != nil {
		t.Fatal(err)
	}
	var explodes *ErrExplodes
	if _, err := determinize(n, bounds{20_000, 1 << 30}); !errors.As(err, &explodes) {
		t.Fatalf("20,000 states: %v", err)
	}
	a, err := Compile(patterns, Options{Hybrid: true})
	if err != nil {
		t.Fatal(err)
	}
	s := a.Stats()
	t.Logf("%+v", s)
	if s.Groups != 1 || s.States > 1000 || s.Tails != len(patterns) {
		t.Errorf("%+v: expected one small head and a tail per pattern", s)
	}
	if got := a.Match([]byte("beginc beginx endx beginy begina endb endc")); fmt.Sprint(got) != "[2 23]" {
		t.Errorf("found %v", got)
	}
}

// TestCounterTails finds what overflow rules look for, so many bytes of one kind behind a border that comes again and again, with
// tails that count: an NFA of as many positions is not needed, so that eBPF can run them.
func TestCounterTails(t *testing.T) {
	t.Parallel()
	var patterns []Pattern
	for _, text := range []string{`/USER\s[^\n]{300}/i`, `/x[^\n]{500,}/`, `/y.*z[ab]{400}/s`} {
		p, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	a, err := Compile(patterns, Options{Hybrid: true})
	if err != nil {
		t.Fatal(err)
	}
	if bits := a.Image().Words[headBits]; bits != 0 {
		t.Errorf("a tail is an NFA of %d words: expected counters only", bits)
	}
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for text, want := range map[string]string{
		"user " + many("c", 299):                                "[]",
		"user " + many("c", 300):                                "[0]",
		"user " + many("c", 200) + "\n" + many("c", 299):        "[]",
		many("user ", 59):                                       "[]",
		many("user ", 61):                                       "[0]",
		"x" + many("x", 499):                                    "[]",
		"x" + many("x", 500):                                    "[1]",
		"yz" + many("ab", 199) + "cz" + many("ab", 200):         "[2]",
		"yz" + many("ab", 199) + "cz" + many("ab", 199) + "\nb": "[]",
	} {
		if got := fmt.Sprint(a.Match([]byte(text))); got != want {
			t.Errorf("%.20q… of %d bytes: found %s, expected %s", text, len(text), got, want)
		}
	}
}
