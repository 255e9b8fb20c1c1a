// SPDX-License-Identifier: Apache-2.0

package medium

import (
	"os"
	"path/filepath"
	"testing"
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
