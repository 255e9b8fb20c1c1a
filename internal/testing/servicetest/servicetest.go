// SPDX-License-Identifier: Apache-2.0

// Package servicetest helps the tests of the services: one router whose services
// vary, and golden files of what is rendered for it.
package servicetest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// Key is a public key that may log in.
const Key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop"

const router = `version: 1
system: {hostname: attic, admin: {ssh-keys: ["` + Key + `"]}}
interfaces:
  wan: {dhcp: on, zone: wan}
  lan: {addresses: [192.0.2.1/24, "2001:db8::1/64"], zone: lan}
  guests: {addresses: [198.51.100.1/24, "2001:db8:1::1/64", "fe80::1/64"], zone: guests}
`

// Config is a router with a WAN by DHCP, a LAN and a network for guests, and what more is said.
func Config(t *testing.T, more string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(router+more))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Golden compares all that a program shall run with to a file in testdata.
func Golden(t *testing.T, name string, d program.Desired) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n$ %s\n", d.Object, strings.Join(d.Facts, "\n  "), strings.Join(d.Argv, " "))
	for _, file := range slices.Sorted(maps.Keys(d.Files)) {
		fmt.Fprintf(&b, "--- %s ---\n%s", file, d.Files[file])
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != b.String() {
		t.Errorf("%v; after a look, write it with -update\n%s", err, config.Diff(want, []byte(b.String()), path, "made"))
	}
}
