// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLabReportCommands: a shared report is shown, signed and verified, and a change is found.
func TestLabReportCommands(t *testing.T) {
	dir := t.TempDir()
	source, err := os.ReadFile("../../internal/lab/report/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	resultFile, key := filepath.Join(dir, "result.json"), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(resultFile, source, 0o644); err != nil {
		t.Fatal(err)
	}
	try := func(code int, want string, args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(context.Background(), append([]string{"lab"}, args...), &out, &errOut); got != code {
			t.Fatalf("lab %q: exit code %d, want %d: %s", args, got, code, errOut.String())
		}
		if text := out.String() + errOut.String(); !strings.Contains(text, want) {
			t.Fatalf("lab %q says\n%s\nwant %q", args, text, want)
		}
		return out.String()
	}
	try(exitOK, "THROUGHPUT", "show", dir)
	var shown struct{ Schema string }
	if err := json.Unmarshal([]byte(try(exitOK, "", "show", resultFile, "--json")), &shown); err != nil || shown.Schema != "minne-lab-result/1" {
		t.Errorf("--json: %v, %v", shown, err)
	}
	try(exitOK, "key SHA256:", "keygen", key)
	try(exitFailed, "never overwritten", "keygen", key)
	try(exitUsage, "--key is missing", "sign", dir)
	try(exitFailed, "is not signed", "verify", dir)
	try(exitOK, "report.html", "sign", dir, "--key", key)
	try(exitOK, "compare that fingerprint", "verify", dir)
	try(exitOK, "the key in "+key+".pub", "verify", dir, "--key", key+".pub")
	if err := os.WriteFile(resultFile, bytes.Replace(source, []byte("kernel"), []byte("kettle"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	try(exitFailed, "was changed after it was signed", "verify", dir, "--key", key+".pub")
	try(exitFailed, "no such file", "show", filepath.Join(dir, "missing"))
}
