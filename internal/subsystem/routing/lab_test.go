// SPDX-License-Identifier: Apache-2.0

// A small laboratory: namespaces joined by veth pairs, one router under test (FRR, driven by this
// package) and neighbours that run BIRD, an independent implementation.
package routing

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"minne/internal/base/health"
	"minne/internal/model/config"
	"minne/internal/testing/testns"
)

// The scenarios mostly wait, so more run at once than there are CPUs.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testns.Main(m)
}

// frrRoot runs the scenarios against an FRR that is unpacked below a directory, to try other versions.
var frrRoot = os.Getenv("MINNE_TEST_FRR_ROOT")

var labs atomic.Int32

// lab is one scenario's network.
type lab struct {
	t      *testing.T
	id     string
	dir    string
	router *Routing
	host   host
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	l := &lab{t: t, id: fmt.Sprintf("rt%d-%d", os.Getpid(), labs.Add(1)), dir: t.TempDir()}
	if err := os.Chmod(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.namespace("r")
	wrap := []string{"ip", "netns", "exec", l.ns("r")}
	if frrRoot != "" {
		wrap = append(wrap, "chroot", frrRoot)
	}
	l.host = host{root: frrRoot, name: l.id, wrap: wrap, netns: "/run/netns/" + l.ns("r")}
	l.router = newRouting(l.host, health.NewBook(l.logger()), l.logger())
	t.Cleanup(func() {
		if err := newRouting(l.host, health.NewBook(l.logger()), l.logger()).Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return l
}

func (l *lab) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *lab) ns(name string) string { return l.id + "-" + name }

func (l *lab) namespace(name string) {
	l.run("ip", "netns", "add", l.ns(name))
	l.t.Cleanup(func() { exec.Command("ip", "netns", "del", l.ns(name)).Run() })
	l.in(name, "ip", "link", "set", "lo", "up")
	l.in(name, "sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0",
		"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
}

// run runs a command and returns its output; a failure ends the test.
func (l *lab) run(argv ...string) string {
	l.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// in runs a command in a namespace.
func (l *lab) in(ns string, argv ...string) string {
	l.t.Helper()
	return l.run(append([]string{"ip", "netns", "exec", l.ns(ns)}, argv...)...)
}

// link joins two namespaces; the interfaces are named after the far end unless the name says ns:ifname.
func (l *lab) link(a, b string, addrsA, addrsB string) {
	l.t.Helper()
	l.run("ip", "-n", l.ns(a), "link", "add", "to-"+b, "type", "veth", "peer", "name", "to-"+a, "netns", l.ns(b))
	for _, end := range []struct{ ns, dev, addrs string }{{a, "to-" + b, addrsA}, {b, "to-" + a, addrsB}} {
		for _, addr := range strings.Fields(end.addrs) {
			args := []string{"-n", l.ns(end.ns), "addr", "add", addr, "dev", end.dev}
			if strings.Contains(addr, ":") {
				args = append(args, "nodad")
			}
			l.run(append([]string{"ip"}, args...)...)
		}
		l.run("ip", "-n", l.ns(end.ns), "link", "set", end.dev, "up")
	}
}

// bird starts BIRD in a namespace of its own making's name and returns a function that asks it.
func (l *lab) bird(ns, conf string) func(command ...string) string {
	l.t.Helper()
	file, sock := filepath.Join(l.dir, ns+".conf"), filepath.Join(l.dir, ns+".ctl")
	if err := os.WriteFile(file, []byte("log stderr all;\n"+conf), 0o644); err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", l.ns(ns), "bird", "-f", "-c", file, "-s", sock)
	logFile, err := os.Create(filepath.Join(l.dir, ns+".log"))
	if err != nil {
		l.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if l.t.Failed() || testing.Verbose() {
			out, _ := os.ReadFile(logFile.Name())
			l.t.Logf("bird in %s:\n%s", ns, out)
		}
		logFile.Close()
	})
	l.eventually("bird serves", func() string {
		if _, err := os.Stat(sock); err != nil {
			return err.Error()
		}
		return ""
	})
	return func(command ...string) string {
		out, err := exec.Command("birdc", append([]string{"-s", sock}, command...)...).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("birdc: %v: %s", err, out)
		}
		return string(out)
	}
}

// eventually waits until check returns "" and fails with what it said last.
func (l *lab) eventually(what string, check func() string) {
	l.t.Helper()
	start := time.Now()
	deadline := start.Add(30 * time.Second)
	for {
		said := check()
		if said == "" {
			l.t.Logf("%s after %v", what, time.Since(start).Round(10*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: %s", what, said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// contains is a check for eventually.
func contains(text string, words ...string) string {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return fmt.Sprintf("expected %q in:\n%s", w, text)
		}
	}
	return ""
}

// lacks is a check for eventually.
func lacks(text string, words ...string) string {
	for _, w := range words {
		if strings.Contains(text, w) {
			return fmt.Sprintf("did not expect %q in:\n%s", w, text)
		}
	}
	return ""
}

// routes returns the router's kernel table.
func (l *lab) routes(family string) string {
	l.t.Helper()
	return l.in("r", "ip", family, "route", "show", "table", "all")
}

func (l *lab) render(cfg *config.Config, secrets passwords) Desired {
	l.t.Helper()
	config.Normalize(cfg)
	d, err := Render(cfg, secrets)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// apply renders and applies, then checks that a second time sends nothing.
func (l *lab) apply(cfg *config.Config, secrets passwords) Desired {
	l.t.Helper()
	d := l.render(cfg, secrets)
	if err := l.router.Apply(context.Background(), d); err != nil {
		l.t.Fatal(err)
	}
	before := l.router.Commands()
	if err := l.router.Apply(context.Background(), d); err != nil {
		l.t.Fatal(err)
	}
	if n := l.router.Commands() - before; n != 0 {
		l.t.Fatalf("applying the same again sent %d commands", n)
	}
	return d
}

// supervise runs the router's task until the test ends or the returned function is called.
func (l *lab) supervise() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.router.Run(ctx); err != nil {
			l.t.Errorf("run: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	l.t.Cleanup(stop)
	return stop
}

// kill ends a daemon of the router as a crash would.
func (l *lab) kill(daemon string) {
	l.t.Helper()
	p, err := l.host.find(daemon)
	if err != nil || p == nil {
		l.t.Fatalf("%s does not run: %v", daemon, err)
	}
	defer p.Close()
	if err := p.Signal(9); err != nil {
		l.t.Fatal(err)
	}
}

// passwords are the secrets of a test.
type passwords map[string]string

func (p passwords) Get(name string) (string, bool) { v, ok := p[name]; return v, ok }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func prefix(s string) config.Prefix { return config.Prefix{Prefix: netip.MustParsePrefix(s)} }

func on() *config.OnOff { v := config.OnOff(true); return &v }

func off() *config.OnOff { v := config.OnOff(false); return &v }
