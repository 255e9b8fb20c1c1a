// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestRefusedByName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`/a(?=b)/`:          "p:1:3: look-ahead (?=…)",
		`/a(?!b)/`:          "p:1:3: negative look-ahead",
		`/(?<=a)b/`:         "p:1:2: look-behind",
		`/ab(?<!a)b/`:       "p:1:4: negative look-behind",
		`/(a)\1/`:           `p:1:5: back reference \1`,
		`/(?P<x>a)(?P=x)/`:  "p:1:10: back reference (?P=…)",
		`/(?>a|ab)c/`:       "p:1:2: atomic group",
		`/a++/`:             "p:1:3: possessive repeat",
		`/a{2}+/`:           "p:1:3: possessive repeat",
		`/(?R)/`:            "p:1:2: recursion",
		`/(?(1)a|b)/`:       "p:1:2: condition",
		`/a\Kb/`:            `p:1:3: \K`,
		`/\pL/`:             `p:1:2: \p`,
		`/\X/`:              `p:1:2: \X`,
		`/(*UTF8)a/`:        "p:1:2: verb",
		`/a$b/`:             "p:1:3: $ with something behind it",
		`/(a$)+/`:           "p:1:4: $ with something behind it",
		`/a/A`:              "p:1:4: flag A",
		`/a/j`:              `p:1:4: unknown flag 'j'`,
		`/a`:                "p:1:3: no closing slash",
		`/(a/`:              "p:1:2: ( without )",
		`/a)/`:              "p:1:3: ) without (",
		`/[a/`:              "p:1:2: [ without ]",
		`/[z-a]/`:           "p:1:4: range from",
		`/[[:nope:]]/`:      "p:1:3: class [:nope:] is unknown",
		`/*a/`:              "p:1:2: * repeats nothing",
		`/a**/`:             "p:1:4: a repeat of a repeat",
		`/a{3,2}/`:          "p:1:3: count from 3 to 2",
		`/a{5000}/`:         "p:1:3: count of a repeat: at most 2048",
		`/(a{2000}){2000}/`: "p:1:2: with its repeats written out",
		`/a\/`:              `p:1:3: backslash at the end`,
		`/\x{100}/`:         `p:1:2: \x{…}: expected`,
		`0g`:                "p:1:2: 'g' in a byte string",
		`0af`:               "p:1:3: odd number",
		`/[[:]/`:            "",
		`/[]a]/`:            "",
		`/a{,3}/`:           "",
		`/x{/`:              "",
	} {
		patterns, errs := Read("p", strings.NewReader(text))
		switch {
		case want == "" && (len(errs) > 0 || len(patterns) != 1):
			t.Errorf("%s: %v, expected a pattern", text, errs)
		case want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want)):
			t.Errorf("%s: %v, expected %s…", text, errs, want)
		}
	}
}

func TestReadNamesLines(t *testing.T) {
	t.Parallel()
	patterns, errs := Read("rules.txt", strings.NewReader("# a remark\n\n616263\r\n/a(?=b)/\n/x/Ui\n"))
	var s *SyntaxError
	if len(errs) != 1 || !errors.As(errs[0], &s) || s.Line != 4 || s.Column != 3 || s.File != "rules.txt" {
		t.Errorf("errors %v", errs)
	}
	if len(patterns) != 2 || string(patterns[0].Literal) != "abc" || patterns[1].Where != "U" {
		t.Errorf("patterns %+v", patterns)
	}
}

// TestMeaning holds what Go's regexp writes or takes differently.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{`/a$/`, []string{"a", "a\n", "ba"}, []string{"ab", "a\nb", "a\n\n"}},
		{`/a$/m`, []string{"a", "a\nb", "a\n\n"}, []string{"ab"}},
		{`/a\Z/`, []string{"a", "a\n"}, []string{"a\nb"}},
		{`/a\z/`, []string{"a"}, []string{"a\n"}},
		{`/^a/`, []string{"ab"}, []string{"ba", "b\na"}},
		{`/^a/m`, []string{"ab", "b\na"}, []string{"ba"}},
		{`/(?i)a(?-i)b/`, []string{"Ab", "ab"}, []string{"aB"}},
		{`/(?i:a)b/`, []string{"Ab"}, []string{"AB"}},
		{`/a b # c/x`, []string{"ab"}, []string{"a b"}},
		{`/\Qa.b\E+/`, []string{"a.b", "a.bb"}, []string{"axb"}},
		{`/\x41\cA/`, []string{"A\x01"}, []string{"A"}},
		{`/[\x80-\xff]{2}/`, []string{"\x80\xff"}, []string{"\x80a\xff"}},
		{`/a.c/`, []string{"abc", "a\xffc"}, []string{"a\nc"}},
		{`/a.c/s`, []string{"a\nc"}, []string{"ac"}},
		{`/\bfoo\b/`, []string{"a foo", "foo", "foo.x"}, []string{"foobar", "xfoo"}},
		{`/[^\d\s]x/`, []string{"ax"}, []string{"1x", " x"}},
		{`/a*/`, []string{"", "b"}, nil},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, o := range []Options{{}, {Hybrid: true}} {
			a, err := Compile([]Pattern{p}, o)
			if err != nil {
				t.Errorf("%s: %v", c.pattern, err)
				continue
			}
			for _, data := range c.yes {
				if !slices.Equal(a.Match([]byte(data)), []int{0}) {
					t.Errorf("%s is not found in %q", c.pattern, data)
				}
			}
			for _, data := range c.no {
				if len(a.Match([]byte(data))) > 0 {
					t.Errorf("%s is found in %q", c.pattern, data)
				}
			}
		}
	}
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{`/a(b|c)*[^d-f\x00]{2,5}$/ims`, "616263", `/\bx\Q+\E(?i:y)/`, `/[[:alpha:]\]-]/`, "/(?P<a>x)+?/U"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		a, err := Compile([]Pattern{p}, Options{Hybrid: true, States: 200})
		if err == nil {
			a.Match([]byte("some text\n"))
		}
	})
}
