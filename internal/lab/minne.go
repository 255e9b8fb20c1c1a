// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"minne/internal/base/instance"
)

// Minne is a Minne router in a node, driven through its command line.
type Minne struct {
	Binary   string // path of the minne command
	Instance instance.Instance
	Root     string // the directory its files are under
	Config   string // the file that Configure wrote

	node    *Running
	process *Process
}

// instanceName names the router of a node. removeInstances knows the form.
func instanceName(run, node string) string { return "lab-" + run + "-" + node }

// Minne prepares a router in the node with this configuration and secrets. StartDaemon runs it.
func (n *Running) Minne(binary, config, secrets string) (*Minne, error) {
	inst, err := instance.New(instanceName(n.lab.Run, n.Name))
	if err != nil {
		return nil, err
	}
	switch {
	case n.kind == QEMU:
		return n.minneOfImage(config, secrets)
	case n.machine != nil:
		return n.minneInside(config, secrets)
	}
	m := &Minne{Binary: binary, Instance: inst.Under(n.Dir), Root: n.Dir, node: n}
	m.Config = filepath.Join(n.Dir, "minne.yaml")
	if err := os.WriteFile(m.Config, []byte(config), 0o644); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(m.Instance.Secrets), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(m.Instance.Secrets, []byte(secrets), 0o600); err != nil {
		return nil, err
	}
	if err := n.addTool("minne", binary, m.flags()...); err != nil {
		return nil, err
	}
	n.lab.OnClose(func() error {
		endProcesses(n.Namespace)
		return removeInstance(inst)
	})
	return m, nil
}

// minneInside prepares a router in the node's machine: the machine's own, as on a router of metal. The host keeps
// its configuration and secrets, the machine's memory all else.
func (n *Running) minneInside(config, secrets string) (*Minne, error) {
	inst, err := instance.New(instance.Default)
	if err != nil {
		return nil, err
	}
	m := &Minne{Binary: guestProgram, Instance: inst.Under(guestDir), Root: guestDir, Config: filepath.Join(n.Dir, "minne.yaml"), node: n}
	given := filepath.Join(n.Dir, "secrets")
	if err := errors.Join(os.WriteFile(m.Config, []byte(config), 0o644), os.WriteFile(given, []byte(secrets), 0o600)); err != nil {
		return nil, err
	}
	if _, err := n.Run(context.Background(), "install", "-D", "-m", "600", given, m.Instance.Secrets); err != nil {
		return nil, err
	}
	return m, n.writeTool("minne", guestProgram, m.flags()...)
}

// StartDaemon starts the daemon and returns when it answers.
func (m *Minne) StartDaemon(ctx context.Context) error {
	if m.node.kind == QEMU {
		return m.awaitDaemon(ctx)
	}
	var p *Process
	var err error
	if m.node.machine != nil {
		p, err = m.node.Start("daemon", append([]string{m.Binary, "daemon"}, m.flags()...)...)
	} else {
		// Not from inside the node's namespace: --netns brings it there.
		p, err = m.node.startIn(func(f func() error) error { return f() }, "daemon", append([]string{m.Binary, "daemon", "--netns", m.node.Namespace}, m.flags()...)...)
	}
	if err != nil {
		return err
	}
	m.process = p
	return Until(ctx, 20*time.Second, "the daemon to answer", func() error {
		if err := p.Failed(); err != nil {
			return Hopeless{err}
		}
		_, err := m.Command(ctx, "show", "interfaces", "--json") // other commands also work without a daemon
		return err
	})
}

// flags select this router on the command line.
func (m *Minne) flags() []string {
	switch {
	case m.node.kind == QEMU:
		return nil
	case m.node.machine != nil:
		return []string{"--root", m.Root}
	}
	return []string{"--instance", m.Instance.Name, "--root", m.Root}
}

// Pid returns the daemon's process id, inside its machine if that has files of its own.
func (m *Minne) Pid() int {
	if m.node.kind == QEMU {
		return m.daemonInside(context.Background())
	}
	return m.process.Pid()
}

// KillDaemon ends the daemon as a crash would: SIGKILL, to it alone. The image starts it again by itself.
func (m *Minne) KillDaemon() {
	if m.node.kind == QEMU {
		if pid := m.Pid(); pid > 0 {
			m.node.Run(context.Background(), "kill", "-9", fmt.Sprint(pid)) //nolint:errcheck // it may have ended by itself
		}
		return
	}
	m.process.Kill()
}

// Write puts a text where commands of this router can read it and returns its path there.
func (m *Minne) Write(ctx context.Context, name, text string) (path string, err error) {
	if m.node.kind == QEMU {
		return m.node.writeInside(ctx, filepath.Join("/tmp", name), text)
	}
	path = filepath.Join(m.node.Dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// Command runs `minne ARGS` against this router and returns what it printed.
// The error of a command that failed is an *ExitError with its exit code.
func (m *Minne) Command(ctx context.Context, args ...string) (string, error) {
	if m.node.machine != nil {
		return m.node.runIn(ctx, append(append([]string{m.Binary}, args...), m.flags()...))
	}
	cmd := exec.CommandContext(ctx, m.Binary, append(args, m.flags()...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		text := fmt.Sprintf("minne %s: %v: %s", strings.Join(args, " "), err, lastLines(stderr.String()+stdout.String(), 12))
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return stdout.String(), &ExitError{Code: exit.ExitCode(), text: text}
		}
		return stdout.String(), errors.New(text)
	}
	return stdout.String(), nil
}

// ExitError is a minne command that ended with another code than 0.
type ExitError struct {
	Code int
	text string
}

func (e *ExitError) Error() string { return e.text }

// JSON runs `minne ARGS --json` and decodes what it prints.
func (m *Minne) JSON(ctx context.Context, into any, args ...string) error {
	out, err := m.Command(ctx, append(args, "--json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("minne %s --json: %w: %.200s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Log returns the end of the daemon's log.
func (m *Minne) Log(lines int) string {
	if m.node.kind == QEMU {
		text, _ := m.Command(context.Background(), "show", "log") // an unreadable log is an empty one
		return lastLines(text, lines)
	}
	text, _ := os.ReadFile(filepath.Join(m.node.Dir, "daemon.log")) // an unreadable log is an empty one
	return lastLines(string(text), lines)
}

// removeInstance takes away what an instance keeps outside its root directory.
func removeInstance(i instance.Instance) error {
	errs := []error{os.RemoveAll(i.BPFDir)}
	for _, dir := range []string{"/etc/frr", "/run/frr", "/var/run/frr", "/var/log/frr", "/var/lib/frr", "/var/tmp/frr"} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, i.FRRName)))
	}
	return errors.Join(errs...)
}

// removeInstances takes away what the routers of an abandoned run keep outside the lab's directory.
func removeInstances(run string) error {
	var errs []error
	pins, _ := filepath.Glob(filepath.Join("/sys/fs/bpf/minne-instances", instanceName(run, "*")))
	frr, _ := filepath.Glob(filepath.Join("/etc/frr", "minne-"+instanceName(run, "*")))
	names := map[string]bool{}
	for _, p := range pins {
		names[filepath.Base(p)] = true
	}
	for _, p := range frr {
		names[strings.TrimPrefix(filepath.Base(p), "minne-")] = true
	}
	for name := range names {
		if inst, err := instance.New(name); err == nil {
			errs = append(errs, removeInstance(inst))
		}
	}
	return errors.Join(errs...)
}
