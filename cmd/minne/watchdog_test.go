// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAStoppedDaemonIsNoticed: by the service manager, whose watchdog is not fed, and by whoever asks.
func TestAStoppedDaemonIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(b.root, "manager"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	daemon := b.command("daemon", "--netns", b.netns)
	daemon.Env = append(daemon.Env, "NOTIFY_SOCKET="+manager.LocalAddr().String(), "WATCHDOG_USEC=2000000")
	daemon.Stderr = &b.log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	b.daemon = daemon
	hear := func(within time.Duration) string {
		_ = manager.SetReadDeadline(time.Now().Add(within))
		word := make([]byte, 64)
		n, _ := manager.Read(word)
		return string(word[:n])
	}
	for heard := ""; heard != "READY=1"; {
		if heard = hear(time.Minute); heard == "" {
			t.Fatalf("no word of the daemon; its log:\n%s", &b.log)
		}
	}
	for range 3 {
		if heard := hear(time.Minute); heard != "WATCHDOG=1" {
			t.Fatalf("the daemon says %q, want WATCHDOG=1", heard)
		}
	}
	if err := daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Signal(syscall.SIGCONT) })
	answer := b.minne("status")
	if answer.code == 0 || !strings.Contains(answer.err, "state T: stopped") {
		t.Errorf("status of a stopped daemon: exit code %d, %s", answer.code, answer.err)
	}
	for heard := hear(50 * time.Millisecond); heard != ""; heard = hear(50 * time.Millisecond) {
	} // what it had said before
	if heard := hear(3 * time.Second); heard != "" {
		t.Errorf("a stopped daemon says %q", heard)
	}
	if err := daemon.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if heard := hear(time.Minute); heard != "WATCHDOG=1" {
		t.Errorf("the daemon that goes on says %q, want WATCHDOG=1", heard)
	}
	b.want(0, "", "status")
}
