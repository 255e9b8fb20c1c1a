// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"minne/internal/model/api"
	"minne/internal/testing/testns"
)

// These tests drive the real program, built with fault points, in a network
// namespace of their own. They mostly wait, so more run at once than there are CPUs.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testns.Main(m)
}

// program builds the command once per run of the tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "minne-test-")
	if err != nil {
		return "", err
	}
	if err := removeAfterwards(dir); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it, too
		return "", err
	}
	path := filepath.Join(dir, "minne")
	out, err := exec.Command("go", "build", "-tags", "minne_faults", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// removeAfterwards removes a directory when this process is gone, however it ends.
func removeAfterwards(dir string) error {
	c := exec.Command("sh", "-c", `cat >/dev/null; rm -rf "$0"`, dir)
	var err error
	if lifeline, err = c.StdinPipe(); err != nil {
		return err
	}
	return c.Start()
}

// lifeline is open as long as this process lives.
var lifeline io.WriteCloser

// box is a router on trial: a network namespace with two ports, files, a daemon.
// Boxes don't see each other.
type box struct {
	t      *testing.T
	name   string
	root   string
	netns  string // path
	links  *netlink.Handle
	bootID string   // file to show the daemon as the id of this boot; "" for the real one
	wrap   []string // command words in front of the daemon's
	daemon *exec.Cmd
	log    bytes.Buffer
}

var boxes atomic.Int32

// newBox returns a router with the ports lan and wan, without a daemon.
func newBox(t *testing.T) *box {
	t.Helper()
	return newBoxIn(t, "")
}

// newBoxIn returns one whose files are in a directory of dir, "" for that of temporary files.
func newBoxIn(t *testing.T, dir string) *box {
	t.Helper()
	root, err := os.MkdirTemp(dir, "minne-box-") // t.TempDir would be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	b := &box{t: t, root: root, name: fmt.Sprintf("box%d-%d", os.Getpid(), boxes.Add(1))}
	b.netns = newNetns(t)
	ns, err := netns.GetFromPath(b.netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if b.links, err = netlink.NewHandleAt(ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.links.Close)
	for _, port := range []string{"lan", "wan"} {
		b.addPort(port)
	}
	t.Cleanup(b.takeDown)
	return b
}

// newNetns returns the path of a network namespace that lasts as long as the test.
func newNetns(t *testing.T) string {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	ended := make(chan struct{})
	go func() { // the kernel ties Pdeathsig to this thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- holder.Start()
		<-ended
		_ = holder.Process.Kill()
		_ = holder.Wait()
		started <- nil
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(ended)
		<-started
	})
	return fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
}

// addPort adds a port with a far end that takes what is sent.
func (b *box) addPort(name string) {
	b.t.Helper()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-far"}
	if err := b.links.LinkAdd(veth); err != nil {
		b.t.Fatal(err)
	}
	far, err := b.links.LinkByName(name + "-far")
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.links.LinkSetUp(far); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) command(args ...string) *exec.Cmd {
	b.t.Helper()
	path, err := program()
	if err != nil {
		b.t.Fatal(err)
	}
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), "MINNE_ROOT="+b.root, "MINNE_INSTANCE="+b.name, "SUDO_USER=")
	return c
}

