// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/appliance/slot"
	"minne/internal/model/config"
)

// Who goes to a system with an older format of the configuration is told what becomes of it.
func TestWarnOfSchema(t *testing.T) {
	for schema, warned := range map[int]bool{config.Version - 1: true, config.Version: false, config.Version + 1: false} {
		var says strings.Builder
		(&app{err: &says}).warnOfSchema(slot.System{Version: "7", Schema: schema})
		if got := strings.Contains(says.String(), "version 7 reads configurations up to format"); got != warned {
			t.Errorf("format %d: %q", schema, says.String())
		}
	}
}

// A path and a URL are taken as they are; a bare name that is not here is looked for on
// the medium, which this machine does not have.
func TestFound(t *testing.T) {
	here := filepath.Join(t.TempDir(), "x.upgrade")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{here, "/nowhere/x.upgrade", "http://192.0.2.1/x.upgrade"} {
		if err := found(name, func(path string) error {
			if path != name {
				t.Errorf("%s became %s", name, path)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := found("x.upgrade", func(string) error { return nil }); !errors.Is(err, slot.ErrNoMedium) {
		t.Errorf("a bare name: %v", err)
	}
}
