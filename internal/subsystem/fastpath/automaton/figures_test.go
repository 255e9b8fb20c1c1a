// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/testing/nativetest"
)

// The figures of docs/design/patterns.md:
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 30m ./internal/subsystem/fastpath/automaton

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
	program, err := nativetest.Compile(b.TempDir(), "../../../..", "testdata/search.c", "-O2")
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
	peakMemory(b, true)
	before := cpuTime(b)
	a, err := Compile(patterns, o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peakMemory(b, false))/(1<<20), "MiB-peak")
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

// fitting are the real regular expressions that have a DFA of their own within the default bounds.
func fitting(b *testing.B) []Pattern {
	patterns := figurePatterns(b, "regex.txt")
	var large *ErrTooLarge
	if _, err := Compile(patterns, Options{}); !errors.As(err, &large) {
		b.Fatalf("%v: expected some patterns that explode alone", err)
	}
	var kept []Pattern
	for i, p := range patterns {
		if !slices.Contains(large.Patterns, i) {
			kept = append(kept, p)
		}
	}
	b.Logf("%d of %d patterns have a DFA; the first other one: %v", len(kept), len(patterns), large)
	return kept
}

// BenchmarkRegexD2FA is about the bar of 90 % fewer transitions for 500 real regular expressions.
func BenchmarkRegexD2FA(b *testing.B) {
	patterns := fitting(b)
	for _, count := range []int{500, len(patterns)} {
		b.Run(fmt.Sprintf("patterns=%d", count), func(b *testing.B) {
			for range b.N {
				timed(b, patterns[:count], Options{})
			}
		})
	}
}

// BenchmarkRegexHybrid compiles all real regular expressions of the subset together.
func BenchmarkRegexHybrid(b *testing.B) {
	patterns := shuffled(figurePatterns(b, "regex.txt"))
	for range b.N {
		timed(b, patterns, Options{Hybrid: true})
	}
}

// exploding are how many real patterns with .* or long counts are put together to see a DFA explode, and most how
// many of its states are counted.
const (
	exploding  = 40
	mostStates = 1_000_000
)

// BenchmarkExplosion is about the bar for rules whose DFA has more than a million states: it counts these, and builds the
// hybrid FA of the same rules, and of all real rules, in a minute and 512 MB at most.
func BenchmarkExplosion(b *testing.B) {
	all := fitting(b)
	build := &builder{patterns: all}
	build.Options, _ = Options{}.withDefaults()
	var ids []int32
	for i, p := range all {
		if levels[0].wild(p.root, true) && len(ids) < exploding {
			ids = append(ids, int32(i))
		}
	}
	alone, err := build.alone(ids)
	if err != nil {
		b.Fatal(err)
	}
	var patterns []Pattern
	var parts []*dfa
	for _, id := range ids {
		patterns, parts = append(patterns, all[id]), append(parts, alone[id])
	}
	for range b.N {
		begin := time.Now()
		states := countTogether(parts, mostStates)
		if states < mostStates {
			b.Errorf("the smallest DFA of %d patterns has %d states: expected %d at least", len(patterns), states, mostStates)
		}
		b.Logf("the smallest DFA of %d real patterns has more than %d states (counted in %v)", len(patterns), states, time.Since(begin))
		for _, c := range []struct {
			name     string
			patterns []Pattern
		}{{"same", patterns}, {"all", figurePatterns(b, "regex.txt")}} {
			reset := peakMemory(b, true)
			before, begin := cpuTime(b), time.Now()
			a, err := Compile(c.patterns, Options{Hybrid: true})
			if err != nil {
				b.Fatal(err)
			}
			cpu, wall, peak := (cpuTime(b) - before).Seconds(), time.Since(begin), peakMemory(b, false)
			b.Logf("hybrid FA of %d patterns: %.1f s of CPU time, %v, %d MiB resident at most (%d before): %+v", len(c.patterns), cpu, wall, peak>>20, reset>>20, a.Stats())
			if cpu > 60 || peak > 512<<20 {
				b.Errorf("hybrid FA of %d patterns: %.1f s, %d MiB: expected 60 s and 512 MiB at most", len(c.patterns), cpu, peak>>20)
			}
			b.ReportMetric(cpu, "cpu-s-"+c.name)
			b.ReportMetric(float64(peak)/(1<<20), "MiB-peak-"+c.name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// countTogether counts the states of the smallest DFA of all parts, each the smallest of its own pattern, until there are most: every
// combination that is reached is a state, as product.go says. A collision of hashes would count one too few.
func countTogether(parts []*dfa, most int) int {
	var classes []byte // a byte of each
	known := map[string]bool{}
	for v := range 256 {
		var key []byte
		for _, d := range parts {
			key = append(key, d.classOf[v])
		}
		if !known[string(key)] {
			known[string(key)] = true
			classes = append(classes, byte(v))
		}
	}
	start := make([]int32, len(parts))
	for i, d := range parts {
		start[i] = d.start
	}
	queue, seen := [][]int32{start}, map[uint64]bool{rowHash(start): true}
	to := make([]int32, len(parts))
	for len(queue) > 0 && len(seen) < most {
		s := queue[0]
		queue = queue[1:]
		for _, v := range classes {
			for i, d := range parts {
				to[i] = d.row(int(s[i]))[d.classOf[v]]
			}
			if h := rowHash(to); !seen[h] {
				seen[h] = true
				queue = append(queue, slices.Clone(to))
			}
		}
	}
	return len(seen)
}

// peakMemory is the most memory that the process had resident since the last reset, in bytes.
func peakMemory(b *testing.B, reset bool) int {
	b.Helper()
	if reset {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			b.Fatal(err)
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(after, &kib); err != nil {
		b.Fatalf("VmHWM of /proc/self/status: %v", err)
	}
	return kib << 10
}
