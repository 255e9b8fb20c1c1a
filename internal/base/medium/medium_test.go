// SPDX-License-Identifier: Apache-2.0

package medium

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What happens on the medium itself is tested on the image, in test/image.

func TestElsewhere(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "not/there/yet"), "/nowhere", "relative"} {
		if On(path) {
			t.Errorf("%s is said to be on the image's medium", path)
		}
		done, err := Writable(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := done(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(lockFile); err == nil {
		t.Error("a lock was made on a machine that has no such medium")
	}
}

// The mark tells media apart that differ in anything that a write leaves behind.
func TestMark(t *testing.T) {
	one, other := t.TempDir(), t.TempDir()
	at := time.Unix(1700000000, 12345)
	for _, dir := range []string{one, other} {
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := func(what string, want bool) {
		t.Helper()
		for _, dir := range []string{one, other} { // what it is not about
			if err := os.Chtimes(dir, at, at); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(filepath.Join(dir, "b"), at, at); err != nil {
				t.Fatal(err)
			}
		}
		a, err := markOf(one)
		b, err2 := markOf(other)
		if err != nil || err2 != nil || (a == b) != want {
			t.Errorf("%s: the marks are the same: %v, want %v (%v, %v)", what, a == b, want, err, err2)
		}
	}
	set := func(dir string, at time.Time) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, "a"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	set(one, at)
	set(other, at)
	same("equal files", true)
	set(other, at.Add(time.Nanosecond))
	same("another time", false)
	set(other, at)
	if err := os.Chmod(filepath.Join(other, "a"), 0o644); err != nil {
		t.Fatal(err)
	}
	same("other rights", false)
	if err := os.Chmod(filepath.Join(other, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	same("equal again", true)
	if err := os.Rename(filepath.Join(other, "b"), filepath.Join(other, "c")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	same("another name", false)
	if _, err := markOf(filepath.Join(one, "none")); err == nil {
		t.Error("a directory that is not there has a mark")
	}
}
