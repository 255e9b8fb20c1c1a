// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/api"
	"minne/internal/testns"
)

// These tests drive the real program, built with fault points, in a network
// namespace of their own.
func TestMain(m *testing.M) { testns.Main(m) }

// program builds the command once per run of the tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "minne-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "minne")
	out, err := exec.Command("go", append(strings.Fields("build -tags minne_faults "+os.Getenv("XOV")), "-o", path, ".")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// box is a router on trial: its files, its two ports and its daemon.
type box struct {
	t      *testing.T
	root   string
	daemon *exec.Cmd
	log    bytes.Buffer
}

// newBox returns a router with the ports lan and wan, without a daemon.
func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, root: t.TempDir()}
	for _, port := range []string{"lan", "wan"} {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: port + "-far"}
		if err := netlink.LinkAdd(veth); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netlink.LinkDel(veth); err != nil {
				t.Error(err)
			}
		})
		far, err := netlink.LinkByName(port + "-far")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(far); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(b.takeDown)
	return b
}

func (b *box) command(args ...string) *exec.Cmd {
	b.t.Helper()
	path, err := program()
	if err != nil {
		b.t.Fatal(err)
	}
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), "MINNE_ROOT="+b.root, "MINNE_INSTANCE=test", "SUDO_USER=")
	return c
}

// start runs the daemon until it says that it is ready.
func (b *box) start(env ...string) {
	b.t.Helper()
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(b.t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		b.t.Fatal(err)
	}
	defer ready.Close()
	b.daemon = b.command("daemon")
	b.daemon.Env = append(append(b.daemon.Env, "NOTIFY_SOCKET="+ready.LocalAddr().String()), env...)
	b.daemon.Stderr = &b.log
	if err := b.daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
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
		b.end(syscall.SIGKILL)
	}
	if out, err := b.command("stop", "--all").CombinedOutput(); err != nil {
		b.t.Errorf("stop --all: %v\n%s", err, out)
	}
	if b.t.Failed() {
		b.t.Logf("log of the daemon:\n%s", &b.log)
	}
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
		link, err := netlink.LinkByName(port)
		if err != nil {
			b.t.Fatal(err)
		}
		found, err := netlink.AddrList(link, netlink.FAMILY_V4)
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
	for range 200 {
		if happened() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: did not happen", what)
}