// start runs the daemon until it says that it is ready.
func (b *box) start(env ...string) {
	b.t.Helper()
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(b.root, "notify"), Net: "unixgram"})
	if err != nil {
		b.t.Fatal(err)
	}
	defer os.Remove(ready.LocalAddr().String())
	defer ready.Close()
	daemon := b.command("daemon", "--netns", b.netns)
	if b.bootID != "" {
		daemon.Args = append([]string{"unshare", "--mount", "sh", "-c",
			`mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, b.bootID}, daemon.Args...)
		daemon.Path = "/usr/bin/unshare"
	}
	if b.wrap != nil {
		daemon.Args = append(slices.Clone(b.wrap), append([]string{daemon.Path}, daemon.Args[1:]...)...)
		daemon.Path = "/usr/bin/unshare"
	}
	daemon.Env = append(append(daemon.Env, "NOTIFY_SOCKET="+ready.LocalAddr().String()), env...)
	daemon.Stderr = &b.log
	if err := daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.daemon = daemon
	if err := ready.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		b.t.Fatal(err)
	}
	message := make([]byte, 64)
	n, err := ready.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		b.t.Fatalf("daemon said %q, %v; its log:\n%s", message[:n], err, &b.log)
	}
}

// end waits for the daemon to end by the signal, 0 for by itself.
func (b *box) end(signal syscall.Signal) {
	b.t.Helper()
	if signal != 0 {
		if err := b.daemon.Process.Signal(signal); err != nil {
			b.t.Fatal(err)
		}
	}
	late := time.AfterFunc(30*time.Second, func() {
		b.t.Errorf("the daemon does not end")
		_ = b.daemon.Process.Kill()
	})
	err := b.daemon.Wait()
	late.Stop()
	b.daemon = nil
	killed := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &killed) {
		b.t.Fatal(err)
	}
}

// takeDown leaves nothing of the router.
func (b *box) takeDown() {
	if b.daemon != nil {
		how := syscall.SIGKILL
		if b.t.Failed() {
			how = syscall.SIGQUIT // its goroutines are in the log then
		}
		b.end(how)
	}
	if out, err := b.command("stop", "--all", "--netns", b.netns).CombinedOutput(); err != nil {
		b.t.Errorf("stop --all: %v\n%s", err, out)
	}
	if left := b.keepers(); len(left) > 0 {
		b.t.Errorf("stop --all leaves processes %v, which keep the packet filter's owner", left)
	}
	if b.t.Failed() {
		b.t.Logf("log of the daemon:\n%s", &b.log)
	}
}

// keepers are the processes that keep the owner of the guard: "sleep" with a socket of the box's namespace.
func (b *box) keepers() (list []int) {
	b.t.Helper()
	sockets, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(b.netns)), "net/netlink"))
	if err != nil {
		b.t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/fd/3")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range all {
		link, err := os.Readlink(path)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "comm")) // it may have ended
		inode, ok := strings.CutPrefix(link, "socket:[")
		if err != nil || !ok || string(name) != "sleep\n" {
			continue
		}
		for line := range strings.Lines(string(sockets)) {
			words := strings.Fields(line)
			if len(words) >= 10 && words[9]+"]" == inode {
				pid, err := strconv.Atoi(strings.Split(path, "/")[2])
				if err != nil {
					b.t.Fatal(err)
				}
				list = append(list, pid)
			}
		}
	}
	return list
}

// answer is what a command said.
type answer struct {
	code     int
	out, err string
}

// minne runs a command.
func (b *box) minne(args ...string) answer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	plain := b.command(args...)
	c := exec.CommandContext(ctx, plain.Path, args...)
	c.Env = plain.Env
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	failed := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &failed) {
		b.t.Fatal(err)
	}
	return answer{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// want runs a command and wants an exit code, and words in what it says.
func (b *box) want(code int, words string, args ...string) answer {
	b.t.Helper()
	a := b.minne(args...)
	if a.code != code || !strings.Contains(a.out+a.err, words) {
		b.t.Fatalf("minne %s: exit code %d, want %d and %q\n%s%s", strings.Join(args, " "), a.code, code, words, a.out, a.err)
	}
	return a
}

// file writes a file below the box's directory.
func (b *box) file(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// config writes a configuration with an address on each port, empty for a port that it leaves out.
func (b *box) config(name, lan, wan string) string {
	text := "version: 1\ninterfaces:\n"
	for _, port := range []struct{ name, address string }{{"lan", lan}, {"wan", wan}} {
		if port.address != "" {
			text += fmt.Sprintf("  %s:\n    addresses: [%s]\n", port.name, port.address)
		}
	}
	return b.file(name+".yaml", text)
}

// wantAddresses compares the IPv4 addresses of both ports.
func (b *box) wantAddresses(lan, wan string) {
	b.t.Helper()
	for port, want := range map[string]string{"lan": lan, "wan": wan} {
		link, err := b.links.LinkByName(port)
		if err != nil {
			b.t.Fatal(err)
		}
		found, err := b.links.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			b.t.Fatal(err)
		}
		var got []string
		for _, a := range found {
			got = append(got, a.IPNet.String())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			b.t.Errorf("%s has %q, want %q", port, got, want)
		}
	}
}

// status asks the daemon.
func (b *box) status() api.Status {
	b.t.Helper()
	var s api.Status
	a := b.minne("status", "--json")
	if err := json.Unmarshal([]byte(a.out), &s); err != nil {
		b.t.Fatalf("status: %v\n%s%s", err, a.out, a.err)
	}
	return s
}

// wantWhole wants a revision to run and nothing of it to be missing.
func (b *box) wantWhole(revision int) {
	b.t.Helper()
	if s := b.status(); s.Running != revision || s.Degraded != nil {
		b.t.Errorf("revision %d runs, want %d; degraded: %q", s.Running, revision, s.Degraded)
	}
}

// eventually waits for what happens by itself.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if happened() {
			return
		}
	}
	t.Fatalf("%s: did not happen", what)
}
