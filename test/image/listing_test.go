// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// tools make programs or run scripts of others: a router has none but the shell.
var tools = regexp.MustCompile(`^(gcc|g\+\+|cc|c\+\+|cpp|clang|tcc|as|ld|ld\..*|make|go|rustc|perl|python|ruby|lua|tclsh|node|gdb|strace|apt|apt-get|dpkg|rpm)[-0-9.]*$`)

// secrets look like this at their beginning, wherever they are in a file.
var secrets = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/]{32}`)

// TestListing looks at all files of the system: no compiler, no interpreter but the shell, no
// package tool, no secret, nothing that gives other rights, and nothing a program would miss of its libraries.
func TestListing(t *testing.T) {
	l := listing{t, map[string]bool{}, map[string]string{}, 0}
	root := l.add("../../build/minne.upgrade", 0)
	l.complete()
	shadow, err := os.ReadFile(filepath.Join(root, "etc/shadow"))
	if err != nil || bytes.Contains(shadow, []byte("$")) {
		t.Errorf("/etc/shadow: %v, or it holds a hash", err)
	}
}

// TestListingOfSet looks at those of a set and its base.
func TestListingOfSet(t *testing.T) {
	l := listing{t, map[string]bool{}, map[string]string{}, 0}
	l.add("../../build/minne-wifi.upgrade", 0)
	l.add("../../build/minne-wifi.upgrade", layerOf(t, testimage.Copy(t, "wifi"), "wifi").At)
	l.complete()
}

// listing is of all files of a system.
type listing struct {
	t      *testing.T
	have   map[string]bool   // names of files
	needed map[string]string // library → a program that needs it
	files  int
}

// add looks at the layer of an upgrade file that begins at a byte of it. It returns where its files are.
func (l *listing) add(upgrade string, at int64) (root string) {
	l.t.Helper()
	root = filepath.Join(l.t.TempDir(), "root")
	if out, err := exec.Command("unsquashfs", "-q", "-n", "-o", fmt.Sprint(at), "-d", root, upgrade).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		return l.look(path, name, d)
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return root
}

func (l *listing) look(path, name string, d fs.DirEntry) error {
	l.have[d.Name()] = true
	info, err := d.Info()
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 || mode&fs.ModeSymlink == 0 && mode&0o002 != 0 && name != "tmp" {
		l.t.Errorf("/%s has the rights %v", name, mode)
	}
	if tools.MatchString(d.Name()) && strings.Contains(name, "bin/") {
		l.t.Errorf("/%s is a tool that a router does not need", name)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	l.files++
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// GnuTLS tests itself with keys that everybody knows.
	if secrets.Match(content) && d.Name() != "libgnutls.so.30" || strings.HasPrefix(d.Name(), "ssh_host_") {
		l.t.Errorf("/%s holds a secret", name)
	}
	if program, err := elf.NewFile(bytes.NewReader(content)); err == nil {
		libraries, _ := program.ImportedLibraries()
		for _, library := range libraries {
			l.needed[library] = name
		}
	}
	return nil
}

// complete checks that no program misses a library.
func (l *listing) complete() {
	l.t.Helper()
	for library, by := range l.needed {
		if !l.have[library] {
			l.t.Errorf("/%s needs %s, which is not there", by, library)
		}
	}
	l.t.Logf("%d files, %d libraries", l.files, len(l.needed))
}
