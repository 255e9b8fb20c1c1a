// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestListedFiles has what a configuration may name: by root everything that is an ordinary file which all may
// read, by others what is beside the configuration as well.
func TestListedFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write := func(path string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(dir+"/list", 0o644)
	write(dir+"/lists/list", 0o644)
	write(dir+"/secrets", 0o600)
	write(dir+"/closed/list", 0o644)
	write(elsewhere+"/list", 0o644)
	err := errors.Join(os.Chmod(dir+"/closed", 0o700), unix.Mkfifo(dir+"/pipe", 0o644), unix.Mknod(dir+"/device", unix.S_IFCHR|0o666, 0),
		os.Symlink(elsewhere+"/list", dir+"/link"), os.Symlink(elsewhere, dir+"/linked"), os.Symlink(dir+"/lists", elsewhere+"/back"))
	if err != nil {
		t.Fatal(err)
	}
	const fine, outside, ordinary, below = "", "only root may ask about files elsewhere", "is not an ordinary file", "not everybody may enter"
	for _, c := range []struct{ name, root, others string }{
		{"list", fine, fine},
		{"lists/list", fine, fine},
		{"./lists/../list", fine, fine},
		{dir + "/lists/list", fine, fine},
		{"secrets", "chmod 644", "chmod 644"},
		{"pipe", ordinary, ordinary},
		{"device", ordinary, ordinary},
		{"/dev/watchdog0", "", outside}, // whether there is one or not
		{"/dev/null", ordinary, outside},
		{"lists", ordinary, ordinary},
		{".", ordinary, outside},
		{"closed/list", fine, below},
		{"none", "there is no file", "there is no file"},
		{elsewhere + "/list", fine, outside},
		{"../" + filepath.Base(elsewhere) + "/list", fine, outside},
		{"link", fine, outside},
		{"linked/list", fine, outside},
		{elsewhere + "/back/list", fine, outside},
	} {
		for reach, want := range map[Reach]string{Everywhere: c.root, Beside: c.others} {
			if c.name == "/dev/watchdog0" && reach == Everywhere {
				continue // this machine may have one
			}
			answered := make(chan error, 1)
			go func() {
				_, _, err := ReadListed(dir, c.name, reach)
				answered <- err
			}()
			select {
			case err := <-answered:
				if want == fine && err != nil || want != fine && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s, reach %d: %v, want %q", c.name, reach, err, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s, reach %d: no answer", c.name, reach)
			}
		}
	}
}
