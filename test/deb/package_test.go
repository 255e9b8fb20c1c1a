// SPDX-License-Identifier: Apache-2.0

// Package deb tests the Debian package: what is in it, and that its unit is one. With
// the build tag debian_roots (./dev test-deb) it is also built twice and compared,
// installed, upgraded while packets pass, removed and purged, in Debian 12 and 13 with
// systemd as their first process, and that systemd restarts a daemon that hangs.
package deb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// build makes a package of a version in a directory of the test and returns its file.
func build(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "sh", "../../packaging/deb.sh", "--version", version, "--output", dir)
	files, err := filepath.Glob(filepath.Join(dir, "minne_"+version+"_*.deb"))
	if err != nil || len(files) != 1 {
		t.Fatalf("packages of %s: %v, %v", version, files, err)
	}
	return files[0]
}

// run runs a program that must succeed and returns what it prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var errOut bytes.Buffer
	c := exec.Command(program, args...)
	c.Stderr = &errOut
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, &errOut)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantFiles are the package's files, without the examples: mode and path.
var wantFiles = []string{
	"-rw-r--r-- ./usr/lib/systemd/system/frr.service.d/minne.conf",
	"-rw-r--r-- ./usr/lib/systemd/system/minne.service",
	"-rw-r--r-- ./usr/share/bash-completion/completions/minne",
	"-rw-r--r-- ./usr/share/doc/minne/changelog.gz",
	"-rw-r--r-- ./usr/share/doc/minne/copyright",
	"-rw-r--r-- ./usr/share/fish/vendor_completions.d/minne.fish",
	"-rw-r--r-- ./usr/share/man/man8/minne.8.gz",
	"-rw-r--r-- ./usr/share/zsh/vendor-completions/_minne",
	"-rwxr-xr-x ./usr/sbin/minne",
}

func TestPackage(t *testing.T) {
	file := build(t, "1.2")
	t.Run("files", func(t *testing.T) { checkFiles(t, file) })
	t.Run("control", func(t *testing.T) { checkControl(t, file) })

	root := t.TempDir()
	run(t, "dpkg-deb", "-x", file, root)
	t.Run("unit", func(t *testing.T) { checkUnit(t, root) })
	t.Run("manual", func(t *testing.T) { checkManual(t, root) })
	if got := run(t, filepath.Join(root, "usr/sbin/minne"), "version"); !strings.HasPrefix(got, "minne 1.2 ") {
		t.Errorf("the binary says %q", got)
	}
	if got := run(t, "bash", "-n", filepath.Join(root, "usr/share/bash-completion/completions/minne")); got != "" {
		t.Errorf("bash says of the completion: %s", got)
	}
}

func checkFiles(t *testing.T, file string) {
	var files []string
	for line := range strings.Lines(run(t, "dpkg-deb", "-c", file)) {
		words := strings.Fields(line)
		mode, owner, path := words[0], words[1], words[5]
		if owner != "root/root" {
			t.Errorf("%s belongs to %s", path, owner)
		}
		switch {
		case mode[0] == 'd' && mode != "drwxr-xr-x":
			t.Errorf("directory %s has mode %s", path, mode)
		case mode[0] == 'd' || strings.HasPrefix(path, "./usr/share/doc/minne/examples/"):
		default:
			files = append(files, mode+" "+path)
		}
	}
	slices.Sort(files)
	if !slices.Equal(files, wantFiles) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(files, "\n"), strings.Join(wantFiles, "\n"))
	}
}

func checkControl(t *testing.T, file string) {
	dir := t.TempDir()
	run(t, "dpkg-deb", "-e", file, dir)
	control := string(read(t, filepath.Join(dir, "control")))
	for _, field := range []string{"Package: minne", "Version: 1.2", "Section: net", "Priority: optional", "Maintainer: .+ <.+@.+>", "Installed-Size: [1-9].*"} {
		if !regexp.MustCompile(`(?m)^` + field + `$`).MatchString(control) {
			t.Errorf("no field %q in\n%s", field, control)
		}
	}
	for _, program := range []string{"frr", "nftables", "iproute2", "ethtool"} {
		if !regexp.MustCompile(`(?m)^Depends: .*\b` + program + `\b`).MatchString(control) {
			t.Errorf("%s is not among what it depends on", program)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		path := filepath.Join(dir, script)
		run(t, "sh", "-n", path)
		if !bytes.Contains(read(t, path), []byte("\nset -e\n")) {
			t.Errorf("%s goes on after an error", script)
		}
		if s, err := os.Stat(path); err != nil || s.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", script, s.Mode(), err)
		}
	}
	root := t.TempDir()
	run(t, "dpkg-deb", "-x", file, root)
	check := exec.Command("md5sum", "--quiet", "-c", filepath.Join(dir, "md5sums"))
	check.Dir = root
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("checksums: %v\n%s", err, out)
	}
}

// checkUnit asks systemd what it thinks of the unit; the program stands elsewhere here.
func checkUnit(t *testing.T, root string) {
	text := string(read(t, filepath.Join(root, "usr/lib/systemd/system/minne.service")))
	if !strings.Contains(text, "ExecStart=/usr/sbin/minne daemon\n") {
		t.Fatalf("unit:\n%s", text)
	}
	unit := filepath.Join(t.TempDir(), "minne.service")
	text = strings.Replace(text, "/usr/sbin/minne", filepath.Join(root, "usr/sbin/minne"), 1)
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// checkManual looks for what roff would take for macros, and for the commands.
func checkManual(t *testing.T, root string) {
	page := run(t, "gzip", "-dc", filepath.Join(root, "usr/share/man/man8/minne.8.gz"))
	macro := regexp.MustCompile(`^\.(TH|SH|SS|TP|B|BR|I|IR|RI|PP|br)( |$)`)
	for line := range strings.Lines(page) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, ".") && !macro.MatchString(line) {
			t.Errorf("strange line: %s", line)
		}
	}
	for _, section := range []string{".SS minne apply [FILE]\n", ".SS minne tech\\-support\n", ".TH MINNE 8 "} {
		if !strings.Contains(page, section) {
			t.Errorf("the manual lacks %q", section)
		}
	}
}
