// SPDX-License-Identifier: Apache-2.0

package resolv

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"minne/internal/subsystem/services/service"
	"minne/internal/testing/servicetest"
)

func TestResolv(t *testing.T) {
	dir := t.TempDir()
	r := New(dir)
	read := func() string {
		b, _ := os.ReadFile(filepath.Join(dir, "resolv.conf"))
		return string(b)
	}
	if err := r.SetServers([]service.Server{{Interface: "wan", Address: netip.MustParseAddr("192.0.2.53")}, {Interface: "wan", Address: netip.MustParseAddr("192.0.2.54")}}); err != nil || read() != "" {
		t.Errorf("before a configuration: %v, %q", err, read())
	}
	for _, step := range []struct{ services, want string }{
		{"", "# Made by minne.\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n"},
		{"services: {dns: {interfaces: [lan], domain: home.arpa}}", "# Made by minne.\nsearch home.arpa\nnameserver 127.0.0.1\n"},
	} {
		d, err := Render(servicetest.Config(t, step.services))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Apply(t.Context(), d); err != nil || read() != step.want {
			t.Errorf("%q: %v, %q", step.services, err, read())
		}
	}
	if err := r.Apply(t.Context(), Desired{}); err != nil || read() != "" {
		t.Errorf("without: %v, %q", err, read())
	}
}
