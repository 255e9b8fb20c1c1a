// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// There is no released version before today's: the command is given one that is made up.
func madeUp(_ string, data []byte) (config.Migrated, error) {
	return config.Migrated{Text: bytes.ReplaceAll(data, []byte("version: 0"), []byte("version: 1")), From: 0, Changes: []string{"nothing but the version"}}, nil
}

func migrated(t *testing.T, migrate migrateText, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := newConfigMigrateCommand(&app{out: &out, err: &out}, migrate)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.Execute()
	return out.String(), err
}

func TestConfigMigrate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "minne.yaml")
	const old, today = "version: 0 # of the format\n", "version: 1 # of the format\n"
	if err := os.WriteFile(file, []byte(old), 0o640); err != nil {
		t.Fatal(err)
	}
	holds := func(path, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; expected %q", path, got, err, want)
		}
	}

	out, err := migrated(t, madeUp, file)
	if err != nil || out != today {
		t.Errorf("%q, %v", out, err)
	}
	holds(file, old)

	out, err = migrated(t, madeUp, file, "--write")
	if err != nil || !strings.Contains(out, "from version 0 to 1") || !strings.Contains(out, "nothing but the version") {
		t.Errorf("%q, %v", out, err)
	}
	holds(file, today)
	holds(file+".version-0", old)
	if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", s.Mode(), err)
	}

	// The kept file is never written over.
	if _, err = migrated(t, madeUp, file, "--write"); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("%v", err)
	}
	holds(file+".version-0", old)
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 2 {
		t.Errorf("files %v, %v", entries, err)
	}

	out, err = migrated(t, config.Migrate, file, "--write")
	if err != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("%q, %v", out, err)
	}
	if err := os.WriteFile(file, []byte("version: 2\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err = migrated(t, config.Migrate, file); err == nil || exitCode(err) != exitInvalid || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("%v", err)
	}
}
