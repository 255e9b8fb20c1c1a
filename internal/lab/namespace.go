// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/thread"
)

// namespaceDir is where iproute2 keeps named network namespaces.
const namespaceDir = "/run/netns"

func addNamespace(name string) error {
	return ip("netns", "add", name)
}

// removeNamespace ends the processes inside a namespace and removes its name.
// Its interfaces go with it.
func removeNamespace(name string) error {
	if _, err := os.Stat(filepath.Join(namespaceDir, name)); os.IsNotExist(err) {
		return nil
	}
	endProcesses(name)
	return ip("netns", "delete", name)
}

// endProcesses kills what still runs in a namespace: daemons that detached
// themselves from the process that the lab started.
func endProcesses(name string) {
	for range 50 {
		out, err := exec.Command("ip", "netns", "pids", name).Output()
		pids := strings.Fields(string(out))
		if err != nil || len(pids) == 0 {
			return
		}
		for _, p := range pids {
			var pid int
			if _, err := fmt.Sscan(p, &pid); err == nil && pid > 1 && pid != os.Getpid() {
				unix.Kill(pid, unix.SIGKILL) //nolint:errcheck // it may have ended by itself
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ip runs iproute2.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// inside runs f on a thread that is in the named namespace. Processes that f
// starts are in it too.
func inside(namespace string, f func() error) (err error) {
	thread.Alone(func() {
		var fd int
		if fd, err = unix.Open(filepath.Join(namespaceDir, namespace), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			err = fmt.Errorf("namespace %s: %w", namespace, err)
			return
		}
		err = unix.Setns(fd, unix.CLONE_NEWNET)
		unix.Close(fd)
		if err != nil {
			err = fmt.Errorf("enter namespace %s: %w", namespace, err)
			return
		}
		err = f()
	})
	return err
}
