// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testSecrets are the secrets that the files in testdata name.
func testSecrets(t *testing.T) Secrets {
	t.Helper()
	s, err := ParseSecrets("secrets.yaml", []byte("isp-a: Tr0ub4dor\ntoo-long: "+strings.Repeat("x", 81)+"\nwith-blank: two words\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every file in testdata/bad is refused with the message beside it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("files: %d %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := Parse(filepath.Base(file), data)
			if err == nil {
				err = Check(cfg, testSecrets(t))
			} else if cfg != nil {
				t.Error("a refused file gave a configuration")
			}
			if err == nil {
				t.Fatal("the file is accepted")
			}
			text := err.Error() + "\n"
			for _, secret := range []string{"Hunter2", "Tr0ub4dor", "two words"} {
				if strings.Contains(text, secret) {
					t.Errorf("the message tells a secret:\n%s", text)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", []byte(text))
		})
	}
}

// Every file in testdata/odd is accepted with the warnings beside it.
func TestOddFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/odd/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("files: %d %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := Parse(filepath.Base(file), data)
			if err == nil {
				err = Check(cfg, testSecrets(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, p := range Warnings(cfg) {
				b.WriteString(p.String() + "\n")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", []byte(b.String()))
		})
	}
}

// The examples of the documentation are accepted without a warning.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("files: %d %v", len(files), err)
	}
	for _, file := range files {
		cfg, text, err := Load(file)
		if err == nil {
			err = Check(cfg, UnreadSecrets())
		}
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range Warnings(cfg) {
			t.Errorf("warning: %s", p)
		}
		made := Marshal(cfg)
		again, err := Parse("marshalled", made)
		if err != nil || !Equal(cfg, again) {
			t.Errorf("%s does not survive marshalling: %v\n%s", file, err, made)
		}
		if n := strings.Count(string(text), "\n"); strings.HasSuffix(file, "small.yaml") && n > 20 {
			t.Errorf("%s has %d lines; the README promises 20", file, n)
		}
	}
}
