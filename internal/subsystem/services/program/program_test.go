// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/base/plan"
)

// sleeper is a program that serves once it has written its pid.
func sleeper(dir, text string) Desired {
	return Desired{
		Object: "sleeper", Facts: []string{"sleeps"},
		Argv:  []string{"sh", "-c", `echo $$ >"$0/pid"; trap "exit 0" TERM; while :; do sleep 0.05; done`, dir + "/"},
		Files: map[string]string{"conf": text},
		Check: []string{"sh", "-c", `! grep -q wrong "$0"`, dir + "/conf"},
	}
}

func newProgram(t *testing.T, runDir string) *Program {
	p := New(runDir, "sleeper", slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func wantPlan(t *testing.T, p *Program, d Desired, want ...plan.Action) {
	t.Helper()
	changes, err := p.Plan(t.Context(), d)
	if err != nil || len(changes) != len(want) || len(want) > 0 && changes[0].Action != want[0] {
		t.Errorf("plan: %v, %v; want %v", changes, err, want)
	}
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 400 {
		if happened() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal(what, "did not happen")
}

func TestLife(t *testing.T) {
	runDir := t.TempDir()
	p := newProgram(t, runDir)
	d := sleeper(p.Dir(), "a")
	wantPlan(t, p, Desired{})
	wantPlan(t, p, d, plan.Add)
	if err := p.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	first := p.State()
	if !first.Running || first.Starts != 1 {
		t.Fatalf("%+v", first)
	}
	wantPlan(t, p, d)
	if err := p.Apply(t.Context(), d); err != nil || p.State().PID != first.PID {
		t.Errorf("the same again: %v, %+v", err, p.State())
	}

	// A configuration that the program refuses leaves the one that runs.
	if err := p.Apply(t.Context(), sleeper(p.Dir(), "wrong")); err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("wrong configuration: %v", err)
	}
	if s := p.State(); s.PID != first.PID {
		t.Errorf("after a refused configuration: %+v", s)
	}
	changed := sleeper(p.Dir(), "b")
	wantPlan(t, p, changed, plan.Modify)
	if err := p.Apply(t.Context(), changed); err != nil || p.State().PID == first.PID {
		t.Errorf("changed: %v, %+v", err, p.State())
	}

	// A new daemon goes on with it.
	heir := newProgram(t, runDir)
	wantPlan(t, heir, changed)
	if err := heir.Apply(t.Context(), changed); err != nil || heir.State().PID != p.State().PID || heir.State().Starts != 0 {
		t.Errorf("adopted: %v, %+v", err, heir.State())
	}
	wantPlan(t, heir, Desired{}, plan.Remove)
	if err := heir.Apply(t.Context(), Desired{}); err != nil || heir.State().Running {
		t.Errorf("removed: %v, %+v", err, heir.State())
	}
	if _, err := os.Stat(heir.Dir()); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

func TestRestart(t *testing.T) {
	p := newProgram(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	if err := p.Apply(ctx, sleeper(p.Dir(), "a")); err != nil {
		t.Fatal(err)
	}
	first := p.State().PID
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new start", func() bool { s := p.State(); return s.Running && s.PID != first })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !p.State().Running {
		t.Error("it ended with the task")
	}
}

func TestEndsAtOnce(t *testing.T) {
	p := newProgram(t, t.TempDir())
	d := sleeper(p.Dir(), "a")
	d.Argv = []string{"sh", "-c", `echo "port in use" >&2; exit 1`, p.Dir() + "/"}
	if err := p.Apply(t.Context(), d); err == nil || !strings.Contains(err.Error(), "port in use") {
		t.Errorf("%v", err)
	}
	if s := p.State(); s.Running || !strings.Contains(s.Error, "exited at once") {
		t.Errorf("%+v", s)
	}
	d.Argv = []string{"/no/such/program", p.Dir() + "/"}
	if err := p.Apply(t.Context(), d); err == nil || !strings.Contains(err.Error(), "is its package installed?") {
		t.Errorf("%v", err)
	}
}

// A stranger with the number that a pid file names is left alone.
func TestStranger(t *testing.T) {
	p := newProgram(t, t.TempDir())
	if err := os.MkdirAll(p.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1\n", "", "nonsense", "999999999", "2"} {
		if err := os.WriteFile(filepath.Join(p.Dir(), "pid"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if found, err := p.find(sleeper(p.Dir(), "a")); found != nil || err != nil {
			t.Errorf("%q: %v, %v", text, found, err)
		}
	}
}

// Somebody has removed the run directory while no daemon ran: the next one knows the program by its
// command, ends it and starts it anew, and leaves alone whoever only reads its files.
func TestKnownWithoutItsFiles(t *testing.T) {
	runDir := t.TempDir()
	p := newProgram(t, runDir)
	d := sleeper(p.Dir(), "a")
	if err := p.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	orphan := p.State().PID
	reader := exec.Command("tail", "-f", "/dev/null", filepath.Join(p.Dir(), "conf"))
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Process.Kill(); _ = reader.Wait() })
	if err := os.RemoveAll(p.Dir()); err != nil {
		t.Fatal(err)
	}
	heir := newProgram(t, runDir)
	wantPlan(t, heir, d, plan.Modify)
	if err := heir.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if s := heir.State(); !s.Running || s.PID == orphan {
		t.Errorf("%+v, the one before was %d", s, orphan)
	}
	eventually(t, "the end of the former", func() bool { return !p.State().Running })
	if err := reader.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("who read the files was ended: %v", err)
	}
}

// What a program says does not fill the memory: of too much, the end is kept.
func TestOutputIsBounded(t *testing.T) {
	p := newProgram(t, t.TempDir())
	d := sleeper(p.Dir(), "a")
	d.Argv[2] = `echo $$ >"$0/pid"; trap "exit 0" TERM; i=0; while :; do i=$((i+1)); echo "line $i of many that nobody reads"; [ $((i % 5000)) = 0 ] && sleep 0.02; done`
	if err := p.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.Dir(), "output")
	size := func() int64 {
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	for range 3 {
		eventually(t, "much output", func() bool { return size() > 2*mostOutput })
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a pause", func() bool { before := size(); time.Sleep(5 * time.Millisecond); return size() == before })
		p.TrimOutput()
		text, err := os.ReadFile(file)
		if err != nil || len(text) > mostOutput || len(text) < keptOutput/2 || !strings.HasPrefix(string(text), "line ") {
			t.Errorf("%d bytes are left, %v, beginning %.40q", len(text), err, text)
		}
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
}

// A program that writes no pid file and over its own command is known by the file that it makes when it
// serves, and by where it works; a new daemon finds it.
func TestProgramWithoutPIDFile(t *testing.T) {
	runDir := t.TempDir()
	p := newProgram(t, runDir)
	d := Desired{Object: "sleeper", Argv: []string{"sh", "-c", `echo up >socket; exec sleep 1000`}, Serves: "socket"}
	if err := p.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	heir := newProgram(t, runDir)
	wantPlan(t, heir, d)
	if err := heir.Apply(t.Context(), d); err != nil || heir.State().PID != p.State().PID || heir.State().Starts != 0 {
		t.Errorf("adopted: %v, %+v, want %+v", err, heir.State(), p.State())
	}
	if err := heir.Apply(t.Context(), Desired{}); err != nil || heir.State().Running || p.proc.Alive() {
		t.Errorf("removed: %v, %+v", err, heir.State())
	}
}
