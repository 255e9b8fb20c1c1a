// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/lab/platform"
)

// TestBenchPlatform measures a table of a few routes, writes the page, and merges the result with itself.
func TestBenchPlatform(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	try := func(code int, want string, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(context.Background(), append([]string{"bench"}, args...), &out, &errOut); got != code {
			t.Fatalf("bench %q: exit code %d, want %d: %s", args, got, code, errOut.String())
		}
		if text := out.String() + errOut.String(); !strings.Contains(text, want) {
			t.Fatalf("bench %q says\n%s\nwant %q", args, text, want)
		}
		return out.String()
	}
	table := file("table", "0.0.0.0/0 a\n192.0.2.0/24 b\n")
	page := filepath.Join(dir, "page.html")
	measured := file("result.json", try(exitOK, `"minne-platform/1"`, "platform", "--quick", "--seconds", "0.01", "--algorithms", "range,tree-bitmap", "--table", table, "--name", "Box", "--json", "--html", page))
	r, err := platform.Read(measured)
	if err != nil || r.Name != "Box" || len(r.Rows) == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<svg")) {
		t.Errorf("the page has no plots: %v", err)
	}
	try(exitOK, "Box (2)", "merge", measured, measured)

	try(exitUsage, `no algorithm "dfa": there are tree-bitmap`, "platform", "--algorithms", "dfa")
	try(exitUsage, "--seconds 0", "platform", "--seconds", "0")
	try(exitUsage, "expected minne bench merge FILE…", "merge")
	try(exitFailed, "table:2: \"192.0.2.0/240\" is not a prefix", "platform", "--algorithms", "range", "--table", file("table", "10.0.0.0/8\n192.0.2.0/240\n"))
	try(exitFailed, "expected what minne bench platform --json printed", "merge", table)
}
