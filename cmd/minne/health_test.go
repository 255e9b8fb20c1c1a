// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/api"
)

// wantFault waits until the status has a fault with these words, in its text and in its exit code.
func (b *box) wantFault(words string) {
	b.t.Helper()
	b.wantState(exitDegraded, "degraded (1)\n", words)
}

func (b *box) wantState(code int, first, words string) {
	b.t.Helper()
	var last answer
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the last status, exit code %d:\n%s%s", last.code, last.out, last.err)
		}
	}()
	eventually(b.t, "status with "+words, func() bool {
		last = b.minne("status", "--check")
		return last.code == code && strings.HasPrefix(last.out, first) && strings.Contains(last.out, words)
	})
}

func (b *box) wantHealthy() {
	b.t.Helper()
	b.wantState(exitOK, "healthy\n", "")
}

// What is wrong stands in the status while it lasts, in its first line and exit code too.
func TestStatusTellsFaults(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.wantState(exitDegraded, "without configuration", "no configuration is in force yet")
	file := b.config("first", lan1, wan1)
	b.want(0, "applied", "apply", file)
	b.wantHealthy()
	if s := b.status(); s.State != api.Healthy {
		t.Errorf("state %q", s.State)
	}

	b.inside("ip rule add priority 100 to 203.0.113.0/24 lookup main")
	b.wantFault("policy routing: rules or routes that Minne did not make (IPv4: ip rule of priority 100)")
	b.inside("ip rule del priority 100")
	b.wantHealthy()

	b.want(0, "applied", "apply", b.file("static.yaml", b.read(file)+"routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.9]}]}\n"))
	b.wantHealthy()
	b.inside("ip route add default via 192.0.2.99")
	b.wantFault("static routes: not used, because the kernel prefers a route that was added by hand: 0.0.0.0/0;")
	b.inside("ip route del default proto boot")
	b.wantHealthy()
	b.want(0, "applied", "apply", file)

	state := filepath.Join(b.root, "var/lib/minne-instances", b.name)
	fillUp(t, state)
	b.wantFault("state directory: " + state + ": the file system is full")
	if err := unix.Unmount(state, 0); err != nil {
		t.Fatal(err)
	}
	b.wantHealthy()

	b.want(0, "", "fast-path", "off")
	b.wantState(exitDegraded, "degraded (2)\n", "fast path on lan: not running, the kernel forwards what arrives there: taken off by hand")
	b.want(0, "put in place again", "apply", file) // the unchanged file undoes it
	b.wantHealthy()

	b.want(0, "", "fast-path", "off")
	b.want(0, "", "apply", b.file("off.yaml", b.read(file)+"fast-path: {mode: off}\n"))
	b.wantHealthy()

	b.want(0, "", "stop")
	b.end(0)
	if a := b.minne("status", "--check"); a.code != exitFailed {
		t.Errorf("without a daemon: exit code %d", a.code)
	}
}

// fillUp puts a full file system over a directory.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it is gone when the test went well
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A driver without XDP is no fault in mode auto: a box with such a card would be degraded for ever.
func TestAPlainDriverIsNoFault(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.inside("ip link add plain type ifb")
	b.start()
	b.want(0, "applied", "apply", b.file("plain.yaml", b.read(b.config("plain", lan1, wan1))+"  plain: {addresses: [198.18.7.1/24]}\n"))
	b.want(0, "driver ifb has no native XDP", "show", "fast-path")
	b.wantHealthy()
}

// The newest revision is damaged: the one before runs, and the status says so until another is applied.
func TestStatusTellsOlderRevision(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "revision 1", "apply", b.config("first", lan1, wan1))
	b.want(0, "revision 2", "apply", b.config("second", "192.0.2.9/24", wan1))
	b.end(syscall.SIGTERM)
	newest := filepath.Join(b.root, "var/lib/minne-instances", b.name, "revisions/000002.rev")
	if err := os.Truncate(newest, 100); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.wantFault("the file of revision 2 is damaged: the older revision 1 is in force")
	b.want(0, "revision 3", "apply", b.config("third", "192.0.2.9/24", wan1))
	b.wantHealthy()
}

// dnsmasqs are the processes of dnsmasq in the router's network namespace.
func (b *box) dnsmasqs() (pids []string) {
	b.t.Helper()
	ours, err := os.Readlink(b.netns)
	if err != nil {
		b.t.Fatal(err)
	}
	all, _ := filepath.Glob("/proc/[1-9]*/comm")
	for _, file := range all {
		name, _ := os.ReadFile(file)
		its, _ := os.Readlink(filepath.Join(filepath.Dir(file), "ns/net"))
		if strings.TrimSpace(string(name)) == "dnsmasq" && its == ours {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// The run directory is removed, under a living daemon and under a dead one: the router can be spoken
// to again, and one DNS server answers, not two that fight for the port.
func TestRunDirectoryRemoved(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
		t.Fatal(err)
	}
	b.start()
	b.want(0, "applied", "apply", b.file("dns.yaml", `version: 1
interfaces:
  lan: {addresses: [192.168.77.1/24], zone: lan}
services:
  dns: {interfaces: [lan], upstream: [192.168.77.53], domain: home.arpa, names: {nas: 192.168.77.30}}
  dhcp: {lan: {pool: 192.168.77.100-192.168.77.199}}
`))
	before := b.dnsmasqs()
	if len(before) != 1 {
		t.Fatalf("dnsmasq runs as %q", before)
	}
	run := filepath.Join(b.root, "run/minne-instances", b.name)
	again := func() {
		t.Helper()
		eventually(t, "another dnsmasq", func() bool { now := b.dnsmasqs(); return len(now) == 1 && !slices.Equal(now, before) })
		before = b.dnsmasqs()
		b.wantHealthy()
		b.want(0, "DNS on lan", "show", "services")
	}
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	again()
	b.want(0, "repaired: 1 times; last", "status")
	b.want(0, run+" was removed", "status")

	b.end(syscall.SIGKILL)
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	b.start()
	again()
}
