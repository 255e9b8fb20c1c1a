// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"minne/internal/model/api"
)

const (
	lan1, wan1 = "192.0.2.1/24", "198.51.100.1/24"
	lan2, wan2 = "192.0.2.2/24", "198.51.100.2/24"
)

func TestLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	first := b.config("first", lan1, wan1)
	second := b.config("second", lan2, wan2)
	b.start()

	b.want(0, "nothing was applied", "apply", "--dry-run", first)
	b.wantAddresses("", "")
	b.want(0, "applied: revision 1", "apply", first, "--comment", "the first")
	b.wantAddresses(lan1, wan1)
	b.want(0, "nothing to change", "apply", first)
	b.want(0, "-    addresses: ["+lan1+"]", "diff", second)

	b.want(0, "minne confirm", "apply", second, "--confirm", "10m")
	b.wantAddresses(lan2, wan2)
	b.want(5, "awaits its confirmation", "apply", first)
	b.want(0, "revision 1 is in force", "rollback")
	b.wantAddresses(lan1, wan1)
	b.want(4, "rolled back by root", "confirm")

	b.want(0, "minne confirm", "apply", second, "--confirm", "10m")
	b.want(0, "revision 3 is confirmed", "confirm")
	b.want(0, "revision 4 is in force", "rollback", "1")
	b.wantAddresses(lan1, wan1)

	var all api.Revisions
	if err := json.Unmarshal([]byte(b.want(0, "", "revisions", "--json").out), &all); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, r := range all.Revisions {
		states = append(states, fmt.Sprintf("%d %s %t", r.Number, r.State, r.Running))
	}
	if got, want := strings.Join(states, ", "), "1 confirmed false, 2 reverted false, 3 confirmed false, 4 confirmed true"; got != want {
		t.Errorf("revisions: %s, want %s", got, want)
	}
	text, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if a := b.want(0, "", "show", "config", "--revision", "3"); a.out != string(text) {
		t.Errorf("show config: %q", a.out)
	}

	// The complete configuration says what nobody wrote, and makes the same router.
	effective := b.want(0, "sysctl-profile: router  # default", "show", "config", "--effective").out
	if !strings.Contains(effective, "    anti-spoof: off  # default\n") || strings.Contains(effective, lan1+"  # default") {
		t.Errorf("effective: %s", effective)
	}
	b.want(0, "0 changes; nothing was applied", "apply", "--dry-run", b.file("effective.yaml", effective))
	b.want(0, "# default", "show", "config", "--effective", "--revision", "1")

	// Without the daemon the router goes on, and its history can be read.
	b.want(0, "", "stop")
	b.end(0)
	b.wantAddresses(lan1, wan1)
	b.want(0, "rollback to revision 1", "revisions")
	b.want(0, lan1, "show", "config")
	b.want(0, "# default", "show", "config", "--effective")
	b.want(0, "nothing was applied", "apply", "--dry-run", second)
	b.want(1, "daemon is not running", "apply", second)

	b.start()
	b.wantWhole(4)
	b.wantAddresses(lan1, wan1)
}

// An interface that a configuration no longer names loses what an earlier one gave it.
func TestRemovedInterface(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	both := b.config("both", lan1, wan1)
	one := b.config("one", lan1, "")
	b.start()
	b.want(0, "applied", "apply", both)
	b.want(0, "address "+wan1+" on wan", "apply", one)
	b.wantAddresses(lan1, "")
	b.want(0, "minne confirm", "apply", both, "--confirm", "10m")
	b.wantAddresses(lan1, wan1)
	b.want(0, "", "rollback")
	b.wantAddresses(lan1, "")
	b.wantWhole(2)
}

func TestNotConfirmedInTime(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("first", lan1, wan1))
	b.want(0, "minne confirm", "apply", b.config("second", lan2, wan2), "--confirm", "1s")
	eventually(t, "revert", func() bool { return b.status().Running == 1 })
	eventually(t, "the daemon is done", func() bool { return b.minne("confirm").code != 5 })
	b.want(4, "not confirmed in time", "confirm")
	b.wantAddresses(lan1, wan1)
}

