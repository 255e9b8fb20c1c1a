// SPDX-License-Identifier: Apache-2.0

// Package docs runs the examples of the guides, so that a guide cannot promise
// what the router does not do.
//
// The commands run in network and mount namespaces of the test's own, with empty
// directories where a router keeps its files: what a guide says of /etc/minne is
// done there. A guide is a test script:
//
//	<!-- ports: eth0 eth1 -->    the links the machine has
//	<!-- no daemon -->           the commands run on a machine that is no router: those of the lab
//	<!-- 80 columns -->          what commands print is as on a terminal of that width
//	```yaml minne.yaml           writes the block to that file, which must be a valid configuration
//	```answers answers.yaml      writes the block to that file, which must be answers that minne setup takes
//	```parts router.yaml         the same, a sheet of parts for minne bom
//	```console                   runs each line after "# ", in order, beside a running daemon
//	```console long              commands that take long: only their flags are checked, by --help
//
// A command goes on in the next line after a backslash. A guide with neither ports
// nor "no daemon" shows commands that are not run.
//
// What a command prints must be what the block shows: a line of "…" stands for
// any lines, digits for any digits. A command followed by "exit N" in the block
// must end with that code.
package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/setup"
	"minne/internal/lab/bom"
	"minne/internal/model/config"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// block is a fenced block of a guide.
type block struct {
	line int
	kind string // "yaml", "console"
	word string // after the kind: the file of a yaml block, "long"
	text []string
}

// guide is what a Markdown file holds for the test.
type guide struct {
	path     string
	ports    []string
	noDaemon bool
	narrow   bool // 80 columns
	blocks   []block
}

func TestGuides(t *testing.T) {
	paths, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no guides found: %v", err)
	}
	bin := t.TempDir()
	testbuild.Minne(t, bin)
	for _, path := range append(paths, "../../README.md") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := readGuide(t, path)
			run(t, g, bin)
		})
	}
}

var portsLine = regexp.MustCompile(`^<!-- ports: (.*) -->$`)

const (
	noDaemonLine = "<!-- no daemon -->"
	narrowLine   = "<!-- 80 columns -->"
)

// readGuide splits a Markdown file into its fenced blocks.
func readGuide(t *testing.T, path string) guide {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := guide{path: path}
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case open != nil && line == "```":
			g.blocks = append(g.blocks, *open)
			open = nil
		case open != nil:
			open.text = append(open.text, line)
		case strings.HasPrefix(line, "```"):
			words := strings.Fields(strings.TrimPrefix(line, "```"))
			open = &block{line: i + 1}
			if len(words) > 0 {
				open.kind = words[0]
			}
			if len(words) > 1 {
				open.word = words[1]
			}
		case line == noDaemonLine:
			g.noDaemon = true
		case line == narrowLine:
			g.narrow = true
		default:
			if m := portsLine.FindStringSubmatch(line); m != nil {
				g.ports = strings.Fields(m[1])
			}
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: block without an end", path, open.line)
	}
	return g
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks follows the links between the pages.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages as %s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
		}
	}
}

// run plays a guide: files are written, commands run and compared.
func run(t *testing.T, g guide, bin string) {
	dir := t.TempDir()
	freshDirectories(t)
	if g.narrow {
		t.Setenv("COLUMNS", "80")
	}
	var daemon bool
	for _, b := range g.blocks {
		at := fmt.Sprintf("%s:%d", g.path, b.line)
		switch b.kind {
		case "yaml":
			if _, err := config.Parse(at, []byte(strings.Join(b.text, "\n")+"\n")); err != nil {
				t.Errorf("example is not a valid configuration:\n%v", err)
			}
			if b.word != "" {
				write(t, filepath.Join(dir, b.word), b.text)
			}
		case "answers":
			path := filepath.Join(dir, b.word)
			write(t, path, b.text)
			if _, err := setup.ReadAnswers(path); err != nil {
				t.Errorf("%s: example is no file of answers:\n%v", at, err)
			}
		case "parts":
			if _, err := bom.Parse(at, []byte(strings.Join(b.text, "\n")+"\n")); err != nil {
				t.Errorf("example is not a valid sheet of parts:\n%v", err)
			}
			write(t, filepath.Join(dir, b.word), b.text)
		case "console":
			if len(g.ports) == 0 && !g.noDaemon {
				continue // commands of the machine, not of a router: ./dev demo and the like
			}
			if !daemon && !g.noDaemon {
				addPorts(t, g.ports)
				startDaemon(t, bin, dir)
				daemon = true
			}
			console(t, at, b, bin, dir)
		}
	}
}

