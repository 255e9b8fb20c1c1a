// SPDX-License-Identifier: Apache-2.0

package label

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
)

func compileText(t *testing.T, dir, section string) (*Sets, error) {
	t.Helper()
	cfg, err := config.Parse("minne.yaml", []byte("version: 1\n"+section))
	if err != nil {
		t.Fatal(err)
	}
	return Compile(cfg, dir)
}

// TestProblems: each says where it is and what to write instead.
func TestProblems(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"bad.txt": "# patterns\n/good/\n/a(?=b)/\n", "empty.txt": "# nothing\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "private.txt"), []byte("/a/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(pattern string) string { return "labels:\n  sets:\n    x:\n      patterns: [" + pattern + "]\n" }
	for _, c := range []struct{ name, section, want string }{
		{"look-ahead", one(`'/ab(?=c)/'`), "minne.yaml:5:22: look-ahead (?=…): not in the subset"},
		{"back reference", one(`'/(a)\1/'`), `minne.yaml:5:23: back reference`},
		{"neither", one("hello"), `minne.yaml:5:18: 'h' in a byte string`},
		{"odd digits", one("'123'"), "odd number of hexadecimal digits"},
		{"no closing slash", one("'/abc'"), "no closing slash"},
		{"end of data", one(`'/abc$/'`), "minne.yaml:5:23: the pattern asks for the end of the stream"},
		{"end by \\z", one(`'/abc\z/'`), `minne.yaml:5:23: the pattern asks for the end`},
		{"flags of Snort", one("'/abc/U'"), "minne.yaml:5:24: the flags U say"},
		{"matches nothing", one("'/a*/'"), "minne.yaml:5:19: the pattern matches without a single byte"},
		{"a second that matches nothing", one("'/b/', '/a?/'"), "minne.yaml:5:26: the pattern matches without"},
		{"explodes", one("'/begin[^x]{2000}end.{2000}z/s'"), "the patterns together are too much"},
		{"in a file", "labels: {sets: {x: {file: bad.txt}}}\n", filepath.Join(dir, "bad.txt") + ":3:3: look-ahead (?=…)"},
		{"file of nothing", "labels: {sets: {x: {file: empty.txt}}}\n", "no pattern that can be used"},
		{"no file", "labels: {sets: {x: {file: none.txt}}}\n", "there is no file"},
		{"private file", "labels: {sets: {x: {file: private.txt}}}\n", "chmod 644"},
		{"no patterns", "labels: {sets: {x: {rate: 1Mbit}}}\n", "the set has no patterns"},
		{"no sets", "labels: {sets: {}}\n", "no set of patterns"},
		{"drop and rate", "labels: {sets: {x: {patterns: [00], drop: true, rate: 1Mbit}}}\n", "there is nothing to limit"},
		{"slow", "labels: {sets: {x: {patterns: [00], rate: 999bit}}}\n", "at least 1kbit"},
		{"name", "labels: {sets: {\"a b\": {patterns: [00]}}}\n", `can't have the name "a b"`},
		{"fast path off", "labels: {sets: {x: {patterns: [00]}}}\nfast-path: {mode: off}\n", "fast-path.mode is off"},
	} {
		_, err := compileText(t, dir, c.section)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %s", c.name, err, c.want)
		}
	}
	names := make([]string, 64)
	for i := range names {
		names[i] = "s" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ": {patterns: [00]}"
	}
	if _, err := compileText(t, dir, "labels: {sets: {"+strings.Join(names, ", ")+"}}\n"); err == nil || !strings.Contains(err.Error(), "at most 63") {
		t.Errorf("64 sets: %v", err)
	}
}

func TestCompile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "more.txt"), []byte("# one\n\n/more/i\r\n0001\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const section = "labels: {sets: {b: {patterns: [/x/, /^y/m], file: more.txt, rate: 2Mbit, packets-per-second: 50}, a: {patterns: [ff], drop: true}}}\n"
	s, err := compileText(t, dir, section)
	if err != nil {
		t.Fatal(err)
	}
	if s.Packets != 4 || s.Bytes != 256 || s.Flows != 65536 || len(s.Patterns) != 5 || s.Label(1) != "a" || s.Label(2) != "b" || s.Label(0)+s.Label(3) != "" {
		t.Errorf("%+v", s)
	}
	if a, b := s.Sets[0].Limits(), s.Sets[1].Limits(); a != "dropped" || b != "at most 2Mbit/s and 50 packets/s" {
		t.Errorf("limits %q, %q", a, b)
	}
	if len(s.Files) != 1 {
		t.Errorf("files %v", s.Files)
	}
	same := func(section string) bool {
		t.Helper()
		other, err := compileText(t, dir, section)
		if err != nil {
			t.Fatal(err)
		}
		return s.SameProgram(other)
	}
	if !same(section) || !same(strings.Replace(section, "2Mbit", "3Mbit", 1)) || same(strings.Replace(section, "ff", "fe", 1)) || same(strings.Replace(section, "{sets", "{bytes: 99, sets", 1)) {
		t.Error("limits alone must not make another program, and patterns must")
	}
	if none, err := compileText(t, dir, "\n"); none != nil || err != nil || none.Label(1) != "" || !none.SameProgram(nil) || none.SameProgram(s) {
		t.Errorf("without a section: %v, %v", none, err)
	}
}

// TestLimitsAsTheProgramReadsThem: rates from the slowest to the fastest, in its fixed point.
func TestLimitsAsTheProgramReadsThem(t *testing.T) {
	l := make(Limits, Labels)
	for _, c := range []struct {
		rate    uint64
		perByte uint64 // ns of 1,500 bytes
	}{{1000, 12_000_000_000}, {8_000, 1_500_000_000}, {2_000_000, 6_000_000}, {1_000_000_000, 12_000}, {100_000_000_000, 119}} {
		l.Set(&Sets{Sets: []Set{{Rate: c.rate}}})
		if got := l[1].perByte * 1500 >> byteShift; got != c.perByte {
			t.Errorf("%d bit/s: 1,500 bytes take %d ns, expected %d", c.rate, got, c.perByte)
		}
		if l[1].burst < uint64(100*time.Millisecond) || l[1].burst < c.perByte*32-32 || l[1].drop != 0 || l[1].packet != 0 {
			t.Errorf("%d bit/s: %+v", c.rate, l[1])
		}
	}
	l.Set(&Sets{Sets: []Set{{Drop: true}}})
	if l[1].perByte != 0 || l[1].drop != 1 || l[2] != (limit{}) {
		t.Errorf("dropped: %+v", l[1])
	}
}