// The deadline passes while no daemon runs.
func TestNotConfirmedWithoutDaemon(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("first", lan1, wan1))
	second := b.config("second", lan2, wan2)
	b.want(0, "minne confirm", "apply", second, "--confirm", "1h")
	b.end(syscall.SIGKILL)
	b.start() // the hour is not over
	b.wantAddresses(lan2, wan2)
	b.want(0, "", "rollback")
	b.want(0, "minne confirm", "apply", second, "--confirm", "1s")
	b.end(syscall.SIGKILL)
	// Not before the second is over. Should the daemon have been faster to revert, so much the better.
	eventually(t, "deadline", func() bool {
		b.start()
		defer b.end(syscall.SIGTERM)
		return b.status().Running == 1
	})
	b.wantAddresses(lan1, wan1)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	good := b.config("good", lan1, wan1)
	bad := b.file("bad.yaml", "version: 1\ninterfacess: {}\n")
	missing := filepath.Join(b.root, "missing.yaml")
	absent := b.file("absent.yaml", "version: 1\ninterfaces:\n  dsl:\n    addresses: [203.0.113.1/24]\n")
	for _, daemon := range []bool{false, true} {
		if daemon {
			b.start()
		}
		for _, test := range []struct {
			code  int
			words string
			args  []string
		}{
			{0, "minne ", []string{"version"}},
			{0, "", []string{"completion", "bash"}},
			{0, "is valid", []string{"check", good}},
			{0, "nothing was applied", []string{"apply", "--dry-run", good}},
			{1, "no such file", []string{"check", missing}},
			{2, "unknown flag", []string{"apply", "--frobnicate", good}},
			{2, "no command", []string{"aply", good}},
			{2, "no command", []string{"show", "confog"}},
			{2, "expected minne check [FILE]", []string{"check", good, good}},
			{2, "--confirm", []string{"apply", good, "--confirm", "-5m"}},
			{2, "invalid duration", []string{"apply", good, "--confirm", "soon"}},
			{2, "expected a number", []string{"rollback", "yesterday"}},
			{2, "instance name", []string{"status", "--instance", "A/B"}},
			{3, "bad.yaml:2:1: ", []string{"check", bad}},
			{3, "bad.yaml:2:1: ", []string{"apply", bad}},
			{3, "bad.yaml:2:1: ", []string{"apply", "--dry-run", bad}},
			{3, "bad.yaml:2:1: ", []string{"diff", bad}},
			{1, "", []string{"confirm"}},
			{1, "", []string{"rollback"}},
			{1, "", []string{"show", "config"}},
			{0, "cannot show what would change", []string{"apply", "--dry-run", absent}},
		} {
			if daemon && test.args[len(test.args)-1] == absent {
				test.code, test.words = 1, "dsl" // the daemon must know, so it refuses
			}
			a := b.want(test.code, test.words, test.args...)
			if test.code == 0 == (a.err != "") && test.args[0] != "apply" {
				t.Errorf("%q: exit code %d with stderr %q", test.args, a.code, a.err)
			}
			if strings.Count(a.err, "minne: ") > 1 && a.code != 0 {
				t.Errorf("%q: error told more than once: %q", test.args, a.err)
			}
		}
	}
	b.wantAddresses("", "")
}

// Of several operators at once, one is served at a time and the others learn it.
func TestConcurrentApplies(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	files := []string{b.config("first", lan1, wan1), b.config("second", lan2, wan2)}
	var wg sync.WaitGroup
	codes := make([]int, 12)
	for i := range codes {
		wg.Go(func() { codes[i] = b.minne("apply", files[i%2]).code })
	}
	wg.Wait()
	applied := 0
	for _, c := range codes {
		if c != 0 && c != 5 {
			t.Errorf("exit codes %v, want only 0 and 5", codes)
		}
		if c == 0 {
			applied++
		}
	}
	if applied == 0 {
		t.Error("nobody was served")
	}
	s := b.status()
	a := b.want(0, "", "show", "config")
	if strings.Contains(a.out, lan1) {
		b.wantAddresses(lan1, wan1)
	} else {
		b.wantAddresses(lan2, wan2)
	}
	b.wantWhole(s.Running)
}

func TestOneDaemon(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(1, fmt.Sprintf("already has a daemon (pid %d)", b.daemon.Process.Pid), "daemon", "--netns", b.netns)
	b.want(0, "", "status")
}

// A new router takes the operator's file, once.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	own := b.config("etc/minne/instances/"+b.name+"/minne", lan1, wan1)
	b.start()
	b.wantAddresses(lan1, wan1)
	b.want(0, "first start", "revisions")
	b.want(0, "nothing to change", "apply")
	b.config("etc/minne/instances/"+b.name+"/minne", lan2, wan2)
	b.end(syscall.SIGTERM)
	b.start()
	b.wantAddresses(lan1, wan1) // the changed file was never applied
	b.want(0, "+    addresses: ["+lan2+"]", "diff")
	b.want(0, "revision 2", "apply")
	b.wantAddresses(lan2, wan2)
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

