// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/testing/testns"
)

// The tests mount small file systems.
func TestMain(m *testing.M) { testns.Main(m) }

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *Store, state State, text string) Revision {
	t.Helper()
	r, err := s.Add(Revision{Time: time.Unix(1e9, 0).UTC(), User: "ana", State: state, Config: text})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := Revision{
		Time: time.Unix(1e9, 5).UTC(), User: "ana", Comment: "new uplink", State: Awaiting, Source: "/etc/minne/minne.yaml",
		Secrets:  map[string]string{"isp-a": "0011223344556677"},
		Deadline: &Deadline{Wall: time.Unix(1e9, 0).UTC(), BootID: "b", Boottime: 3 * time.Second},
		Config:   "version: 1\n# ü\n\n",
	}
	want, err := s.Add(want)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := open(t, dir).Get(want.Number)
	if !ok || fmt.Sprintf("%+v", *got.Deadline) != fmt.Sprintf("%+v", *want.Deadline) {
		t.Fatalf("deadline %+v, want %+v", got.Deadline, want.Deadline)
	}
	got.Deadline, want.Deadline = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read back\n%+v, want\n%+v", got, want)
	}
}

// A revision file cut at any byte, or with any byte changed, is as if it were not there.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first := add(t, s, Confirmed, "version: 1\n")
	second := add(t, s, Confirmed, "version: 1\nsystem:\n  hostname: r1\n")
	path := s.path(second.Number)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o640); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if r, ok := s.Confirmed(0); !ok || r.Number != first.Number {
			t.Fatalf("%s: newest confirmed is revision %d, want %d", what, r.Number, first.Number)
		}
		if !strings.Contains(log.String(), "damaged") {
			t.Fatalf("%s: the log says nothing: %q", what, log.String())
		}
	}
	for size := range whole {
		check(fmt.Sprintf("cut to %d of %d bytes", size, len(whole)), whole[:size])
	}
	for i := range whole {
		content := bytes.Clone(whole)
		content[i] ^= 1
		check(fmt.Sprintf("byte %d changed", i), content)
	}
	check("bytes added", append(bytes.Clone(whole), "system: {}\n"...))
	check("another revision's file", mustRead(t, s.path(first.Number)))

	// The damaged one's number is not given out again.
	if r := add(t, open(t, dir), Confirmed, "version: 1\n"); r.Number != second.Number+1 {
		t.Errorf("next number %d, want %d", r.Number, second.Number+1)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := open(t, dir)
	kept := add(t, s, Awaiting, strings.Repeat("# all is well\n", 300))
	before := mustRead(t, s.path(kept.Number))

	if _, err := s.Add(Revision{State: Confirmed, Config: strings.Repeat("x", 128<<10)}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("add on a full disk: %v, want ENOSPC", err)
	}
	filler := filepath.Join(dir, "filler")
	for size := 64 << 10; size > 0; size /= 2 { // until nothing is left
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write(make([]byte, size))
		f.Close()
	}
	changed := kept
	changed.State = Confirmed
	if err := s.Update(changed); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("update on a full disk: %v, want ENOSPC", err)
	}
	if r, _ := s.Get(kept.Number); r.State != Awaiting {
		t.Errorf("state in memory after a failed update: %s", r.State)
	}
	if !bytes.Equal(mustRead(t, s.path(kept.Number)), before) {
		t.Error("a failed update changed the file")
	}
	if leftovers, _ := filepath.Glob(filepath.Join(dir, ".*")); len(leftovers) > 0 {
		t.Errorf("leftovers: %v", leftovers)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(changed); err != nil {
		t.Errorf("update with space again: %v", err)
	}
	if next := add(t, s, Confirmed, "version: 1\n"); next.Number != kept.Number+1 {
		t.Errorf("next number %d, want %d", next.Number, kept.Number+1)
	}
}

// A write that stops at any point leaves the old or the new revision, whole.
func TestInterruptedWrite(t *testing.T) {
	for _, test := range []struct {
		point string
		want  State
	}{{"write", Awaiting}, {"temp", Awaiting}, {"renamed", Confirmed}} {
		t.Run(test.point, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			r := add(t, s, Awaiting, "version: 1\n")
			s.Fault = func(point string) error {
				if point == test.point {
					return unix.EIO
				}
				return nil
			}
			r.State = Confirmed
			if err := s.Update(r); !errors.Is(err, unix.EIO) {
				t.Fatalf("update: %v, want EIO", err)
			}
			if got, ok := open(t, dir).Get(r.Number); !ok || got.State != test.want {
				t.Errorf("after the interruption: %q, want %q", got.State, test.want)
			}
		})
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	r := add(t, open(t, dir), Confirmed, "version: 1\n")
	half := filepath.Join(dir, ".000002.rev-1.tmp")
	if err := os.WriteFile(half, []byte("minne-rev"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	if n, ok := s.Newest(); !ok || n.Number != r.Number {
		t.Errorf("newest is %d, want %d", n.Number, r.Number)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", half, err)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	add(t, s, Confirmed, "old")
	confirmed := add(t, s, Confirmed, "current")
	for range Keep + 20 {
		add(t, s, Reverted, "tried")
	}
	for _, s := range []*Store{s, open(t, dir)} {
		all := s.List()
		if len(all) != Keep {
			t.Fatalf("%d revisions, want %d", len(all), Keep)
		}
		if all[0].Number != confirmed.Number {
			t.Errorf("oldest is %d, want the confirmed %d", all[0].Number, confirmed.Number)
		}
		if newest := all[len(all)-1].Number; newest != Keep+22 {
			t.Errorf("newest is %d, want %d", newest, Keep+22)
		}
	}
}

// Read is for users without rights: it must not need any.
func TestReadChangesNothing(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir), Confirmed, "version: 1\n")
	half := filepath.Join(dir, ".000002.rev-1.tmp")
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(dir); err != nil || len(s.List()) != 1 {
		t.Fatalf("read: %v", err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read of an absent directory: %v", err)
	}
}
