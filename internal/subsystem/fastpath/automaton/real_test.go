// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/pcap"
)

// Real patterns and payload lie in ../shared/data beside the repository. Where they don't, patterns and
// payload of the same shape are made.
const sharedData = "../../../../../shared/data"

func sharedPatterns(t *testing.T, name string) []Pattern {
	t.Helper()
	f, err := os.Open(filepath.Join(sharedData, "patterns", name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, refused := Read(name, f)
	t.Logf("%s: %d patterns, %d refused", name, len(patterns), len(refused))
	return patterns
}

// likeRules are patterns as intrusion detection rules have them.
func likeRules(r *rand.Rand, count int) []Pattern {
	words := strings.Fields("GET POST Host User-Agent Content-Type cmd exe php index login admin http https x y q MSIE Mozilla passwd USER")
	joints := []string{`\/`, `=`, `\x3a\x20`, `[^\r\n]*`, `\s+`, `.*`, `\d{1,3}`, `[a-f0-9]{8}`, `(?:a|bc)?`, `[^&]+`, `\?`}
	var patterns []Pattern
	for len(patterns) < count {
		text := words[r.IntN(len(words))]
		for range 1 + r.IntN(3) {
			text += joints[r.IntN(len(joints))] + words[r.IntN(len(words))]
		}
		p, err := ParsePattern("/" + []string{"", "^"}[r.IntN(4)/3] + text + "/" + []string{"", "i", "si", "smi", "U"}[r.IntN(5)])
		if err == nil {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// payloads are what packets of the captures carry, or text of the words of rules.
func payloads(t testing.TB, r *rand.Rand, count int) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sharedData, "pcap", "*.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		err = pcap.Read(f, func(p pcap.Record) error {
			if len(p.Frame) > 54 {
				list = append(list, slices.Clone(p.Frame[54:]))
			}
			return nil
		})
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	for len(list) < count {
		text := ""
		for range 10 + r.IntN(30) {
			text += strings.Fields("GET POST Host: User-Agent Content-Type= cmd .exe .php? index login/ admin http https x y q MSIE Mozilla passwd USER 123 deadbeef")[r.IntN(21)] +
				[]string{"", " ", "\r\n", "=", "/", "&"}[r.IntN(6)]
		}
		list = append(list, []byte(text))
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:count]
}

// comparable leaves out the patterns that Go's regexp does not know: it counts to 1,000 only.
func comparable(t *testing.T, patterns []Pattern) []Pattern {
	kept := slices.DeleteFunc(slices.Clone(patterns), func(p Pattern) bool {
		_, err := reference(p)
		return err != nil
	})
	t.Logf("%d of %d patterns can be compared", len(kept), len(patterns))
	if len(kept) < len(patterns)*9/10 {
		t.Errorf("only %d of %d patterns can be compared", len(kept), len(patterns))
	}
	return kept
}

// TestRealPatterns searches real payload for real patterns in a hybrid FA, natively and in Go.
func TestRealPatterns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 5))
	patterns := sharedPatterns(t, "regex.txt")
	if patterns == nil {
		patterns = likeRules(r, 200)
	}
	patterns = comparable(t, patterns)
	r.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
	patterns = patterns[:min(len(patterns), 150)]
	a, err := Compile(patterns, Options{Hybrid: true, States: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a.Stats())
	compareStreams(t, a, patterns, payloads(t, r, 250))
}

// TestRealLiterals searches for thousands of real byte strings in a D²FA.
func TestRealLiterals(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(22, 5))
	patterns := sharedPatterns(t, "literals.hex")
	for len(patterns) < 3000 {
		b := make([]byte, 2+r.IntN(30))
		for i := range b {
			b[i] = byte(r.IntN(256)) & 0x7f
		}
		p, err := Literal(b)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	r.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
	patterns = patterns[:3000]
	a, err := Compile(patterns, Options{States: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", a.Stats())
	var data []byte
	for _, p := range payloads(t, r, 2000) {
		data = append(data, p...)
	}
	for range 200 { // some are there for sure
		at := r.IntN(len(data))
		copy(data[at:], patterns[r.IntN(len(patterns))].Literal)
	}
	var want []int
	for i, p := range patterns {
		if strings.Contains(string(data), string(p.Literal)) {
			want = append(want, i)
		}
	}
	img := a.Image().Bytes(binary.NativeEndian)
	n := startNative(t, "-O2")
	for name, got := range map[string][]int{"in Go": a.Match(data), "native": numbers(n.ask(img, [][]byte{data[:1000], data[1000:]}))} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %d of %d", name, len(got), len(want))
		}
	}
}

// compareStreams feeds payloads, a few in one stream, to an automaton and to Go's regexp.
func compareStreams(t *testing.T, a *Automaton, patterns []Pattern, payloads [][]byte) {
	t.Helper()
	img := a.Image().Bytes(binary.NativeEndian)
	n := startNative(t, "-O2")
	total := 0
	for pieces := range slices.Chunk(payloads, 5) {
		data := slices.Concat(pieces...)
		want := expected(t, patterns, data)
		total += len(want)
		for name, got := range map[string][]int{"in Go": a.Match(data), "native": numbers(n.ask(img, pieces))} {
			for id := range patterns {
				if slices.Contains(got, id) != slices.Contains(want, id) {
					t.Errorf("%s: pattern %s: found %v in %s", name, patterns[id].Text, slices.Contains(got, id), brief(data))
				}
			}
		}
	}
	t.Logf("%d matches", total)
	if total < 20 {
		t.Errorf("%d matches: the test says too little", total)
	}
}

func brief(data []byte) string {
	return fmt.Sprintf("%d bytes beginning with %q", len(data), data[:min(len(data), 40)])
}
