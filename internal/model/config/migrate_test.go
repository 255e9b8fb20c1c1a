// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// There is no released version before 1. The tests make one up: version 0 called interfaces "ports", and wrote the
// small profile as "tiny".
var madeUp = []migration{{from: 0, changes: "ports are interfaces, tiny is small", edit: func(d *draft) error {
	return errors.Join(
		d.rename("ports", "interfaces"),
		d.replace("system.sysctl-profile", func(text string) string {
			if text == "tiny" {
				return "small"
			}
			return text
		}),
	)
}}}

func TestVersionIsTheSchemas(t *testing.T) {
	f, _ := fieldNamed(fieldsOf(reflect.TypeFor[Config]()), "version")
	if len(f.words) != 1 || f.words[0] != "1" || Version != 1 {
		t.Errorf("the schema knows version %v, Version is %d", f.words, Version)
	}
	for i, m := range migrations {
		if m.changes == "" || m.from >= Version || i > 0 && m.from != migrations[i-1].from+1 {
			t.Errorf("migration %d: %+v", i, m)
		}
	}
}

func TestMigrate(t *testing.T) {
	old, err := os.ReadFile("testdata/migrate/version-0.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/migrate/version-1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate("old.yaml", old, madeUp)
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Text) != string(want) || m.From != 0 || len(m.Changes) != 1 {
		t.Errorf("from %d, %q:\n%s\nexpected\n%s", m.From, m.Changes, m.Text, want)
	}
	// What was migrated in memory means the same as what was written down.
	inMemory, err := parse("old.yaml", old, madeUp)
	if err != nil {
		t.Fatal(err)
	}
	written, err := Parse("new.yaml", want)
	if err != nil {
		t.Fatal(err)
	}
	a, b := Marshal(inMemory), Marshal(written)
	if string(a) != string(b) {
		t.Errorf("in memory\n%s\nwritten\n%s", a, b)
	}
	// A second time there is nothing to do.
	if again, err := migrate("new.yaml", m.Text, madeUp); err != nil || string(again.Text) != string(want) || again.From != Version || again.Changes != nil {
		t.Errorf("again: %v, from %d, %q", err, again.From, again.Changes)
	}
}

// What is wrong in an old file is told with the line that it has in that file.
func TestMigratedLines(t *testing.T) {
	text := "version: 0\nports:\n  lan:\n    # low\n    mtu: 10\n"
	_, err := parse("old.yaml", []byte(text), madeUp)
	var wrong *Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Line != 5 || wrong.Problems[0].Path != "interfaces.lan.mtu" {
		t.Errorf("%v", err)
	}
}

func TestRename(t *testing.T) {
	for text, want := range map[string]string{
		"ports: {a: {mtu: 1500}}":                        "interfaces: {a: {mtu: 1500}}",
		"\"ports\":\n  a:\n    mtu: 1500 # why":          "interfaces:\n  a:\n    mtu: 1500 # why",
		"system: {sysctl-profile: \"tiny\"} # small box": "system: {sysctl-profile: small} # small box",
	} {
		r, ps := read("x", []byte("version: 0\n"+text+"\n"))
		if ps.err() != nil {
			t.Fatal(ps.err())
		}
		m := r.bring(madeUp, ps)
		if err := ps.err(); err != nil || string(m.Text) != "version: 1\n"+want+"\n" {
			t.Errorf("%v\n%s\nexpected\nversion: 1\n%s", err, m.Text, want)
		}
	}
}

// TestRenamedSection reads a section under the name that it had before, warns of it, and writes the new one.
func TestRenamedSection(t *testing.T) {
	const old = "version: 1\ninterfaces: {lo: {addresses: [192.0.2.1/32]}}\n# games\nmatch:\n  sets: {games: {patterns: [/^x/]}}\n"
	cfg, err := Parse("x.yaml", []byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Labels == nil || len(cfg.Labels.Sets) != 1 {
		t.Errorf("read as %+v", cfg.Labels)
	}
	odd := Warnings(cfg)
	if len(odd) != 1 || odd[0].Line != 4 || odd[0].Message != "match is the old name of the section labels" {
		t.Errorf("warnings %+v", odd)
	}
	m, err := Migrate("x.yaml", []byte(old))
	if err != nil || string(m.Text) != strings.Replace(old, "match:", "labels:", 1) || len(m.Changes) != 1 {
		t.Errorf("%v, %q:\n%s", err, m.Changes, m.Text)
	}
	if again, err := Migrate("x.yaml", m.Text); err != nil || again.Changes != nil {
		t.Errorf("%v, %q", err, again.Changes)
	}
	if _, err := Parse("x.yaml", []byte(old+"labels: {sets: {games: {patterns: [/^x/]}}}\n")); err == nil || !strings.Contains(err.Error(), "has both match and labels") {
		t.Errorf("both names: %v", err)
	}
}

func TestRefusedVersions(t *testing.T) {
	for text, want := range map[string]string{
		"version: 2\nsystem: {}\n":                             "version 2 of the format is newer than this program, which knows up to 1",
		"version: 99\nnonsense: [\n":                           "a bracket that is never closed",
		"version: -1\n":                                        "version",
		"version: \"0\"\n":                                     "text in quotes",
		"system: {}\n":                                         "lacks version",
		"version: 0\nports: {}\ninterfaces: {}\n":              "line 2 has both ports and interfaces",
		"version: 0\nsystem: {sysctl-profile: [tiny]}\n":       "is a list, not a single value",
		"version: 0\nsystem:\n  sysctl-profile: |\n    tiny\n": "text of several lines",
	} {
		_, err := parse("x.yaml", []byte(text), madeUp)
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
		if _, err := migrate("x.yaml", []byte(text), madeUp); err == nil {
			t.Errorf("%q was migrated", text)
		}
	}
	// Without a migration from it, an older version is as unknown as any other.
	if _, err := Parse("x.yaml", []byte("version: 0\n")); err == nil || !strings.Contains(err.Error(), "version can't be \"0\"") {
		t.Errorf("%v", err)
	}
}
