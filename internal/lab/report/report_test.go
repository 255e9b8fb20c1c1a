// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"minne/internal/lab/result"
)

var update = flag.Bool("update", false, "write what came out to testdata")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range max(len(g), len(w)) {
			if i >= len(g) || i >= len(w) || g[i] != w[i] {
				t.Fatalf("%s line %d:\n got %q\nwant %q", name, i+1, line0(g, i), line0(w, i))
			}
		}
	}
}

func line0(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// written writes a report to a directory of the test's own.
func written(t *testing.T, r *result.Result) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "report")
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	return dir
}

func content(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestResultFile: what is written can be read, and what an earlier version wrote still can.
func TestResultFile(t *testing.T) {
	dir := written(t, fixture())
	golden(t, "result.json", content(t, dir, ResultFile))
	for _, path := range []string{dir, filepath.Join(dir, ResultFile), "testdata"} {
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fixture(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: what was read is not what was written", path)
		}
	}
}

func TestTables(t *testing.T) {
	r, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteTables(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "show.txt", b.Bytes())
}

// TestSheets compares the first lines of every CSV file.
func TestSheets(t *testing.T) {
	dir := written(t, fixture())
	var b bytes.Buffer
	for _, name := range sheetNames() {
		lines := strings.SplitAfter(string(content(t, dir, name)), "\n")
		fmt.Fprintf(&b, "%s, %d lines\n%s\n", name, len(lines)-1, strings.Join(lines[:min(7, len(lines))], ""))
		for i, line := range lines[:len(lines)-1] {
			if got, want := strings.Count(line, ","), strings.Count(lines[0], ","); got < want {
				t.Fatalf("%s line %d has %d commas, its header %d", name, i+1, got, want)
			}
		}
	}
	golden(t, "csv.txt", b.Bytes())
}

// TestTrialSheet: the raw counters are all there.
func TestTrialSheet(t *testing.T) {
	text := string(content(t, written(t, fixture()), "trials.csv"))
	if got := strings.Count(text, "\n"); got != 13 {
		t.Errorf("trials.csv has %d lines, want a header and 12 trials", got)
	}
	if want := "1000000000,1000000,1000000,905000,95000,"; !strings.Contains(text, want) {
		t.Errorf("trials.csv is without elapsed, intended, sent, received, lost of the tenth trial: %q", want)
	}
}

// TestWriteAgain: reports of a running measurement replace each other, at any time
// there is a whole one, and nothing else is left.
func TestWriteAgain(t *testing.T) {
	r := fixture()
	dir := written(t, r)
	done := make(chan error)
	go func() {
		var err error
		for i := 0; i < 10 && err == nil; i++ {
			_, err = Read(dir)
		}
		done <- err
	}()
	for range 5 {
		if err := Write(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.Soak = nil
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "soak.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("soak.csv is there without a soak: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func TestWriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, fixture()); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestNotNumbers: a ratio of two zeros costs neither the report nor the caller's figures.
func TestNotNumbers(t *testing.T) {
	r := fixture()
	r.Comparisons[0].Ratio.Low = math.NaN()
	r.Comparisons[1].CostRatio.High = math.Inf(1)
	r.MRR[2].Rates[1] = math.Inf(-1)
	got, err := Read(written(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Comparisons[0].Ratio.Low; v != 0 {
		t.Errorf("NaN became %v", v)
	}
	want := "3 figures are not numbers and are shown as 0: mrr[2].rates_fps[1], comparisons[0].ratio.low, comparisons[1].cost_ratio.high"
	if n := got.Notes[len(got.Notes)-1]; n != want {
		t.Errorf("note %q\n want %q", n, want)
	}
	if !math.IsNaN(r.Comparisons[0].Ratio.Low) || len(r.Notes) != 2 || !math.IsInf(r.Comparisons[1].CostRatio.High, 1) || !math.IsInf(r.MRR[2].Rates[1], -1) {
		t.Error("the caller's result was changed")
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"schema":"minne-lab-result/2"}`, `schema is "minne-lab-result/2", this minne reads "minne-lab-result/1"`},
		{`{"schema":"minne-lab-result/10"}`, `use the version of minne that wrote it`},
		{`{"schema":"something"}`, `not a lab result`},
		{`{}`, `not a lab result`},
		{`[]`, `not a lab result`},
		{``, `not a lab result`},
		{"{\"schema\":\"minne-lab-result/1\",\n \"title\": oops}", `line 2, column 11`},
		{"{\"schema\":\"minne-lab-result/1\",\n \"title\": 7}", `line 2, column`},
		{`{"schema":"minne-lab-result/1"} x`, `line 1, column 33`},
	} {
		path := filepath.Join(t.TempDir(), "result.json")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: error %v\nwant %q", c.text, err, c.want)
		}
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no result.json") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := bounded(filepath.Join("testdata", "show.txt"), 1000); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file beyond the bound: %v", err)
	}
}

// TestReadsMinorVersions: additions to the schema don't lock older readers out.
func TestReadsMinorVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	if err := os.WriteFile(path, []byte(`{"schema":"minne-lab-result/1.4","title":"later","colour":"blue"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(path); err != nil || r.Title != "later" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestTerminalText: a shared file can't send control sequences to its reader's terminal.
func TestTerminalText(t *testing.T) {
	r := fixture()
	r.Title = "bad\x1b]0;title\a"
	r.Comparisons[0].Verdict = "\x1b[2Jfaster\u009b"
	var b bytes.Buffer
	if err := WriteTables(&b, r); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\a\u009b") {
		t.Error("control characters reach the terminal")
	}
}

func TestDoubts(t *testing.T) {
	quiet := fixture()
	quiet.Trials[4].Void = ""
	if d := Doubts(quiet); len(d) != 0 {
		t.Errorf("a complete and quiet result has doubts: %q", d)
	}
	loud := fixture()
	loud.Partial, loud.Machine.Steal, loud.Machine.Load = "interrupted by the user", 0.07, 3.5
	d := strings.Join(Doubts(loud), "\n")
	for _, want := range []string{"partial: interrupted by the user", "1 of 12", "7 % of the CPU time", "load average 3.50"} {
		if !strings.Contains(d, want) {
			t.Errorf("doubts are without %q:\n%s", want, d)
		}
	}
}
