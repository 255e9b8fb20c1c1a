// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/kernel"
)

// namespace is a network namespace that lives as long as the goroutine inside it:
// one that owns its thread and runs what it is given. Without calls it is the
// namespace of the whole process.
type namespace struct {
	fd    int
	calls chan func()
}

// newNamespace makes an empty namespace that is gone when the test ends.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	ns := &namespace{calls: make(chan func())}
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
	return ns
}

// do runs f on the namespace's thread.
func (ns *namespace) do(f func() error) error {
	if ns.calls == nil {
		return f()
	}
	done := make(chan error)
	ns.calls <- func() { done <- f() }
	return <-done
}

// path names the namespace for ip(8).
func (ns *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.fd) }

// ip runs a batch of ip(8) commands inside.
func (ns *namespace) ip(t *testing.T, lines []string) { ns.run(t, lines, "ip", "-batch", "-") }

// run runs a program inside, with lines as its input.
func (ns *namespace) run(t *testing.T, lines []string, name string, args ...string) {
	t.Helper()
	err := ns.do(func() error {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sysctl writes settings. As in the product, those that this kernel does not have are passed over.
func (ns *namespace) sysctl(t *testing.T, settings ...kernel.Sysctl) {
	t.Helper()
	err := ns.do(func() error {
		for _, s := range settings {
			err := os.WriteFile("/proc/sys/"+s.Path, []byte(s.Value), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("sysctl: %v", err)
	}
}
