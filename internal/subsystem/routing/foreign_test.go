// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"minne/internal/base/process"
)

// TestForeignZebraIsRefused: another zebra in our network is named by its process; one elsewhere is nobody's business.
func TestForeignZebraIsRefused(t *testing.T) {
	l := newLab(t)
	l.namespace("elsewhere")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(l.dir, "zebra")
	l.run("cp", sleep, foreign)
	run := func(ns string) (pid int, end func()) {
		cmd := exec.Command("ip", "netns", "exec", l.ns(ns), foreign, "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(time.Minute); !strings.HasPrefix(process.Command(cmd.Process.Pid), foreign); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("the other zebra does not start")
			}
		}
		return cmd.Process.Pid, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	}
	_, end := run("elsewhere")
	defer end()
	if err := l.host.refuseForeign(); err != nil {
		t.Errorf("a zebra of another network: %v", err)
	}
	pid, end := run("r")
	if err := l.host.refuseForeign(); err == nil || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("a zebra of this network: %v", err)
	}
	if err := l.router.ensure(t.Context(), zebra, Desired{}); err == nil || !strings.Contains(err.Error(), "another zebra") {
		t.Errorf("ours was started beside it: %v", err)
	}
	end()
	if err := l.router.ensure(t.Context(), zebra, Desired{}); err != nil {
		t.Error(err)
	}
	if err := l.host.refuseForeign(); err != nil {
		t.Errorf("our own zebra is called another's: %v", err)
	}
}
