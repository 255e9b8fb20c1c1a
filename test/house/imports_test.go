// SPDX-License-Identifier: Apache-2.0

// Package house checks the shape of the source tree.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors says what each directory below internal/ may import of the others beside itself. Whatever stands in no list is
// refused, so a new floor has to be declared here. Programs (cmd) may import all but testing.
var floors = map[string][]string{
	"base":      {},
	"model":     {"base"},
	"subsystem": {"base", "model"},
	"appliance": {"base", "model", "subsystem"},
	"daemon":    {"base", "model", "subsystem", "appliance"},
	"lab":       {"base", "model", "subsystem"},
	"testing":   {"base", "model", "subsystem", "appliance", "daemon", "lab"}, // imported by tests only
	"cmd":       {"base", "model", "subsystem", "appliance", "daemon", "lab"},
}

// neighbours are the rooms of one floor that may know each other, and why. The lab's and the tests' rooms are free.
var neighbours = map[[2]string]string{
	{"appliance/boot", "appliance/diskid"}:      "gives a copy its own identifiers",
	{"appliance/boot", "appliance/slot"}:        "starts from a slot",
	{"appliance/remotehands", "appliance/slot"}: "reads which slot is used",
	{"appliance/upgrade", "appliance/slot"}:     "writes a slot",
	{"base/nl80211", "base/nlmsg"}:              "speaks by its messages",
	{"base/tc", "base/nlmsg"}:                   "speaks by its messages",
	{"base/tc", "base/dump"}:                    "lists filters whole",
	{"base/reach", "base/sendip"}:               "its sum of IP headers",
	{"daemon/page", "daemon/router"}:            "asks the daemon what the commands ask",
	{"daemon/page", "daemon/show"}:              "has its answers as tables",
	{"daemon/router", "daemon/show"}:            "a view names the function that prints its answer",
	{"model/api", "model/revisions"}:            "its answers hold revisions",
	{"model/policy", "model/config"}:            "it compiles the configuration",
	{"subsystem/bypass", "subsystem/nft"}:       "reads the rules of other tables",
	{"subsystem/fastpath", "subsystem/bypass"}:  "asks what others drop or translate",
	{"subsystem/firewall", "subsystem/nft"}:     "writes its table",
	{"subsystem/flows", "subsystem/fastpath"}:   "reads the flow table",
	{"subsystem/offload", "subsystem/fastpath"}: "fills the table of verdicts",
	{"subsystem/kernel", "subsystem/nft"}:       "writes the table of repairs",
}

// place is the floor of a path below the repository, such as internal/base/tick, and its room, base/tick.
func place(path string) (floor, room string) {
	parts := strings.Split(path, "/")
	if parts[0] == "internal" {
		parts = parts[1:]
	}
	return parts[0], strings.Join(parts[:min(2, len(parts))], "/")
}

// breach says what is wrong with an import of one package by another, both below the repository.
func breach(from, to string) string {
	fromFloor, fromRoom := place(from)
	toFloor, toRoom := place(to)
	if fromFloor != toFloor {
		allowed, declared := floors[fromFloor]
		switch {
		case !declared:
			return "its floor is not declared in test/house"
		case !slices.Contains(allowed, toFloor):
			return "floor " + fromFloor + " may import of the others: " + strings.Join(allowed, ", ")
		}
		return ""
	}
	if fromRoom == toRoom || fromFloor == "lab" || fromFloor == "testing" || neighbours[[2]string{fromRoom, toRoom}] != "" {
		return ""
	}
	return "rooms of one floor don't know each other: move what both need one floor down, or declare it in test/house"
}

// TestImports holds the order of the floors, in every file that is not a test, whatever its build tags.
func TestImports(t *testing.T) {
	const root, module = "../..", "minne/"
	files := 0
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && e.Name() == "testdata" {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			files++
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, i := range file.Imports {
				imported, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				to, ours := strings.CutPrefix(imported, module)
				if !ours {
					continue
				}
				if wrong := breach(filepath.ToSlash(filepath.Dir(name)), to); wrong != "" {
					t.Errorf("%s imports %s: %s", name, to, wrong)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Fatalf("looked at %d files: expected the whole tree", files)
	}
}

// TestBreach looks at one import of each kind.
func TestBreach(t *testing.T) {
	for _, c := range []struct {
		from, to string
		fine     bool
	}{
		{"internal/model/config", "internal/base/tick", true},
		{"internal/base/tick", "internal/model/config", false},
		{"internal/subsystem/fastpath/label", "internal/lab/fulltable", false},
		{"internal/lab/fulltable", "internal/subsystem/fastpath", true},
		{"internal/lab/fulltable", "internal/daemon/router", false},
		{"internal/appliance/setup", "internal/daemon/router", false},
		{"internal/daemon/router", "internal/testing/testns", false},
		{"cmd/minne", "internal/testing/testns", false},
		{"cmd/minne", "internal/lab/report", true},
		{"cmd/minne", "internal/lab", true},
		{"internal/lab", "internal/lab/remote", true},
		{"internal/lab/remote", "internal/lab", true},
		{"internal/subsystem/fastpath/flow", "internal/subsystem/fastpath/mapped", true},
		{"internal/base/tick", "internal/base/task", false},
		{"internal/attic/trunk", "internal/base/tick", false},
	} {
		if wrong := breach(c.from, c.to); (wrong == "") != c.fine {
			t.Errorf("%s imports %s: %q, expected that it is fine: %v", c.from, c.to, wrong, c.fine)
		}
	}
}
