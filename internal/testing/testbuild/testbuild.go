// SPDX-License-Identifier: Apache-2.0

// Package testbuild compiles the minne command for tests that run it as a user does.
package testbuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Minne compiles the command into a directory, static as it is released, and returns its path.
func Minne(t testing.TB, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "minne")
	build := exec.Command("go", "build", "-o", binary, "minne/cmd/minne")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build minne: %v\n%s", err, out)
	}
	return binary
}
