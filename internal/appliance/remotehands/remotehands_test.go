// SPDX-License-Identifier: Apache-2.0

package remotehands

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/testing/testns"
)

// The tests mount small file systems.
func TestMain(m *testing.M) { testns.Main(m) }

func TestRow(t *testing.T) {
	for _, test := range []struct {
		what string
		keys string        // '.' is a pause of one step
		step time.Duration // between keys
		held bool
	}{
		{"held on a keyboard", "t........." + strings.Repeat("t", 60), 33 * time.Millisecond, true},
		{"held on a terminal in upper case", strings.Repeat("T", 30), 100 * time.Millisecond, true},
		{"touched", "ttt", 100 * time.Millisecond, false},
		{"a word", strings.Repeat("techtttt ", 20), 50 * time.Millisecond, false},
		{"pressed again and again, slowly", strings.Repeat("t...", 20), 400 * time.Millisecond, false},
		{"another key", strings.Repeat("x", 60), 50 * time.Millisecond, false},
		{"a burst of noise", strings.Repeat("t", 200), time.Microsecond, false},
		{"two keys far apart in time", "t.........t", 250 * time.Millisecond, false},
	} {
		var r row
		now := time.Unix(0, 0)
		for _, key := range []byte(test.keys) {
			if now = now.Add(test.step); key != '.' {
				r.press(key, now)
			}
		}
		if r.held != test.held {
			t.Errorf("%s: held is %v", test.what, r.held)
		}
	}
}

// pty returns both ends of a pseudo terminal: the person's, and the path of the router's.
func pty(t *testing.T) (person *os.File, path string) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	var n int
	err = control(person, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// A terminal that nobody has open forgets its settings.
	path = fmt.Sprintf("/dev/pts/%d", n)
	kept, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	return person, path
}

func settings(t *testing.T, path string) unix.Termios {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// hold presses the key until told to stop.
func hold(person *os.File, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
			_, _ = person.Write([]byte{Key})
		}
	}
}

func TestWatch(t *testing.T) {
	person, path := pty(t)
	other, otherPath := pty(t)
	before := settings(t, path)
	w := Watch(path, "/dev/no-such-terminal", otherPath)
	if now := settings(t, path); now.Lflag&unix.ECHO != 0 {
		t.Error("the console echoes the key")
	}
	stop := make(chan struct{})
	go hold(person, stop)
	// A key that is down when the watch ends is waited for, however long that takes here.
	for w.consoles[0].begunNow() == false {
		time.Sleep(10 * time.Millisecond)
	}
	held := w.Held()
	close(stop)
	if !held {
		t.Error("a held key was not seen")
	}
	if now := settings(t, path); now != before {
		t.Errorf("the console has other settings than before: %+v, %+v", now, before)
	}
	said := make([]byte, 4096)
	n, _ := person.Read(said)
	if text := string(said[:n]); !strings.Contains(text, "hold t to write") || strings.Contains(text, "tttt") {
		t.Errorf("the console shows %q", text)
	}
	other.Close()
}

func (c *console) begunNow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.row.count > 0
}

func TestWatchNothing(t *testing.T) {
	person, path := pty(t)
	w := Watch(path)
	if _, err := person.Write([]byte("root\n")); err != nil {
		t.Fatal(err)
	}
	if w.Held() {
		t.Error("held without a key")
	}
	if Watch("/dev/no-such-terminal").Held() {
		t.Error("held without a console")
	}
}

func TestLabelled(t *testing.T) {
	for _, test := range []struct {
		bits, size string
		label      string
		want       bool
	}{
		{"12", "1024", "MINNE", true}, {"16", "16384", "MINNE", true}, {"32", "40960", "MINNE", true},
		{"32", "40960", "MINNE2", false}, {"16", "16384", "BACKUP", false},
	} {
		image := filepath.Join(t.TempDir(), "image")
		out, err := exec.Command("/usr/sbin/mkfs.vfat", "-F", test.bits, "-n", test.label, "-C", image, test.size).CombinedOutput()
		if err != nil {
			t.Fatalf("mkfs.vfat: %v\n%s", err, out)
		}
		if got := labelled(image); got != test.want {
			t.Errorf("FAT%s with the label %s: %v", test.bits, test.label, got)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if labelled(short) || labelled("/dev/no-such-device") {
		t.Error("what is no FAT has the label")
	}
}

// small mounts a file system of that many kB.
func small(t *testing.T, kB int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kB)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestSaveIn(t *testing.T) {
	dir := small(t, 256)
	for name, text := range map[string]string{"README.TXT": "x", "minne.yaml": "x", ".support-today.tar.gz-1.tmp": "half"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	content := make([]byte, 40<<10)
	want := []string{"support-today.tar.gz", "support-today-2.tar.gz", "support-today-3.tar.gz"}
	for _, name := range want {
		got, err := saveIn(dir, "support", "today.tar.gz", content)
		if err != nil || got != name {
			t.Errorf("saved %q, %v, want %q", got, err, name)
		}
		time.Sleep(10 * time.Millisecond) // their age tells them apart
	}
	// Many more don't fill it, and leave other files alone.
	for n := range 10 {
		if _, err := saveIn(dir, "support", fmt.Sprintf("day%d.tar.gz", n), content); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := list(t, dir); got != "README.TXT minne.yaml support-day7.tar.gz support-day8.tar.gz support-day9.tar.gz" {
		t.Errorf("on the stick: %s", got)
	}
	// Too big for the stick, or for the mail: the stick is as before but for the oldest.
	if _, err := saveIn(dir, "support", "big.tar.gz", make([]byte, 250<<10)); err == nil || !strings.Contains(err.Error(), "has room for") {
		t.Errorf("no room: %v", err)
	}
	if _, err := saveIn(dir, "support", "huge.tar.gz", make([]byte, MaxSize+1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("huge: %v", err)
	}
	if got := list(t, dir); strings.Contains(got, "tmp") || strings.Contains(got, "big") {
		t.Errorf("on the stick: %s", got)
	}
}

func TestSaveWithoutStick(t *testing.T) {
	if _, err := Save("/dev/no-such-device", "support", "x.tar.gz", nil); err == nil || !strings.Contains(err.Error(), "/dev/no-such-device") {
		t.Errorf("no device: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "minne-stick-*")); len(left) > 0 {
		t.Errorf("leftovers: %v", left)
	}
}
