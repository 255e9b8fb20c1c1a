// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"fmt"
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