// The machine is rebooted while a configuration waits for its confirmation:
// whatever went wrong with it, the confirmed one is back.
func TestReboot(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("first", lan1, ""))
	b.want(0, "minne confirm", "apply", b.config("second", lan2, wan2), "--confirm", "1h")
	b.end(syscall.SIGKILL)
	b.bootID = b.file("boot_id", "00000000-1111-2222-3333-444444444444\n")
	b.start()
	b.wantAddresses(lan1, "")
	b.wantWhole(1)
	b.want(4, "the machine was rebooted before it was confirmed", "confirm")
}

// A port that is not there at start is no reason to leave the others without
// configuration; it gets its own when it comes.
func TestPortComesLate(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("first", lan1, wan1))
	b.end(syscall.SIGKILL)
	for _, port := range []string{"lan", "wan"} {
		link, err := b.links.LinkByName(port)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.links.LinkDel(link); err != nil {
			t.Fatal(err)
		}
	}
	b.addPort("lan")
	b.start()
	b.wantState(exitDegraded, "degraded (1)\n", "degraded: port wan: no link with name wan") // said once
	if s := b.status(); s.Running != 1 || s.Degraded != nil {
		t.Fatalf("revision %d runs, not in place: %q", s.Running, s.Degraded)
	}
	b.addPort("wan")
	eventually(t, "the late port is configured", func() bool { return b.status().State == api.Healthy })
	b.wantAddresses(lan1, wan1)
}

// Who is not root may check and preview, with and without a daemon, but change nothing.
func TestWithoutRoot(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil {
		t.Fatal(err)
	}
	file := b.config("first", lan1, wan1)
	b.file("etc/minne/instances/"+b.name+"/secrets.yaml", "isp: hush\n")
	if err := os.Chmod(filepath.Join(b.root, "etc/minne/instances", b.name, "secrets.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, daemon := range []bool{false, true} {
		if daemon {
			b.start()
		}
		for _, test := range []struct {
			code int
			args []string
		}{
			{0, []string{"check", file}},
			{0, []string{"apply", "--dry-run", file}},
			{1, []string{"apply", file}},
			{1, []string{"confirm"}},
			{1, []string{"stop"}},
			{1, []string{"daemon"}},
		} {
			c := b.command(test.args...)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, _ := c.CombinedOutput()
			if code := c.ProcessState.ExitCode(); code != test.code {
				t.Errorf("minne %q as nobody, daemon %t: exit code %d, want %d\n%s", test.args, daemon, code, test.code, out)
			}
		}
	}
	b.wantAddresses("", "")
}

// What is in place already is not touched: not by an apply, not by a new daemon.
func TestUnchangedWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	text := "version: 1\nsystem: {router-id: 192.0.2.1}\ninterfaces:\n  lan: {addresses: [" + lan1 + "]}\n  wan: {addresses: [" + wan1 + "]}\n" +
		"routing:\n  static:\n    - {prefix: 203.0.113.0/24, via: [192.0.2.7]}\n" +
		"  ospf: {areas: {0: {interfaces: {lan: {}}}}}\n"
	file := b.file("ospf.yaml", text)
	b.want(0, "applied: revision 1", "apply", file)
	before := b.status()
	if before.KernelWrites == 0 || before.RoutingCommands == 0 {
		t.Fatalf("kernel writes %d, routing commands %d: nothing is counted", before.KernelWrites, before.RoutingCommands)
	}
	b.want(0, "nothing to change", "apply", file)
	b.want(0, "applied: revision 2", "apply", b.file("comment.yaml", "# in other words\n"+text))
	if after := b.status(); after.KernelWrites != before.KernelWrites || after.RoutingCommands != before.RoutingCommands {
		t.Errorf("kernel writes %d → %d, routing commands %d → %d", before.KernelWrites, after.KernelWrites, before.RoutingCommands, after.RoutingCommands)
	}
	b.end(syscall.SIGKILL)
	b.start()
	if s := b.status(); s.KernelWrites != 0 || s.RoutingCommands != 0 || s.Degraded != nil {
		t.Errorf("after a restart: kernel writes %d, routing commands %d, degraded %q", s.KernelWrites, s.RoutingCommands, s.Degraded)
	}
}
