// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// renames are the files that may rename, and what they rename.
var renames = map[string]string{
	"internal/base/atomicfile/atomicfile.go":    "every file that is replaced as a whole",
	"internal/base/store/store.go":              "a file that is damaged, out of the way",
	"internal/daemon/router/companion_files.go": "a directory",
	"internal/daemon/router/lock.go":            "a file that it holds a lock on",
	"internal/subsystem/services/ssh/ssh.go":    "what ssh-keygen made",
}

// TestRenames keeps a second way of replacing files out.
func TestRenames(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "grep", "--untracked", "-l", `os\.Rename(`, "--", "*.go", ":!*_test.go").CombinedOutput()
	if err != nil {
		t.Fatalf("git grep: %v: %s", err, bytes.TrimSpace(out))
	}
	found := strings.Fields(string(out))
	for _, file := range found {
		if renames[file] == "" {
			t.Errorf("%s: expected no os.Rename; replace a file with atomicfile.Write, or declare here what is renamed", file)
		}
	}
	for file := range renames {
		if !slices.Contains(found, file) {
			t.Errorf("%s renames nothing: remove it from this list", file)
		}
	}
}
