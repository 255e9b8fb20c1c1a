// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"minne/internal/base/pcap"
	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/platform/data"
	"minne/internal/subsystem/fastpath/automaton"
)

// Real patterns and payload lie in ../shared/data beside the repository. Where they don't, patterns and payload of the
// same shape are made.
var sharedData = filepath.Join(root, "../shared/data")

// compiled makes programs of peers and returns them.
func compiled(t testing.TB, names ...string) []Peer {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("sh", append([]string{filepath.Join(root, "scripts/peers.sh"), dir}, names...)...).CombinedOutput(); err != nil {
		t.Fatalf("scripts/peers.sh: %v\n%s", err, out)
	}
	list, err := Available(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// patternsOf are patterns of a file, mixed, or made ones.
func patternsOf(t testing.TB, name string, made func() ([]automaton.Pattern, error)) []automaton.Pattern {
	t.Helper()
	file := filepath.Join(sharedData, "patterns", name)
	var list []automaton.Pattern
	_, err := os.Stat(file)
	if err == nil {
		list, _, err = data.LoadPatterns(file) // those outside the subset are left out
	} else {
		list, err = made()
	}
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func literalsOf(t testing.TB, n int) []automaton.Pattern {
	t.Helper()
	list := patternsOf(t, "literals.hex", func() ([]automaton.Pattern, error) { return data.Literals(n, 7) })
	return list[:n]
}

// regexesOf are at most n.
func regexesOf(t testing.TB, n int) []automaton.Pattern {
	t.Helper()
	list := patternsOf(t, "regex.txt", func() ([]automaton.Pattern, error) {
		return data.Regexes(n, data.PatternShape{Wild: 0.2, Ranges: 0.3}, 7)
	})
	return list[:min(n, len(list))]
}

// headers are the bytes of a frame before what it carries, about.
const headers = 42

// payloadOf is what packets of the captures carry, and as much made of the patterns themselves.
func payloadOf(t testing.TB, patterns []automaton.Pattern, size int) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sharedData, "pcap/*.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for _, f := range files {
		capture, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		err = pcap.Read(capture, func(r pcap.Record) error {
			if len(r.Frame) > headers {
				list = append(list, bytes.Clone(r.Frame[headers:]))
			}
			return nil
		})
		capture.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(8, 8))
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	total := 0
	for i, r := range list {
		if total += len(r); total > size/2 {
			list = list[:i]
			break
		}
	}
	return append(list, data.Payload(size/2, patterns, 0.3, 8)...)
}

// supported leaves the patterns that a peer can search for, which must be nearly all.
func supported(t testing.TB, p Peer, patterns []automaton.Pattern) []automaton.Pattern {
	t.Helper()
	refused, err := Refused(t.Context(), p, patternTable(t, p, patterns))
	if err != nil {
		t.Fatal(err)
	}
	var kept []automaton.Pattern
	for i, pattern := range patterns {
		if why, is := refused[i]; is {
			t.Logf("%v refuses %s: %s", p, pattern.Text, why)
			continue
		}
		kept = append(kept, pattern)
	}
	t.Logf("%v searches for %d of %d patterns", p, len(kept), len(patterns))
	if len(kept) < len(patterns)*9/10 {
		t.Errorf("%v searches for %d of %d patterns only", p, len(kept), len(patterns))
	}
	return kept
}

func patternTable(t testing.TB, p Peer, patterns []automaton.Pattern) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "patterns")
	if err == nil {
		err = WritePatterns(f, p, patterns, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return f.Name()
}

// answers asks a peer which patterns each record has.
func answers(t testing.TB, p Peer, patterns []automaton.Pattern, records [][]byte) Set {
	t.Helper()
	content, err := dataset.Payload(records)
	in := Inputs{Table: patternTable(t, p, patterns), Sets: []string{file(t, t.TempDir(), "payload", content, err)}, CPU: -1}
	s, err := Open(t.Context(), p, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Round(1); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return s.Sets[0]
}

// TestPatternSets compares the sets of patterns that the automata find in each record with Hyperscan's and RE2's.
func TestPatternSets(t *testing.T) {
	t.Parallel()
	list := compiled(t, "hyperscan", "re2")
	for _, c := range []struct {
		name     string
		patterns []automaton.Pattern
		options  automaton.Options
	}{
		{"byte strings", literalsOf(t, 3000), automaton.Options{}},
		{"regular expressions", regexesOf(t, 200), automaton.Options{Hybrid: true}},
	} {
		payload := payloadOf(t, c.patterns, 2<<20)
		for _, p := range list {
			t.Run(fmt.Sprint(c.name, " ", p.Name), func(t *testing.T) {
				compare(t, p, supported(t, p, c.patterns), payload, c.options)
			})
		}
	}
}

func compare(t *testing.T, p Peer, patterns []automaton.Pattern, payload [][]byte, options automaton.Options) {
	a, err := automaton.Compile(patterns, options)
	if err != nil {
		t.Fatal(err)
	}
	var (
		sum  dataset.Checksum
		want = make([][]int, len(payload))
		all  int
	)
	for i, r := range payload {
		want[i] = a.Match(r)
		sum.AddRecord(want[i])
		all += len(want[i])
	}
	got := answers(t, p, patterns, payload)
	t.Logf("%d records, %d patterns found", len(payload), all)
	if all < 500 {
		t.Errorf("%d patterns found: the comparison says too little", all)
	}
	if got.Checksum == sum.String() {
		return
	}
	t.Errorf("other answers than %v %s", p, p.Version)
	different := 0
	for i, pattern := range patterns {
		var alone dataset.Checksum
		records := 0
		for _, w := range want {
			if slices.Contains(w, i) {
				alone.AddRecord([]int{0})
				records++
			} else {
				alone.AddRecord(nil)
			}
		}
		if got := answers(t, p, patterns[i:i+1], payload); got.Checksum != alone.String() {
			t.Errorf("pattern %s: in %d records, %v says %d", pattern.Text, records, p, got.Sum)
			if different++; different == 10 {
				return
			}
		}
	}
}

// BenchmarkPatterns shows how fast 3,000 byte strings, and regular expressions, are searched for, natively, beside the peers in
// build/peers.
func BenchmarkPatterns(b *testing.B) {
	found, err := Available(b.Context(), programs())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, algorithm string
		patterns        []automaton.Pattern
		options         automaton.Options
	}{
		{"literals", "d2fa", literalsOf(b, 3000), automaton.Options{}},
		{"regexes", "hybrid", regexesOf(b, 200), automaton.Options{Hybrid: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			patterns := c.patterns
			for _, p := range found {
				if p.Task == Patterns {
					patterns = supported(b, p, patterns)
				}
			}
			a, err := automaton.Compile(patterns, c.options)
			if err != nil {
				b.Fatal(err)
			}
			b.Logf("%+v", a.Stats())
			table := file(b, dir, "image", a.Image().Bytes(binary.NativeEndian), nil)
			content, err := dataset.Payload(payloadOf(b, patterns, 2<<20))
			sets := []string{file(b, dir, "payload", content, err)}
			all := []*measured{own(b, compileProcbench(b, dir), c.algorithm, c.algorithm, table, a.Stats().ImageBytes, sets)}
			for _, p := range found {
				if p.Task == Patterns {
					all = append(all, peer(b, p, Inputs{Table: patternTable(b, p, patterns), Sets: sets}))
				}
			}
			rounds(b, all)
		})
	}
}
