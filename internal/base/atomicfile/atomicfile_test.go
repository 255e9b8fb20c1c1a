// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func entries(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestWriteAsRoot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		mode       fs.FileMode
		durability Durability
	}{{0o666, Durable}, {0o600, Fleeting}, {0o640, Fleeting}} {
		former, _ := os.Open(path)
		if err := Write(path, []byte(c.mode.String()), c.mode, c.durability, Owner(7, 8)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || string(text) != c.mode.String() {
			t.Errorf("wrote %q, %v, want %q", text, err, c.mode)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if sys := info.Sys().(*syscall.Stat_t); info.Mode() != c.mode || sys.Uid != 7 || sys.Gid != 8 {
			t.Errorf("mode %v of %d:%d, want %v of 7:8", info.Mode(), sys.Uid, sys.Gid, c.mode)
		}
		if former != nil { // who has it open reads on in the file that was
			now, err := former.Stat()
			if err != nil || os.SameFile(now, info) {
				t.Errorf("the file was written over, %v", err)
			}
			former.Close()
		}
	}
	if got := entries(t, dir); got != "file" {
		t.Errorf("in the directory: %s", got)
	}
}

// Whatever fails, the file is as it was and nothing is beside it.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.Mkdir(path, 0o755); err != nil { // no file takes the name of a directory
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o644, Durable); err == nil {
		t.Error("a file took the place of a directory")
	}
	want := errors.New("no")
	if err := Write(filepath.Join(dir, "other"), nil, 0o644, Durable, func(*os.File) error { return want }); !errors.Is(err, want) {
		t.Errorf("write: %v, want %v", err, want)
	}
	first, err := Prepare(path, nil, 0o644, Durable)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Prepare(filepath.Join(dir, "other"), nil, 0o644, Durable)
	if err != nil {
		t.Fatal(err)
	}
	if err := Place(first, second); err == nil {
		t.Error("a file took the place of a directory")
	}
	if got := entries(t, dir); got != "file" {
		t.Errorf("in the directory: %s", got)
	}
	if err := Write(filepath.Join(dir, "absent", "file"), nil, 0o644, Durable); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write in an absent directory: %v", err)
	}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	p, err := Prepare(filepath.Join(dir, "000001.rev"), []byte("half"), 0o640, Durable)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"*.rev": 1, "000001.rev": 1, "*.yaml": 0} {
		if got, err := Leftovers(dir, pattern); err != nil || len(got) != want {
			t.Errorf("leftovers of %s: %v, %v, want %d", pattern, got, err, want)
		}
	}
	p.Drop()
	if got := entries(t, dir); got != "" {
		t.Errorf("after Drop: %s", got)
	}
}
