// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/testing/servicetest"
)

// sshd's configuration stays what it is, and sshd takes it.
func TestRender(t *testing.T) {
	dir := t.TempDir()
	if err := EnsureHostKey(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(separation, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"key":      "services: {ssh: {interfaces: [lan]}}",
		"password": "services: {ssh: {interfaces: [lan, guests], passwords: on, port: 2222}}",
	} {
		d, err := Render(servicetest.Config(t, text), "/run/minne", "/etc/minne/minne.yaml")
		if err != nil {
			t.Fatal(err)
		}
		servicetest.Golden(t, name+".conf", d)
		file := filepath.Join(dir, "conf")
		conf := strings.ReplaceAll(d.Files["sshd_config"], KeyDir("/etc/minne/minne.yaml"), dir)
		if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(binary, "-t", "-f", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if d, err := Render(servicetest.Config(t, ""), "/run/minne", "/etc/minne/minne.yaml"); err != nil || !d.Empty() {
		t.Errorf("without SSH: %+v, %v", d, err)
	}
}

// In a VRF, sshd listens in that VRF. Whether it takes the line can be asked only where there is one: test/uml does.
func TestRenderInVRF(t *testing.T) {
	cfg := servicetest.Config(t, "services: {ssh: {interfaces: [lan, guests]}}")
	cfg.Interfaces["mgmt"] = &config.Interface{VRF: &config.VRF{Table: 100, Interfaces: []string{"guests"}}}
	d, err := Render(cfg, "/run/minne", "/etc/minne/minne.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, domain := range map[string]string{"lan": "", "guests": " rdomain mgmt"} {
		for _, a := range cfg.Interfaces[name].Addresses {
			if line := "ListenAddress " + a.Addr().String() + domain + "\n"; !strings.Contains(d.Files["sshd_config"], line) && !a.Addr().IsLinkLocalUnicast() {
				t.Errorf("no %q in:\n%s", line, d.Files["sshd_config"])
			}
		}
	}
}

// A host key is made once, for root alone, and leaves nothing beside it.
func TestHostKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ssh")
	var keys [2]string
	for i := range keys {
		if err := EnsureHostKey(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, HostKey))
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = string(b)
	}
	if keys[0] != keys[1] {
		t.Error("the key was made anew")
	}
	st, err := os.Stat(filepath.Join(dir, HostKey))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if print := Fingerprint(t.Context(), dir); !regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`).MatchString(print) {
		t.Errorf("fingerprint %q", print)
	}
}
