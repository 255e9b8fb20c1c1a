// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/algo/nativetest"
)

// The figures of docs/design/patterns.md:
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 30m ./internal/algo/automaton

// figurePatterns are the patterns of a file of ../shared/data.
func figurePatterns(b *testing.B, name string) []Pattern {
	b.Helper()
	f, err := os.Open(filepath.Join(sharedData, "patterns", name))
	if err != nil {
		b.Fatalf("the figures are about real patterns: %v", err)
	}
	defer f.Close()
	patterns, _ := Read(name, f)
	return patterns
}

// shuffled gives patterns another order, always the same.
func shuffled(patterns []Pattern) []Pattern {
	r := rand.New(rand.NewPCG(40, 5))
	r.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
	return patterns
}

// nativeSpeed is the median of nine rounds of the native lookup over the captures' payload, in MB/s.
func nativeSpeed(b *testing.B, a *Automaton) float64 {
	b.Helper()
	program, err := nativetest.Compile(b.TempDir(), "../../..", "testdata/search.c", "-O2")
	if err != nil {
		b.Fatal(err)
	}
	data := slices.Concat(payloads(b, rand.New(rand.NewPCG(41, 5)), 4000)...)
	dir := b.TempDir()
	img, file := filepath.Join(dir, "image"), filepath.Join(dir, "payload")
	for name, content := range map[string][]byte{img: a.Image().Bytes(binary.NativeEndian), file: data} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	out, err := exec.Command(program, "speed", img, file).Output()
	if err != nil {
		b.Fatal(err)
	}
	var rounds []float64
	for line := range strings.Lines(string(out)) {
		var v float64
		if _, err := fmt.Sscanf(line, "%f MB/s", &v); err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		rounds = append(rounds, v)
	}
	slices.Sort(rounds)
	return rounds[len(rounds)/2]
}

// timed compiles and reports; time is the process's CPU time, since others work on the machine too.
func timed(b *testing.B, patterns []Pattern, o Options) {
	b.Helper()
	before := cpuTime(b)
	a, err := Compile(patterns, o)
	if err != nil {
		b.Fatal(err)
	}
	reportStats(b, a, cpuTime(b)-before)
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportStats(b *testing.B, a *Automaton, took time.Duration) {
	b.Helper()
	s := a.Stats()
	b.Logf("%+v", s)
	b.ReportMetric(took.Seconds(), "cpu-s-build")
	b.ReportMetric(100*(1-float64(s.Transitions)/float64(s.DFATransitions)), "%fewer")
	b.ReportMetric(100*(1-float64(s.ClassTransitions)/float64(s.DFAClassTransitions)), "%fewer-over-classes")
	b.ReportMetric(float64(s.ImageBytes)/(1<<20), "MiB")
	b.ReportMetric(nativeSpeed(b, a), "MB/s")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkLiterals3000(b *testing.B) {
	patterns := shuffled(figurePatterns(b, "literals.hex"))[:3000]
	for _, defaults := range []int{0, 2, 4, -1} {
		b.Run(fmt.Sprintf("defaults=%d", defaults), func(b *testing.B) {
			for range b.N {
				timed(b, patterns, Options{States: 200_000, Defaults: defaults})
			}
		})
	}
}

// fitting are real regular expressions whose own DFA has no more than 5,000 states.
func fitting(b *testing.B, count int) []Pattern {
	var kept []Pattern
	for _, p := range figurePatterns(b, "regex.txt") {
		if _, err := Compile([]Pattern{p}, Options{States: 5000}); err == nil && len(kept) < count {
			kept = append(kept, p)
		}
	}
	return kept
}

func BenchmarkRegex500D2FA(b *testing.B) {
	patterns := fitting(b, 500)
	for range b.N {
		timed(b, patterns, Options{})
	}
}

// BenchmarkRegexHybrid compiles all real regular expressions of the subset together. One DFA of 40 of
// them has more than a million states already, which BenchmarkExplosion shows.
func BenchmarkRegexHybrid(b *testing.B) {
	patterns := shuffled(figurePatterns(b, "regex.txt"))
	for range b.N {
		timed(b, patterns, Options{Hybrid: true})
	}
}

func BenchmarkExplosion(b *testing.B) {
	patterns := shuffled(figurePatterns(b, "regex.txt"))
	build := &builder{patterns: patterns}
	var ids []int32
	for i, p := range patterns {
		if levels[0].wild(p.root, true) && len(ids) < 40 {
			ids = append(ids, int32(i))
		}
	}
	n, err := build.nfa(ids, noBorders)
	if err != nil {
		b.Fatal(err)
	}
	var explodes *ErrExplodes
	if err := countStates(n, 1_000_000); !errors.As(err, &explodes) {
		b.Fatalf("a million states: %v", err)
	}
	b.Logf("%d patterns: %v", len(ids), explodes)
}

// countStates determinizes without keeping the table.
func countStates(n *nfa, most int) error {
	s := newSubset(n, bounds{most, math.MaxInt})
	s.entered = true
	s.enterEverywhere()
	s.state(len(s.bytes), nil)
	for at := 0; at < len(s.extras); at++ {
		s.expand(at)
		s.out.next = s.out.next[:0]
		s.extras[at] = nil
		clear(s.raw)
		if err := s.exceeded(); err != nil {
			return err
		}
	}
	return nil
}
