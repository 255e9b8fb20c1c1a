// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testbuild"
)

// program builds the command once per run of the tests.
var program struct {
	once   sync.Once
	binary string
}

// removeAfterwards removes a directory when this process is gone, however it ends.
func removeAfterwards(dir string) (err error) {
	c := exec.Command("sh", "-c", `cat >/dev/null; rm -rf "$0"`, dir)
	if lifeline, err = c.StdinPipe(); err != nil {
		return err
	}
	return c.Start()
}

// lifeline is open as long as this process lives.
var lifeline io.WriteCloser

// router is Minne with its daemon in a namespace of its own.
type router struct {
	*namespace
	name, root string
	binary     string
}

var routers atomic.Int32

// newRouter starts a daemon without a configuration. The links that the
// configuration names are made in its namespace before it is applied.
func newRouter(t *testing.T) *router {
	t.Helper()
	program.once.Do(func() {
		dir, err := os.MkdirTemp("", "minne-stateful-")
		must(t, err)
		must(t, removeAfterwards(dir))
		program.binary = testbuild.Minne(t, dir)
	})
	root, err := os.MkdirTemp("", "minne-r-") // t.TempDir would be too long a path for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	r := &router{newNamespace(t), fmt.Sprintf("stateful%d-%d", os.Getpid(), routers.Add(1)), root, program.binary}
	// Addresses are usable at once, and none is made up.
	r.sysctl("net/ipv6/conf/default/accept_dad", "0", "net/ipv6/conf/default/addr_gen_mode", "1")
	log, err := os.Create(filepath.Join(root, "log"))
	must(t, err)
	defer log.Close()
	daemon := r.minne("daemon", "--netns", r.path())
	daemon.Stderr = log
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.do(daemon.Start) // on a thread that lives as long as the test
	t.Cleanup(func() { r.takeDown(daemon) })
	eventually(t, "the daemon answers", func() bool { return r.minne("status").Run() == nil })
	return r
}

// takeDown leaves nothing of the router.
func (r *router) takeDown(daemon *exec.Cmd) {
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	if out, err := r.minne("stop", "--all", "--netns", r.path()).CombinedOutput(); err != nil {
		r.t.Errorf("minne stop --all: %v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(r.root, "log")); err == nil && r.t.Failed() {
		r.t.Logf("log of the daemon %s:\n%s", r.name, text)
	}
}

// minne is a command for the router.
func (r *router) minne(args ...string) *exec.Cmd {
	c := exec.Command(r.binary, args...)
	c.Env = append(os.Environ(), "MINNE_ROOT="+r.root, "MINNE_INSTANCE="+r.name, "SUDO_USER=")
	return c
}

// must runs a command that has to succeed.
func (r *router) must(args ...string) string {
	r.t.Helper()
	out, err := r.minne(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("minne %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// apply makes text the configuration.
func (r *router) apply(text string) {
	r.t.Helper()
	file := r.file(text)
	if out, err := r.minne("apply", file).CombinedOutput(); err != nil {
		r.t.Fatalf("minne apply: %v\n%s\n%s", err, out, text)
	}
}

// file writes text as the configuration file, without applying it.
func (r *router) file(text string) string {
	r.t.Helper()
	file := filepath.Join(r.root, "minne.yaml")
	must(r.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (r *router) observe() (o fastpath.Observed) {
	r.t.Helper()
	out, err := r.minne("show", "fast-path", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		r.t.Fatalf("minne show fast-path: %v\n%s", err, out)
	}
	return o
}

// fastPathEvaluates says that the fast path forwards between zones. Where it does not, the tests hold
// the kernel to itself, and find out only that their beds are sound.
const fastPathEvaluates = true

// awaitFastPath returns when the fast path can send on all of these ports.
func (r *router) awaitFastPath(ports ...string) {
	r.t.Helper()
	if !fastPathEvaluates {
		return
	}
	eventually(r.t, "the fast path sends on all ports", func() bool {
		o := r.observe()
		sends := map[string]bool{}
		for _, p := range o.Ports {
			sends[p.Name] = p.Transmits
		}
		for _, name := range ports {
			if !sends[name] {
				return false
			}
		}
		return o.Ready
	})
}

// carried is how many packets the fast path has taken from a port and forwarded.
func (r *router) carried(port string) uint64 {
	r.t.Helper()
	for _, traffic := range r.observe().Traffic {
		if traffic.Name == port {
			return traffic.RxPackets
		}
	}
	return 0
}

// wantCarried wants the fast path to have forwarded at least that many packets from a port since before.
func (r *router) wantCarried(port string, before, packets uint64) {
	r.t.Helper()
	if !fastPathEvaluates {
		return
	}
	if got := r.carried(port) - before; got < packets {
		r.t.Errorf("the fast path forwarded %d packets from %s, want at least %d", got, port, packets)
	}
}
