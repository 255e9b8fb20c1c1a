// SPDX-License-Identifier: Apache-2.0

// Package testns gives a test binary a network and mount namespace of its own.
//
// A package whose tests touch the network calls Main from TestMain. The binary
// starts itself again inside fresh namespaces, so everything it makes (links,
// routes, sysctls, pinned maps) is gone when it ends, even after a crash, and
// packages can be tested side by side.
package testns

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const marker = "MINNE_TEST_NAMESPACE"

// Main runs the tests of m inside new network and mount namespaces and exits with their result.
// Without root it fails: these tests never skip.
func Main(m *testing.M) {
	if os.Getenv(marker) == "" {
		if err := enter(); err != nil {
			fmt.Fprintf(os.Stderr, "testns: %v (these tests need root and network namespaces)\n", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func enter() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// Mounts made from here on stay in this namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// A sysfs of the new namespace, so that /sys/class/net shows its links, and a bpffs on top.
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	if err := unix.Mount("bpffs", "/sys/fs/bpf", "bpf", 0, ""); err != nil {
		return fmt.Errorf("mount bpffs: %w", err)
	}
	env := append(os.Environ(), marker+"=1")
	return unix.Exec("/proc/self/exe", os.Args, env)
}
