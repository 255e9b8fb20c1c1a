// SPDX-License-Identifier: Apache-2.0

package automatonbench

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"minne/internal/subsystem/fastpath/automaton"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func patterns(t *testing.T, texts ...string) []automaton.Pattern {
	t.Helper()
	list, errs := automaton.Read("test", strings.NewReader(strings.Join(texts, "\n")))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return list
}

// texts are patterns over few letters, byte strings and regular expressions, with joints that make tails.
func texts(r *rand.Rand) []string {
	parts := []string{"a", "b", "ab", "ba", "[ab]", "c", "[^a]", `\n`, "(?:ab|c)", "a{2}"}
	joints := []string{"", "", ".*", "[^\\n]*", "b+", ".{3}", "c?", "[ab]{2,}"}
	list := []string{"6162", "ff"}
	for range 6 {
		s := "/" + []string{"", "", "^"}[r.IntN(3)] + parts[r.IntN(len(parts))]
		for range 1 + r.IntN(3) {
			s += joints[r.IntN(len(joints))] + parts[r.IntN(len(parts))]
		}
		list = append(list, s+[]string{"", "", "$"}[r.IntN(3)]+"/"+[]string{"", "s", "sm"}[r.IntN(3)])
	}
	return list
}

func payload(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = "aabbbc\n\xffd"[r.IntN(9)]
	}
	return data
}

// TestAgreesWithInterpreter compares the programs with the reading of the same image in Go.
func TestAgreesWithInterpreter(t *testing.T) {
	for _, o := range []automaton.Options{{}, {States: 300, Rows: 4}, {Hybrid: true}, {Hybrid: true, States: 40, Rows: 4}} {
		r := rand.New(rand.NewPCG(31, uint64(o.States)))
		matches, compared := 0, 0
		for range 6 {
			a, err := automaton.Compile(patterns(t, texts(r)...), o)
			if err != nil {
				t.Log(err) // the bounds are small
				continue
			}
			if err := fits(a.Image()); err != nil {
				t.Log(err)
				continue
			}
			p, err := Load(a.Image())
			if err != nil {
				t.Fatal(err)
			}
			for range 25 {
				data := payload(r, r.IntN(60))
				cut := r.IntN(len(data) + 1)
				p.Begin()
				for _, piece := range [][]byte{data[:cut], data[cut:]} {
					if _, err := p.Feed(piece); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.Finish(); err != nil {
					t.Fatal(err)
				}
				want := a.Match(data)
				matches += len(want)
				compared++
				if got := p.Found(); !slices.Equal(got, want) {
					t.Fatalf("%+v, %q: found %v, expected %v", o, data, got, want)
				}
			}
			p.Close()
		}
		t.Logf("%+v: %d searches, %d matches", o, compared, matches)
		if compared < 100 || matches < compared {
			t.Errorf("%+v: %d searches, %d matches: the test says too little", o, compared, matches)
		}
	}
}

// TestFirstBytes runs the program that a router would: it sees so many bytes of a packet and no more.
func TestFirstBytes(t *testing.T) {
	list := patterns(t, "/needle/", "/^\\x00{3}/", "/n[a-z]+dle.x/si", "313233", "/never/")
	a, err := automaton.Compile(list, automaton.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Stats().Groups != 1 {
		list = slices.DeleteFunc(list, func(p automaton.Pattern) bool { return p.Literal != nil })
		if a, err = automaton.Compile(list, automaton.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Load(a.Image())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	info, err := p.objs.Programs["first"].Info()
	if err != nil {
		t.Fatal(err)
	}
	verified, _ := info.VerifiedInstructions()
	t.Logf("%d instructions verified", verified)
	for _, at := range []int{0, 14, 60, FirstBytes - 6, FirstBytes - 5, FirstBytes, 400} {
		packet := make([]byte, 600)
		copy(packet[at:], "needle x123")
		if err := p.First(packet); err != nil {
			t.Fatal(err)
		}
		s := a.Stream()
		s.Feed(packet[:FirstBytes])
		if got, want := p.Found(), s.Found(); !slices.Equal(got, want) {
			t.Errorf("at %d: found %v, expected %v", at, got, want)
		}
	}
}

func TestTooLargeIsNamed(t *testing.T) {
	a, err := automaton.Compile(patterns(t, "/x[^\\n]{500}y/"), automaton.Options{Hybrid: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(a.Image()); err == nil || !strings.Contains(err.Error(), "NFA") {
		t.Errorf("a tail that is an NFA: %v", err)
	}
}
