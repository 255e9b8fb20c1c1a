// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A lab with every kind of daemon.
const daemonsLab = `version: 1
nodes:
  ab: {runs: bird, ports: {up: [192.0.2.1/30]}, config: bird.conf}
  b:
    runs: minne
    config: |
      version: 1
      interfaces:
        left: {addresses: [192.0.2.2/30]}
        right: {addresses: [192.0.2.5/30]}
  c:
    runs: frr
    ports: {up: [192.0.2.6/30]}
    config: |
      ip route 203.0.113.0/24 blackhole
links:
  - {ends: [ab.up, b.left]}
  - {ends: [b.right, c.up]}
`

// labUp is a running "minne lab up".
type labUp struct {
	cmd *exec.Cmd
	out *os.File
	run string
}

var upLine = regexp.MustCompile(`is up as (\d+-\d+):`)

func startLab(t *testing.T, topology string) labUp {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	u := labUp{cmd: exec.Command(binary, "lab", "up", topology), out: out}
	u.cmd.Stdout, u.cmd.Stderr = out, out
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		u.cmd.Wait()                          //nolint:errcheck // the tests that care look at it
	})
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(out.Name())
		if m := upLine.FindSubmatch(text); m != nil {
			u.run = string(m[1])
			return u
		}
	}
	text, _ := os.ReadFile(out.Name())
	t.Fatalf("the lab did not come up:\n%s", text)
	return u
}

// remains lists what is left of a lab: names, files, processes.
func (u labUp) remains(t *testing.T) (found []string) {
	t.Helper()
	for _, pattern := range []string{"/run/netns/minne-%s-*", "/run/minne-lab/%s", "/etc/frr/minne-lab-%s-*", "/run/frr/minne-lab-%s-*", "/sys/fs/bpf/minne-instances/lab-%s-*"} {
		list, err := filepath.Glob(fmt.Sprintf(pattern, u.run))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list...)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		text, _ := os.ReadFile(p) // it may have ended
		if bytes.Contains(text, []byte("/run/minne-lab/"+u.run+"/")) {
			found = append(found, p+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func minneLab(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, append([]string{"lab"}, args...)...).CombinedOutput()
	return string(out), err
}

func writeLab(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "daemons.yaml")
	for path, text := range map[string]string{file: daemonsLab, filepath.Join(dir, "bird.conf"): "log stderr all;\nrouter id 192.0.2.1;\nprotocol device { }\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestLabUpExecAndCtrlC(t *testing.T) {
	t.Parallel()
	u := startLab(t, writeLab(t))
	other := startLab(t, "pair")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{u.run + "/b", "ping", "-c1", "-W5", "192.0.2.6"}, "1 received"},
		{[]string{u.run + "/b", "minne", "show", "interfaces"}, "192.0.2.5/30"},
		{[]string{u.run + "/ab", "birdc", "show", "status"}, "192.0.2.1"},
		{[]string{u.run + "/c", "vtysh", "-c", "show ip route static"}, "203.0.113.0/24"},
		{[]string{other.run + "/sink", "ip", "address"}, "198.18.0.3/24"},
	} {
		if out, err := minneLab(t, append([]string{"exec"}, c.args...)...); err != nil || !strings.Contains(out, c.says) {
			t.Errorf("lab exec %v (%v), expected %q in\n%s", c.args, err, c.says, out)
		}
	}
	if out, err := minneLab(t, "exec", u.run+"/nobody", "true"); err == nil || !strings.Contains(out, u.run+"/ab (lab daemons)") {
		t.Errorf("expected the nodes that there are (%v):\n%s", err, out)
	}
	if err := u.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Wait(); err != nil {
		t.Errorf("lab up ended with %v", err)
	}
	if left := u.remains(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if len(other.remains(t)) == 0 {
		t.Error("the other lab is gone, too")
	}
}

// Not parallel: "lab down" ends the labs of other tests, too.
func TestLabDownRemovesLivingAndKilledLabs(t *testing.T) {
	killed, living := startLab(t, writeLab(t)), startLab(t, "router")
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.cmd.Wait() //nolint:errcheck // it was killed
	if len(killed.remains(t)) == 0 {
		t.Fatal("nothing was left by a killed lab: the test shows nothing")
	}
	ended := make(chan error, 1)
	go func() { ended <- living.cmd.Wait() }()
	// A lab that another program has up on this machine is refused, and none of this test's business.
	if out, err := minneLab(t, "down"); err != nil && !strings.Contains(out, "another program") {
		t.Errorf("lab down: %v\n%s", err, out)
	}
	if err := <-ended; err != nil {
		t.Errorf("lab up ended with %v", err)
	}
	for _, u := range []labUp{killed, living} {
		if left := u.remains(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

func TestLabUpRefusesWithoutATrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"up"}, "bridge, campus, pair, router", exitUsage},
		{[]string{"up", "ruter"}, "did you mean router?", exitFailed},
		{[]string{"up", "pair", "--prefixes", "9"}, "only", exitUsage},
		{[]string{"up", "campus", "--print"}, "built by code", exitFailed},
		{[]string{"exec", "sink"}, "a node and a command", exitUsage},
	} {
		out, err := minneLab(t, c.args...)
		exit, _ := err.(*exec.ExitError)
		if exit == nil || exit.ExitCode() != c.code || !strings.Contains(out, c.says) {
			t.Errorf("lab %v: %v, expected code %d and %q in\n%s", c.args, err, c.code, c.says, out)
		}
	}
	out, err := minneLab(t, "up", "router", "--print")
	if err != nil || !strings.HasPrefix(out, "# A router between") {
		t.Errorf("--print (%v):\n%s", err, out)
	}
	if out, err := minneLab(t, "topologies"); err != nil || strings.Count(out, "\n") != 4 {
		t.Errorf("topologies (%v):\n%s", err, out)
	}
}
