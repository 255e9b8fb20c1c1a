// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: no text makes the decoder or the checks panic; a refusal is an
// *Error with problems inside the file; what is accepted survives marshalling.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../../docs/examples/*.yaml", "testdata/bad/*.yaml", "testdata/odd/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, text := range []string{
		"", "\n", "version: 1", "version: 1\n...\n", "---\nversion: 1\n", "{version: 1}", `{"version": 1, "interfaces": {"a": {"mtu": 1500}}}`,
		"version: 1\nsystem: {hostname: 'it''s'}", "version: 1\nsystem: {hostname: \"\\u0041\"}", "version: 1\nsystem:\n  hostname: >-\n    a\n    b\n",
		"version: 1\ninterfaces: {\"a b\": {description: \"\\\\ \\\" # : - ? ! & *\"}}", "version: 1\ninterfaces: {on: {description: null}}",
		"version: 1\nrouting: {static: [{prefix: \"::/0\", via: [::1, a, fe80::1%b]}]}",
		"version: 1\nrouting: {bgp: {asn: 1.0, restart-time: 1h30m}, ospf: {areas: {0: {interfaces: {}}}, reference-bandwidth: 2.5Gbit}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse("fuzz.yaml", text)
		if err != nil {
			checkRefusal(t, err, text)
			return
		}
		if err := Check(cfg, UnreadSecrets()); err != nil {
			checkRefusal(t, err, text)
		}
		Warnings(cfg)
		made := Marshal(cfg)
		again, err := Parse("marshalled", made)
		if err != nil {
			t.Fatalf("marshalling made a file that is refused: %v\n%s", err, made)
		}
		if !Equal(cfg, again) {
			t.Fatalf("marshalling changed the meaning:\n%s", made)
		}
		if twice := Marshal(again); string(twice) != string(made) {
			t.Fatalf("the canonical form is not stable:\n%s", Diff(made, twice, "first", "second"))
		}
	})
}

// checkRefusal looks at an error as a program that shows it does.
func checkRefusal(t *testing.T, err error, text []byte) {
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		t.Fatalf("refused without a problem: %v", err)
	}
	lines := strings.Count(string(text), "\n") + 1
	for _, p := range e.Problems {
		if p.Message == "" || p.Line < 0 || p.Line > lines || p.Line > 0 && p.Column < 1 || p.caret < 0 {
			t.Fatalf("a problem out of place: %+v", p)
		}
	}
}

// FuzzSecrets: no text makes the reader panic, and no message repeats a value.
func FuzzSecrets(f *testing.F) {
	for _, text := range []string{"", "a: b", "a: \"b\"\nc: 'd'", "a", "- a", "a: [b]", "a: &b c", "a: b\na: c", "\xff", "a: |\n  b\n", "? a", "a:\n  b: c"} {
		f.Add([]byte(text), "value")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		const mark = "jf83-Secret-mark"
		for _, whole := range [][]byte{text, append(append([]byte{}, text...), mark+value...), append([]byte("name: "+mark), text...)} {
			s, err := ParseSecrets("secrets.yaml", whole)
			if err != nil {
				if strings.Contains(err.Error(), mark) {
					t.Fatalf("the message tells a value: %v", err)
				}
				continue
			}
			for _, name := range s.Names() {
				if got, ok := s.Get(name); !ok || got == "" {
					t.Fatalf("secret %q has no value", name)
				}
			}
		}
	})
}
