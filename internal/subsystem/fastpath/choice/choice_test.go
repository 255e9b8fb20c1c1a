// SPDX-License-Identifier: Apache-2.0

package choice

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/atomicfile"
	"minne/internal/subsystem/fastpath/fib"
)

func figure(s fib.Structure, low, middle, high float64) Figure {
	return Figure{Structure: s.String(), Ns: 40 * middle, ToDefault: Interval{Low: low, Median: middle, High: high},
		Image: int(fib.Layout4(s, fib.Full).ImageBytes())}
}

func TestMemoryBoundsTheCandidates(t *testing.T) {
	for _, c := range []struct {
		mib  uint64
		want []fib.Structure
	}{
		{0, fib.Structures}, // unknown
		{4096, fib.Structures},
		{1024, []fib.Structure{fib.Range18, fib.Range16, fib.Range20}},
		{500, []fib.Structure{fib.Range18, fib.Range16}},
		{64, []fib.Structure{fib.Range18}},
	} {
		if got := Candidates(c.mib << 20); !slices.Equal(got, c.want) {
			t.Errorf("%d MiB: %v, expected %v", c.mib, got, c.want)
		}
	}
}

// stored is a store in a directory of its own, what it logs, and a choice that fits this machine.
func stored(t *testing.T) (*Store, *bytes.Buffer, Choice) {
	var log bytes.Buffer
	s := NewStore(filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "run"), "1.0", slog.New(slog.NewTextHandler(&log, nil)))
	s.memory = 4 << 30
	return s, &log, Choice{
		Schema: Schema, Measured: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC), Key: s.key, Structure: "range16", Routes: 901_899,
		Figures: []Figure{figure(fib.Range18, 1, 1, 1), figure(fib.Range16, 0.5, 0.6, 0.7), figure(fib.Direct24, 2, 3, 4)},
	}
}

func TestStoredChoiceIsUsed(t *testing.T) {
	s, log, c := stored(t)
	if got := s.Choose(); got.Structure != fib.Default || !strings.Contains(got.Why, "not measured") {
		t.Errorf("without a file: %+v", got)
	}
	for range 2 { // the second time over the first one's file
		if err := s.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Choose()
	if want := "measured 2026-11-21 on this machine: range16 24 ns, range18 40 ns, direct24 120 ns"; got.Structure != fib.Range16 || got.Why != want {
		t.Errorf("%v, %q: expected range16, %q", got.Structure, got.Why, want)
	}
	if back, fresh, err := s.Read(); err != nil || !fresh || back.Routes != c.Routes {
		t.Errorf("read %+v, fresh %v, %v", back, fresh, err)
	}
	if files, err := os.ReadDir(filepath.Dir(s.Path())); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v: expected one", files, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

// On the image the state directory is read-only: the answer holds until the next boot.
func TestStateIsReadOnly(t *testing.T) {
	s, log, c := stored(t)
	readOnly := true
	s.write = func(path string, text []byte, d atomicfile.Durability) error {
		if path == s.path && readOnly {
			return &fs.PathError{Op: "open", Path: path, Err: unix.EROFS}
		}
		return write(path, text, d)
	}
	if err := s.Write(c); err != nil {
		t.Fatal(err)
	}
	if got := s.Choose(); got.Structure != fib.Range16 || s.Path() != s.spare || log.Len() > 0 {
		t.Errorf("%+v from %s, logged: %s", got, s.Path(), log)
	}
	readOnly = false
	c.Routes = 5
	if err := s.Write(c); err != nil {
		t.Fatal(err)
	}
	if back, _, err := s.Read(); err != nil || back.Routes != 5 || s.Path() != s.path {
		t.Errorf("%+v from %s, %v", back, s.Path(), err)
	}
}

func TestStaleChoices(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Choice)
		used   bool
	}{
		{"another kernel", func(c *Choice) { c.Key.Kernel = "6.1.0" }, true},
		{"another release", func(c *Choice) { c.Key.Minne = "0.9" }, true},
		{"another CPU", func(c *Choice) { c.Key.CPU = "AMD GX-412TC SOC" }, false},
		{"other caches", func(c *Choice) { c.Key.Caches = []string{"L1d 32 KiB"} }, false},
		{"too large for this memory", func(c *Choice) { c.Structure = "direct24" }, false},
	} {
		s, log, stale := stored(t)
		s.memory = 1 << 30
		c.change(&stale)
		if err := s.Write(stale); err != nil {
			t.Fatal(err)
		}
		_, fresh, err := s.Read()
		if fresh || (err == nil) != c.used {
			t.Errorf("%s: fresh %v, %v: expected that it is measured again, and used meanwhile: %v", c.name, fresh, err, c.used)
		}
		if got := s.Choose(); (got.Structure == fib.Range16) != c.used {
			t.Errorf("%s: %+v", c.name, got)
		}
		if log.Len() > 0 {
			t.Errorf("%s: logged: %s", c.name, log)
		}
	}
}

func TestDamagedFileIsIgnoredWithAWarning(t *testing.T) {
	s, _, c := stored(t)
	if err := s.Write(c); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "zeros": "\x00\x00\x00\x00", "half": string(whole[:len(whole)/2]), "no object": "[]",
		"other form":   strings.Replace(string(whole), `"schema": 1`, `"schema": 7`, 1),
		"no figure":    strings.Replace(string(whole), `"structure": "range16"`, `"structure": "range99"`, 1),
		"a figure < 0": strings.Replace(string(whole), `"ns": 24`, `"ns": -24`, 1),
	} {
		s, log, _ := stored(t)
		if err := os.MkdirAll(filepath.Dir(s.Path()), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got := s.Choose(); got.Structure != fib.Default || !strings.Contains(got.Why, "default") {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%s: %d warnings, expected 1: %s", name, n, log)
		}
		if err := s.Write(c); err != nil { // a measurement replaces it
			t.Fatal(err)
		}
		if _, fresh, err := s.Read(); err != nil || !fresh {
			t.Errorf("%s: after writing: fresh %v, %v", name, fresh, err)
		}
	}
}
