// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace that lives as long as the goroutine inside it,
// which owns its thread and runs what it is given.
type namespace struct {
	t     *testing.T
	fd    int
	calls chan func()
}

// newNamespace makes an empty namespace that is gone when the test ends.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	ns := &namespace{t: t, calls: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			ns.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		started <- err
		for call := range ns.calls {
			call()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("new network namespace: %v (root is needed)", err)
	}
	t.Cleanup(func() {
		close(ns.calls)
		unix.Close(ns.fd)
	})
	ns.ip("link set lo up")
	return ns
}

// path names the namespace for programs.
func (ns *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.fd) }

// try runs f on the namespace's thread.
func (ns *namespace) try(f func() error) error {
	done := make(chan error, 1)
	ns.calls <- func() { done <- f() }
	return <-done
}

// do is try for what must not fail.
func (ns *namespace) do(f func() error) {
	ns.t.Helper()
	must(ns.t, ns.try(f))
}

// ip runs ip(8) commands.
func (ns *namespace) ip(lines ...string) {
	ns.t.Helper()
	ns.run(strings.Join(lines, "\n")+"\n", "ip", "-batch", "-")
}

// run runs a program inside and returns what it said.
func (ns *namespace) run(input, name string, args ...string) string {
	ns.t.Helper()
	out, err := ns.command(input, name, args...)
	if err != nil {
		ns.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// command runs a program inside, for at most a minute, without waiting on the namespace's thread.
func (ns *namespace) command(input, name string, args ...string) (string, error) {
	var out strings.Builder
	c := exec.Command(name, args...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &out, &out
	// The kernel ends it with the thread that started it: nothing is left of a test that dies.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := ns.try(c.Start); err != nil {
		return "", err
	}
	late := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer late.Stop()
	err := c.Wait()
	return out.String(), err
}

// daemon runs a program inside until the test ends.
func (ns *namespace) daemon(name string, args ...string) {
	ns.t.Helper()
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ns.do(c.Start)
	ns.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// everyICMPError has every error sent, however many there were. The limits themselves are the router's, which puts them back:
// so no kind of message is limited (icmp_ratemask; of IPv6, which wants a kind, one that does not exist).
func (ns *namespace) everyICMPError() {
	ns.t.Helper()
	ns.sysctl("net/ipv4/icmp_ratemask", "0", "net/ipv6/icmp/ratemask", "255")
}

// sysctl writes settings, a path below /proc/sys and a value each. Those that this kernel does not have are passed over.
func (ns *namespace) sysctl(settings ...string) {
	ns.t.Helper()
	ns.do(func() error {
		for i := 0; i < len(settings); i += 2 {
			err := os.WriteFile(filepath.Join("/proc/sys", settings[i]), []byte(settings[i+1]), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what happens by itself.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if happened() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}
