// SPDX-License-Identifier: Apache-2.0

package ntp

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/testing/servicetest"
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
		d := Render(servicetest.Config(t, of.text), "/run/minne", of.own)[""]
		servicetest.Golden(t, name+".conf", d)
		file := filepath.Join(t.TempDir(), "conf")
		if err := os.WriteFile(file, []byte(d.Files["chrony.conf"]), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(binary, "-p", "-f", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if d := Render(servicetest.Config(t, ""), "/run/minne", true); len(d) != 0 {
		t.Errorf("without NTP: %+v", d)
	}
}

// In VRFs, the chronyd that asks also serves one place, and each other place has one of its own inside of the VRF.
func TestRenderInVRFs(t *testing.T) {
	const more = `
  red: {vrf: {table: 100, interfaces: [rlan, rout]}}
  blue: {vrf: {table: 101, interfaces: [blan]}}
  rlan: {addresses: [10.0.0.1/24]}
  rout: {addresses: [10.0.1.1/24]}
  blan: {addresses: [10.0.0.1/24]}
services: {ntp: {servers: [10.0.1.9], vrf: red, interfaces: `
	for name, of := range map[string]struct {
		interfaces string
		runs       []string
	}{
		"vrf-main": {"[blan, lan, rlan]", []string{"", "blue", "red"}},
		"vrf-own":  {"[blan, rlan, rout]", []string{"", "blue"}},
		"vrf-none": {"[]", []string{""}},
		"vrf-one":  {"[blan]", []string{""}},
	} {
		d := Render(servicetest.Config(t, more+of.interfaces+"}}\n"), "/run/minne", true)
		if runs := slices.Sorted(maps.Keys(d)); !slices.Equal(runs, of.runs) {
			t.Errorf("%s: %q run, expected %q", name, runs, of.runs)
		}
		for vrf, p := range d {
			servicetest.Golden(t, name+key(vrf)+".conf", p)
			if p.VRF != vrf {
				t.Errorf("%s: that of %q is in VRF %q", name, vrf, p.VRF)
			}
		}
	}
}

// Reports of chronyc, one with a server and one without.
func TestUnsynchronised(t *testing.T) {
	for report, wrong := range map[string]bool{
		"C0000235,192.0.2.123,3,1795373940.1,0.000001,-0.000002,0.00001,-1.2,0.01,0.2,0.03,0.001,64.2,Normal\n": false,
		"00000000,,0,0.000000000,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n":                        true,
		"": true,
	} {
		if got := unsynchronised(report); (got != "") != wrong {
			t.Errorf("%q: %q", report, got)
		}
	}
}

// A chronyd that nobody has told the time says so.
func TestTroubleOfChronydAsRoot(t *testing.T) {
	dir, err := os.MkdirTemp("", "minne-ntp-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.Background()), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	d := Render(servicetest.Config(t, "services: {ntp: {servers: [192.0.2.123]}}"), dir, false)
	if err := s.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := s.Trouble(t.Context()); got != "" {
		t.Errorf("just started: %q", got)
	}
	got := s.ask(t.Context())
	for end := time.Now().Add(time.Minute); strings.Contains(got, "does not answer") && time.Now().Before(end); got = s.ask(t.Context()) {
		time.Sleep(20 * time.Millisecond) // its pid file is there a moment before its socket
	}
	if !strings.Contains(got, "no time server has answered") {
		t.Errorf("no server answers: %q", got)
	}
}
