// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const secretText = "S3cr3t-0f-the-t3st"

func writeSecrets(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadSecrets(t *testing.T) {
	s, err := LoadSecrets(writeSecrets(t, "isp-b: \"with # and: colon\"\nisp-a: "+secretText+"\nnumber: 010\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"isp-a": secretText, "isp-b": "with # and: colon", "number": "010"} {
		if got, ok := s.Get(name); !ok || got != want {
			t.Errorf("%s: wrong value (found: %t)", name, ok)
		}
	}
	if _, ok := s.Get("other"); ok {
		t.Error("found a secret that is not there")
	}
	if got := s.Names(); !slices.Equal(got, []string{"isp-a", "isp-b", "number"}) {
		t.Errorf("names: %v", got)
	}
}

func TestMissingSecretsFileIsEmpty(t *testing.T) {
	s, err := LoadSecrets(filepath.Join(t.TempDir(), "none.yaml"))
	if err != nil || len(s.Names()) != 0 {
		t.Errorf("got %v, %v", s.Names(), err)
	}
}

func TestSecretsFileForOthersIsRefused(t *testing.T) {
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o666, 0o601} {
		_, err := LoadSecrets(writeSecrets(t, "a: "+secretText, mode))
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 0600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if _, err := LoadSecrets(writeSecrets(t, "a: "+secretText, mode)); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestSecretsFileOfAnotherUserIsRefusedAsRoot(t *testing.T) {
	file := writeSecrets(t, "a: "+secretText, 0o600)
	if err := os.Chown(file, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadSecrets(file); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user 12345") {
		t.Errorf("got %v", err)
	}
}

func TestSecretsDirectoryIsRefused(t *testing.T) {
	if _, err := LoadSecrets(t.TempDir()); err == nil {
		t.Error("a directory is accepted")
	}
}

// No way of printing shows a value, also from inside another structure.
func TestSecretsAreNeverPrinted(t *testing.T) {
	s, err := ParseSecrets("secrets.yaml", []byte("a: "+secretText))
	if err != nil {
		t.Fatal(err)
	}
	var inside any = struct{ secrets Secrets }{s}
	texts := []string{s.String(), s.GoString(), fmt.Sprint(s), fmt.Sprint(inside), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s),
		fmt.Sprintf("%v %+v %#v %s", inside, inside, inside, inside), fmt.Sprintf("%v %+v %#v", &s, &s, &s), fmt.Sprintf("%+v", []Secrets{s})}
	for _, v := range []any{s, &s, inside, map[string]any{"x": s}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "s", s, "p", &s, "inside", inside)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "s", s, "p", &s, "inside", inside)
	for _, text := range append(texts, b.String()) {
		if strings.Contains(text, secretText) || strings.Contains(text, fmt.Sprintf("%x", secretText)) {
			t.Errorf("printed: %s", text)
		}
	}
}

// A message about the file tells places, never text.
func TestBadSecretsFilesKeepTheirText(t *testing.T) {
	for _, text := range []string{
		secretText,
		"- " + secretText,
		"a: [" + secretText + "]",
		"a: {b: " + secretText + "}",
		"a: \"" + secretText,
		"a: b: " + secretText,
		secretText + " x: y",
		"a: " + secretText + "\na: " + secretText,
		"a: &x " + secretText + "\nb: *x",
		"a: !" + secretText + " x",
		"a: |\n  " + secretText + "\n  two",
		"a: " + secretText + "\n---\nb: c",
		"a:\n\t" + secretText,
		"a: " + secretText + "\x00",
		"a: " + secretText + "\xff",
		"a: \"" + secretText + "\\n\"",
		"? " + secretText + "\n: x",
		secretText + "!: x",
		"a: ''",
		"a:",
		"a: @" + secretText,
		strings.Repeat(secretText, 100_000),
	} {
		_, err := ParseSecrets("secrets.yaml", []byte(text))
		if err == nil {
			t.Errorf("accepted: %.80q", text)
			continue
		}
		if m := err.Error(); strings.Contains(m, secretText) || !strings.HasPrefix(m, "secrets.yaml:") {
			t.Errorf("%.80q: %s", text, m)
		}
	}
}

func TestUnreadSecretsKnowEveryName(t *testing.T) {
	cfg, _, err := Load("../../../docs/examples/campus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(cfg, UnreadSecrets()); err != nil {
		t.Error(err)
	}
	if err := Check(cfg, Secrets{}); err == nil {
		t.Error("secrets that are not there are accepted")
	}
}
