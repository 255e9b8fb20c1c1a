// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started is a shell that does what the script says, and the file with its pid.
func started(t *testing.T, script string) (pidFile string, pid int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buried := make(chan struct{})
	go func() { _ = cmd.Wait(); close(buried) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-buried })
	pidFile = filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(pidFile, fmt.Appendln(nil, cmd.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	return pidFile, cmd.Process.Pid
}

func anyone(int) bool { return true }

func find(t *testing.T, pidFile string, ours func(int) bool) *Process {
	t.Helper()
	p, err := Find("sh", pidFile, ours)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFoundWatchedStopped(t *testing.T) {
	for name, script := range map[string]string{"obeys": "exec sleep 100", "ignores SIGTERM": `trap "" TERM; while :; do sleep 0.1; done`} {
		t.Run(name, func(t *testing.T) {
			pidFile, pid := started(t, script)
			p := find(t, pidFile, anyone)
			if p == nil || p.PID != pid || !p.Alive() {
				t.Fatalf("found %+v, expected process %d", p, pid)
			}
			ended := make(chan struct{})
			go p.Watch(func() { close(ended) })
			if err := p.Stop(t.Context(), 300*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			<-ended
			if p.Alive() {
				t.Error("alive after its end")
			}
			if err := p.Signal(unix.SIGTERM); err == nil {
				t.Error("a signal reached a process that has ended")
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	pidFile, pid := started(t, "exec sleep 100")
	if p := find(t, pidFile, func(asked int) bool { return asked != pid }); p != nil {
		t.Errorf("another's process was taken: %+v", p)
	}
	for name, text := range map[string]string{"empty": "", "no number": "x\n", "init": "1\n", "gone": "4194303\n"} {
		file := filepath.Join(t.TempDir(), "pid")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := find(t, file, anyone); p != nil {
			t.Errorf("%s: found %+v", name, p)
		}
	}
	if p := find(t, filepath.Join(t.TempDir(), "none"), anyone); p != nil {
		t.Errorf("without a file: found %+v", p)
	}
	var none *Process
	if none.Alive() {
		t.Error("no process is alive")
	}
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	pidFile, _ := started(t, "exec sleep 100")
	p := find(t, pidFile, anyone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Nobody watches it yet, so that its end can't be seen before the context's.
	if err := p.Stop(ctx, time.Minute); err == nil {
		t.Error("a stop that was given up says that it is done")
	}
	p.Close()
}

func TestWhatProcSays(t *testing.T) {
	_, pid := started(t, "exec sleep 100")
	for end := time.Now().Add(time.Minute); !strings.HasPrefix(Command(pid), "sleep\x00100\x00"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("command %q", Command(pid))
		}
	}
	if !InNetwork(pid, "/proc/self/ns/net") || InNetwork(pid, "/proc/self/ns/mnt") || InNetwork(4194303, "/proc/self/ns/net") {
		t.Error("network namespaces are mistaken")
	}
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if Said(out) != "" {
		t.Error("nothing was said")
	}
	fmt.Fprintf(out, "%s\nthe end\n", strings.Repeat("much ", 1000))
	if said := Said(out); len(said) > 2100 || !strings.HasSuffix(said, "the end") || !strings.HasPrefix(said, ": ") {
		t.Errorf("said %q", said)
	}
}

func TestSuperviseLooksAtOnceAfterATimeAndWhenRung(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	bell, looks := NewBell(), 0
	Supervise(ctx, bell, func(context.Context) time.Duration {
		switch looks++; looks {
		case 1:
			return time.Millisecond // the second look comes by itself
		case 2:
			bell.Ring() // and again before anybody hears it
			bell.Ring()
		case 3:
			if len(bell) != 0 {
				t.Error("rung twice, heard twice")
			}
			cancel()
		}
		return 0
	})
	if looks != 3 {
		t.Errorf("%d looks: expected 3", looks)
	}
}
