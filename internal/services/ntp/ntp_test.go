// SPDX-License-Identifier: Apache-2.0

package ntp

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"minne/internal/services/servicetest"
)

// chronyd's configuration stays what it is, and chronyd takes it. Who does not own the host's clock
// leaves it alone.
func TestRender(t *testing.T) {
	for name, of := range map[string]struct {
		text string
		own  bool
	}{
		"client": {"services: {ntp: {servers: [2.debian.pool.ntp.org, 192.0.2.123]}}", true},
		"lan":    {"services: {ntp: {servers: [192.0.2.123], interfaces: [lan]}}", true},
		"beside": {"services: {ntp: {servers: [\"2001:db8::123\"], interfaces: [lan, guests]}}", false},
	} {
		d, err := Render(servicetest.Config(t, of.text), "/run/minne", of.own)
		if err != nil {
			t.Fatal(err)
		}
		servicetest.Golden(t, name+".conf", d)
		file := filepath.Join(t.TempDir(), "conf")
		if err := os.WriteFile(file, []byte(d.Files["chrony.conf"]), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(binary, "-p", "-f", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if d, err := Render(servicetest.Config(t, ""), "/run/minne", true); err != nil || !d.Empty() {
		t.Errorf("without NTP: %+v, %v", d, err)
	}
}