func write(t *testing.T, path string, lines []string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addPorts makes veth links, their far ends up and without addresses.
func addPorts(t *testing.T, ports []string) {
	t.Helper()
	for _, port := range ports {
		far := "far-" + port
		ip(t, "link", "add", port, "type", "veth", "peer", "name", far)
		ip(t, "link", "set", far, "up")
		t.Cleanup(func() { ip(t, "link", "del", far) })
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// startDaemon runs a router whose files are below dir, until the test ends.
func startDaemon(t *testing.T, bin, dir string) {
	t.Helper()
	env := environment(bin)
	var log bytes.Buffer
	daemon := exec.Command(filepath.Join(bin, "minne"), "daemon")
	daemon.Env, daemon.Dir, daemon.Stdout, daemon.Stderr = env, "/", &log, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop := exec.Command(filepath.Join(bin, "minne"), "stop", "--all")
		stop.Env = env
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("minne stop --all: %v\n%s", err, out)
		}
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", log.String())
		}
		forget(t)
	})
	const socket = "/run/minne/control.sock"
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			return
		}
	}
	t.Fatalf("the daemon made no control socket in 20 s:\n%s", log.String())
}

// forget removes what a router leaves in place when it is stopped: its filter, connections, and the addresses of lo.
func forget(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("conntrack", "-F").CombinedOutput(); err != nil {
		t.Errorf("conntrack -F: %v\n%s", err, out)
	}
	if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil {
		t.Errorf("nft flush ruleset: %v\n%s", err, out)
	}
	ip(t, "address", "flush", "dev", "lo")
	ip(t, "link", "set", "lo", "down")
}

func environment(bin string) []string {
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
}

// freshDirectories mounts empty file systems over the router's directories, with
// their owners and modes, for the time of one guide.
func freshDirectories(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/etc/minne", "/var/lib/minne", "/run/minne", "/run/netns", "/etc/frr", "/run/frr"} {
		made := os.Mkdir(dir, 0o755) == nil
		var s unix.Stat_t
		if err := unix.Stat(dir, &s); err != nil {
			t.Fatal(err)
		}
		options := fmt.Sprintf("uid=%d,gid=%d,mode=%o", s.Uid, s.Gid, s.Mode&0o777)
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Fatalf("mount on %s: %v", dir, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", dir, err)
			}
			if made {
				_ = os.Remove(dir)
			}
		})
	}
}

// console runs the commands of a block and compares what they print.
func console(t *testing.T, at string, b block, bin, dir string) {
	t.Helper()
	for i := 0; i < len(b.text); {
		command, found := strings.CutPrefix(b.text[i], "# ")
		if !found {
			t.Fatalf("%s: expected a command after \"# \", got %q", at, b.text[i])
		}
		for strings.HasSuffix(command, `\`) && i+1 < len(b.text) {
			i++
			command = strings.TrimSuffix(command, `\`) + strings.TrimSpace(b.text[i])
		}
		if b.word == "long" {
			command += " --help"
		}
		end := i + 1
		for end < len(b.text) && !strings.HasPrefix(b.text[end], "# ") {
			end++
		}
		want := b.text[i+1 : end]
		i = end
		if b.word == "long" && len(want) > 0 {
			t.Fatalf("%s: %s: it is not run, so it can't show what it prints", at, command)
		}

		code := 0
		if n := len(want); n > 0 {
			if _, err := fmt.Sscanf(want[n-1], "exit %d", &code); err == nil {
				want = want[:n-1]
			}
		}
		out, got := shell(t, command, bin, dir)
		if got != code {
			t.Errorf("%s: %s: exit code %d, expected %d\n%s", at, command, got, code, out)
			continue
		}
		if !matches(want, strings.Split(strings.TrimRight(out, "\n"), "\n")) {
			t.Errorf("%s: %s prints\n%s\nthe guide shows\n%s", at, command, out, strings.Join(want, "\n"))
		}
	}
}

func shell(t *testing.T, command, bin, dir string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", command)
	sh.Env, sh.Dir = environment(bin), dir
	text, err := sh.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return string(text), exit.ExitCode()
	case err != nil:
		t.Fatalf("%s: %v", command, err)
	}
	return string(text), 0
}

// matches compares line by line; "…" in want stands for any number of lines.
// A guide that shows nothing of a command's output accepts any.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return true
	}
	if want[0] == "…" {
		for skip := 0; skip <= len(got); skip++ {
			if len(want) == 1 || matches(want[1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	if len(got) == 0 || plain(want[0]) != plain(got[0]) {
		return false
	}
	if len(want) == 1 {
		return len(got) == 1
	}
	return matches(want[1:], got[1:])
}

var (
	figures = regexp.MustCompile(`[0-9]+([.,:][0-9]+)*`)
	spaces  = regexp.MustCompile(`\s+`)
)

// plain is a line without what differs from run to run: figures and widths of columns.
func plain(line string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(figures.ReplaceAllString(line, "0"), " "))
}
