// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
)

var update = flag.Bool("update", false, "write testdata anew")

// apu is a result as it may come from a small machine.
func apu() *Result {
	ns := func(v float64) result.Interval { return result.Interval{Median: v, Low: v * 0.9, High: v * 1.1} }
	row := func(algorithm, where, keys, access, order, per string, v float64, sum string) Row {
		return Row{Algorithm: algorithm, Holds: "IPv4, 1,000 routes", Where: where, Keys: keys, Access: access, Order: order, Per: per, Ns: ns(v), Rate: 1e3 / v, Memory: 1 << 20, Checksum: sum}
	}
	return &Result{
		Schema: Schema, Name: "APU2", Started: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC), Seconds: 61, Rounds: 3, Repetitions: 27,
		Minne:   result.Build{Version: "1.0", Go: "go1.25.0"},
		Machine: machine.Machine{CPU: "AMD GX-412TC SOC", Architecture: "x86_64", Cores: 4, Threads: 4, MHz: []float64{1000}, Caches: []string{"L1d 32 KiB", "L2 2 MiB for CPUs 0-3"}, MemoryBytes: 4 << 30, Kernel: "6.12"},
		Tables:  []Table{{Algorithm: RangeTable, Holds: "IPv4, 1,000 routes", Used: 900_000, Memory: 1 << 20, BuildMs: 12}},
		Rows: []Row{
			row(RangeTable, Native, "random", "all", "independent", "key", 50, "aa"),
			row(RangeTable, EBPF, "in table", "hot", "independent", "key", 20, "bb"),
			row(RangeTable, EBPF, "in table", "all", "dependent", "key", 120, "bb"),
			row(D2FA, Native, "payload", "all", "stream", "byte", 8, "cc"),
		},
		Noise:   []Noise{{Native + ", " + RangeTable, ns(1)}},
		Clock:   Clock{Missing: "not measurable here: no counter"},
		Power:   Power{Missing: "not measurable here: no sensor"},
		Missing: []string{HybridFA + " (3 regular expressions): it explodes"},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is another than\n%s\n(go test ./internal/lab/platform -update writes it anew)", file, got)
	}
}

// TestGolden: what other programs and people read stays as it is.
func TestGolden(t *testing.T) {
	r := apu()
	p, err := r.lookupParts()
	if err != nil {
		t.Fatal(err)
	}
	p.Program, p.Rules, p.Routes, p.RuleSet = 200, 100, 1000, 600
	if r.Estimate, err = NewEstimate(p, []Check{check("one flow", 90, result.Interval{Median: 100, Low: 95, High: 105})}); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "result.json", append(text, '\n'))
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	golden(t, "result.txt", table.Bytes())

	back, err := Read("testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(back, "", "  ")
	if err != nil || !bytes.Equal(append(again, '\n'), append(text, '\n')) {
		t.Errorf("what was read is not what was written: %v", err)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "APU2", "Longest prefix match", "What it can route", "it explodes", "default-src &#39;none&#39;"} {
		if !strings.Contains(strings.ReplaceAll(page.String(), "'none'", "&#39;none&#39;"), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page.String(), "<script") || strings.Contains(page.String(), "http://") && !strings.Contains(page.String(), "www.w3.org") {
		t.Error("the page needs something from elsewhere")
	}
}

func TestEstimate(t *testing.T) {
	p := Parts{Program: 200, Rules: 100, Random: 120, Routes: 900_000, RuleSet: 600, GHz: 1}
	e, err := NewEstimate(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 200 + 120 + 100 + 440 cycles at 1 GHz
	if want := 1e9 / 860; math.Abs(e.Native-want) > 1 {
		t.Errorf("%.0f pps, expected %.0f", e.Native, want)
	}
	if want := 1e9 / (420 + 2190); math.Abs(e.Generic-want) > 1 {
		t.Errorf("%.0f pps without XDP, expected %.0f", e.Generic, want)
	}
	for _, want := range []string{"about 1.2 Mpps of 64-byte packets (0.78 Gbit/s", "900,000 routes and 600 rules", "driver 440 (assumed", "--check-estimate"} {
		if !strings.Contains(e.Text, want) {
			t.Errorf("%q lacks %q", e.Text, want)
		}
	}
	for limit, change := range map[string]func(*Parts){
		"memory latency": func(p *Parts) { p.Random = 900 }, "the firewall's rules": func(p *Parts) { p.Rules = 900 },
		"own program": func(p *Parts) { p.Program = 900 }, "driver": func(p *Parts) { p.GHz = 0.5 },
	} {
		q := p
		change(&q)
		if e, err := NewEstimate(q, nil); err != nil || !strings.Contains(e.Limit, limit) {
			t.Errorf("limited by %q, expected %q", e.Limit, limit)
		}
	}
	if _, err := NewEstimate(Parts{GHz: 1}, nil); err == nil {
		t.Error("an estimate without the program's cost")
	}
	checked, err := NewEstimate(p, []Check{check("a", 50, result.Interval{Median: 100}), check("b", 110, result.Interval{Median: 100})})
	if err != nil || !strings.Contains(checked.Text, "off by up to 50 %") {
		t.Errorf("%v, %v", checked, err)
	}
	r := apu()
	r.Rows = r.Rows[:1]
	if _, err := r.lookupParts(); err == nil {
		t.Error("parts of lookups that were not measured")
	}
}

func TestMerge(t *testing.T) {
	other := apu()
	other.Name, other.Machine.CPU = "Pi 4", "Cortex-A72"
	other.Rows = other.Rows[:3]
	other.Rows[0].Checksum = "zz"
	m := Merge([]*Result{apu(), other, apu()})
	var names []string
	for _, p := range m.Platforms {
		names = append(names, p.Name)
	}
	if want := []string{"APU2", "Pi 4", "APU2 (2)"}; !slices.Equal(names, want) {
		t.Errorf("platforms %q, expected %q", names, want)
	}
	if len(m.Lines) != 4 || m.Lines[3].Cells[1].Ns != nil || m.Lines[3].Cells[2].Ns == nil {
		t.Errorf("%+v: expected four lines, the last one without a figure of the second platform", m.Lines)
	}
	if !m.Lines[0].Cells[1].Other || m.Lines[0].Cells[2].Other || len(m.Notes) != 1 {
		t.Errorf("other data: %+v, notes %q", m.Lines[0].Cells, m.Notes)
	}
	var text, page bytes.Buffer
	if err := m.Document(false).WriteTerminal(&text); err != nil {
		t.Fatal(err)
	}
	if err := m.Document(true).WritePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Cortex-A72", "20.0 *", "125", "4.00 GiB", "their checksums differ"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Count(page.String(), "<svg") < 2 {
		t.Error("the page has no plots")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{"json": "{", "schema": `{"schema":"minne-lab-result/1"}`} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "minne bench platform --json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	if all, err := Names(nil); err != nil || len(all) != len(Algorithms) {
		t.Errorf("%q, %v", all, err)
	}
	if some, err := Names([]string{"d2fa", "range"}); err != nil || !slices.Equal(some, []string{RangeTable, D2FA}) {
		t.Errorf("%q, %v", some, err)
	}
	if _, err := Names([]string{"dfa"}); err == nil || !strings.Contains(err.Error(), "tree-bitmap") {
		t.Errorf("%v", err)
	}
}
