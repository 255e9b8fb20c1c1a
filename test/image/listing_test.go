// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tools make programs or run scripts of others: a router has none but the shell.
var tools = regexp.MustCompile(`^(gcc|g\+\+|cc|c\+\+|cpp|clang|tcc|as|ld|ld\..*|make|go|rustc|perl|python|ruby|lua|tclsh|node|gdb|strace|apt|apt-get|dpkg|rpm)[-0-9.]*$`)

// secrets look like this at their beginning, wherever they are in a file.
var secrets = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{32}`)

// TestListing looks at all files of the system: no compiler, no interpreter but the shell, no
// package tool, no secret, nothing that gives other rights, and nothing a program would miss of its libraries.
func TestListing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("unsquashfs", "-q", "-n", "-d", root, "../../build/minne.upgrade").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	have, needed, files := map[string]bool{}, map[string]string{}, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		have[d.Name()] = true
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode(); mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 || mode&fs.ModeSymlink == 0 && mode&0o002 != 0 && name != "tmp" {
			t.Errorf("/%s has the rights %v", name, mode)
		}
		if tools.MatchString(d.Name()) && strings.Contains(name, "bin/") {
			t.Errorf("/%s is a tool that a router does not need", name)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		files++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// GnuTLS tests itself with keys that everybody knows.
		if secrets.Match(content) && d.Name() != "libgnutls.so.30" || strings.HasPrefix(d.Name(), "ssh_host_") {
			t.Errorf("/%s holds a secret", name)
		}
		if program, err := elf.NewFile(bytes.NewReader(content)); err == nil {
			libraries, _ := program.ImportedLibraries()
			for _, l := range libraries {
				needed[l] = name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for library, by := range needed {
		if !have[library] {
			t.Errorf("/%s needs %s, which is not there", by, library)
		}
	}
	shadow, err := os.ReadFile(filepath.Join(root, "etc/shadow"))
	if err != nil || bytes.Contains(shadow, []byte("$")) {
		t.Errorf("/etc/shadow: %v, or it holds a hash", err)
	}
	t.Logf("%d files, %d libraries", files, len(needed))
}
