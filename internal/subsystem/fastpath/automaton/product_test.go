// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestProductIsSmallest puts patterns together by products, and all of them at once by subset construction and minimising: the smallest
// automaton is the same, up to the last number.
func TestProductIsSmallest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(31, 5))
	for range 40 {
		patterns := likeRules(r, 2+r.IntN(4))
		o, _ := Options{}.withDefaults()
		b := &builder{Options: o, patterns: patterns}
		var ids []int32
		for i := range patterns {
			ids = append(ids, int32(i))
		}
		limit := bounds{b.States, b.Memory}
		n, err := b.nfa(ids, noBorders)
		if err != nil {
			t.Fatal(err)
		}
		want, err := determinize(n, limit)
		if err != nil {
			continue // too large for one
		}
		want = want.minimised()
		alone, err := b.alone(ids)
		if err != nil {
			t.Fatal(err)
		}
		m := multiplier{limit: limit}
		got := alone[0]
		for _, id := range ids[1:] {
			if got, err = m.product(got, alone[id]); err != nil {
				t.Fatal(err)
			}
		}
		same := got.classOf == want.classOf && got.start == want.start && slices.Equal(got.next, want.next) &&
			slices.EqualFunc(got.now, want.now, slices.Equal) && slices.EqualFunc(got.end, want.end, slices.Equal)
		if !same {
			t.Errorf("%v: %d states by products, %d by minimising, or others", texts(patterns), got.states(), want.states())
		}
	}
}

func texts(patterns []Pattern) (all []string) {
	for _, p := range patterns {
		all = append(all, p.Text)
	}
	return all
}

// TestTooLarge names every pattern that explodes alone, so that the others can be compiled without.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	var patterns []Pattern
	for _, text := range []string{"/abc/", "/x.{100}y/", "/d.*e/", "/x[^a]{200}y/"} {
		p, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	_, err := Compile(patterns, Options{States: 1000})
	var large *ErrTooLarge
	if !errors.As(err, &large) || fmt.Sprint(large.Patterns) != "[1 3]" {
		t.Fatalf("%v: expected patterns 1 and 3 to be named", err)
	}
	if want := "pattern 1, /x.{100}y/, and 1 more: the deterministic automaton grows beyond 1000 states"; len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
		t.Errorf("%v", err)
	}
	var kept []Pattern
	for i, p := range patterns {
		if !slices.Contains(large.Patterns, i) {
			kept = append(kept, p)
		}
	}
	if _, err := Compile(kept, Options{States: 1000}); err != nil {
		t.Error(err)
	}
}
