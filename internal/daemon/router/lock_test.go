// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
)

// lockable is an instance whose directories everybody can reach.
func lockable(t *testing.T) instance.Instance {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "minne-lock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	inst, err := instance.New("locked")
	if err != nil {
		t.Fatal(err)
	}
	return inst.Under(root)
}

// nobody runs a program as a user without rights, and waits until it has said a line.
func nobody(t *testing.T, words ...string) (said string) {
	t.Helper()
	c := exec.Command(words[0], words[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("%q said nothing: %v", words, err)
	}
	return string(line[:n])
}

// holder locks a file as another user would, and goes on holding it.
func holder(t *testing.T, path string) string {
	return nobody(t, "flock", "--nonblock", path, "sh", "-c", "echo held; exec sleep 600")
}

func TestNobodyElseCanHoldTheLock(t *testing.T) {
	inst := lockable(t)
	release, err := lockInstance(inst)
	if err != nil {
		t.Fatal(err)
	}
	release()
	info, err := os.Stat(lockFile(inst))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the lock has mode %v (%v), want 0600", info.Mode(), err)
	}
	if said := holder(t, lockFile(inst)); strings.Contains(said, "held") {
		t.Errorf("another user holds the daemon's lock")
	}
}

// TestALockThatOthersHoldIsReplaced: a version before left the file readable by all.
func TestALockThatOthersHoldIsReplaced(t *testing.T) {
	inst := lockable(t)
	path := lockFile(inst)
	if err := os.MkdirAll(inst.RunDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := holder(t, path); !strings.Contains(said, "held") {
		t.Fatalf("the other user could not lock it: %s", said)
	}
	release, err := lockInstance(inst)
	if err != nil {
		t.Fatalf("another user's lock keeps the daemon from starting: %v", err)
	}
	defer release()
	if _, err := lockInstance(inst); !errors.Is(err, errHasDaemon) {
		t.Errorf("a second daemon: %v, want that there is one", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new lock: %v, %v", info.Mode(), err)
	}
}

// A daemon of a version before, which left its lock readable, keeps it.
func TestALockOfOurOwnIsKept(t *testing.T) {
	inst := lockable(t)
	release, err := lockInstance(inst)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := os.Chmod(lockFile(inst), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := lockInstance(inst); !errors.Is(err, errHasDaemon) {
		t.Errorf("a second daemon: %v, want that there is one", err)
	}
}

// TestTricksWithTheLock: what is no ordinary file of one name is replaced and not followed, and the
// directory is nobody else's.
func TestTricksWithTheLock(t *testing.T) {
	for name, trick := range map[string]func(path, victim string) error{
		"symbolic link": func(path, victim string) error { return os.Symlink(victim, path) },
		"hard link":     func(path, victim string) error { return os.Link(victim, path) },
		"pipe":          func(path, _ string) error { return unix.Mkfifo(path, 0o666) },
		"other's file": func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65534))
		},
	} {
		inst := lockable(t)
		if err := os.MkdirAll(inst.RunDir, 0o777); err != nil {
			t.Fatal(err)
		}
		victim := filepath.Join(inst.RunDir, "victim")
		if err := errors.Join(os.Chmod(inst.RunDir, 0o777), os.WriteFile(victim, []byte("precious"), 0o644), trick(lockFile(inst), victim)); err != nil {
			t.Fatal(err)
		}
		release, err := lockInstance(inst)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := sign(inst); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := lockInstance(inst); !errors.Is(err, errHasDaemon) {
			t.Errorf("%s: a second daemon: %v", name, err)
		}
		if text, err := os.ReadFile(victim); string(text) != "precious" {
			t.Errorf("%s: the file it leads to holds %q now (%v)", name, text, err)
		}
		if info, err := os.Stat(inst.RunDir); err != nil || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s: others may write the directory: %v, %v", name, info.Mode(), err)
		}
		release()
	}
	inst := lockable(t)
	if err := errors.Join(os.MkdirAll(inst.RunDir, 0o755), os.Chown(inst.RunDir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := lockInstance(inst); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another user's directory: %v", err)
	}
}
