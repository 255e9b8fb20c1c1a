// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/base/instance"
	"minne/internal/model/revisions"
)

func TestCorrected(t *testing.T) {
	built := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		now   time.Time
		wrong bool
	}{
		"flat battery":       {time.Unix(0, 0), true},
		"a day before":       {built.Add(-24 * time.Hour), true},
		"as it was built":    {built, false},
		"years later":        {built.AddDate(9, 0, 0), false},
		"far in the future":  {built.AddDate(60, 0, 0), true},
		"end of 32-bit time": {time.Unix(1<<32, 0), true},
	} {
		right, wrong := corrected(c.now, built)
		if wrong != c.wrong || wrong && !right.Equal(built) || !wrong && !right.Equal(c.now) {
			t.Errorf("%s: corrected(%s) = %s, %v", name, c.now, right, wrong)
		}
	}
}

func TestModaliases(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"pci0/0000:00:01.0/modalias":         "pci:v00008086d000010D3\n",
		"pci0/0000:00:02.0/modalias":         "pci:v00001AF4d00001041\n",
		"pci0/0000:00:02.0/virtio0/modalias": "virtio:d00000001v00001AF4\n",
		"pci0/0000:00:03.0/modalias":         "pci:v00001AF4d00001041\n",
		"system/empty/modalias":              "\n",
		"system/vendor":                      "0x1af4\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := modaliases(dir)
	want := []string{"pci:v00001AF4d00001041", "pci:v00008086d000010D3", "virtio:d00000001v00001AF4"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestText(t *testing.T) {
	r := Report{
		Slot: "b", Trial: true, Root: "memory", Initramfs: 3200 * time.Millisecond,
		Steps:      []Step{{Name: "clock", Began: 4 * time.Second, Took: time.Second / 10, Failed: "set the clock: no"}},
		Daemon:     6 * time.Second,
		Forwarding: 6500 * time.Millisecond,
		Warnings:   []string{"the clock said 1970"},
	}
	want := `slot b, to be tried, running from memory
    3.20 s  system found  
    4.00 s  clock            0.10 s  set the clock: no
    6.00 s  daemon        
    6.50 s  forwarding    
warning: the clock said 1970
`
	if got := r.Text(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := (Report{Slot: "a", Root: "medium"}).Text(); !strings.Contains(got, "not  forwarding") {
		t.Errorf("a router that does not forward:\n%s", got)
	}
}

func TestNotOnImage(t *testing.T) {
	if OnImage() {
		t.Fatal("this machine was booted from the image")
	}
	if err := Started(t.Context(), 0, nil); err != nil {
		t.Errorf("elsewhere than on the image: %v", err)
	}
	InPlace(3)
	if _, err := ReadReport(); err != ErrNotImage {
		t.Errorf("%v", err)
	}
}

// The password is that of the last confirmed revision; before the first one, of the file.
func TestStoredPassword(t *testing.T) {
	standard, err := instance.New(instance.Default)
	if err != nil {
		t.Fatal(err)
	}
	inst := standard.Under(t.TempDir())
	dir := filepath.Dir(inst.Config)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configuration := func(secret string) string {
		return "version: 1\nsystem: {admin: {password: " + secret + "}}\ninterfaces: {}\n"
	}
	has := func(what string, want bool) {
		t.Helper()
		if d, err := storedPassword(inst); want != (err == nil && !d.Empty()) {
			t.Errorf("%s: there is a password: %v, want %v (%v)", what, !want, want, err)
		}
	}
	has("nothing at all", false)
	write(inst.Config, configuration("mine"))
	has("no secrets", false)
	write(inst.Secrets, "mine: $6$salt$hash\n")
	has("the first file", true)
	write(inst.Config, "version: [")
	has("a file that is wrong", false)

	store, err := revisions.Open(inst.StateDir+"/revisions", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []revisions.Revision{
		{State: revisions.Confirmed, Source: inst.Config, Config: configuration("mine")},
		{State: revisions.Reverted, Source: inst.Config, Config: configuration("other")},
	} {
		if _, err := store.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	has("a confirmed revision, the file is wrong", true)
}
