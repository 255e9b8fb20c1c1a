// SPDX-License-Identifier: Apache-2.0

package lldp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/services/program"
	"minne/internal/testing/servicetest"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// lldpd's configuration stays what it is.
func TestRender(t *testing.T) {
	d, err := Render(servicetest.Config(t, "services: {lldp: {interfaces: [lan, guests]}}"), "/run/minne")
	if err != nil {
		t.Fatal(err)
	}
	servicetest.Golden(t, "lldpd.conf", d)
	if d, err := Render(servicetest.Config(t, ""), "/run/minne"); err != nil || !d.Empty() {
		t.Errorf("without LLDP: %+v, %v", d, err)
	}
}

// What a neighbour sends is text of a stranger.
func TestRead(t *testing.T) {
	list, err := read([]byte(`{"lldp": [{"interface": [{"name": "lan", "age": "1 day, 02:03:04",
		"chassis": [{"id": [{"type": "mac", "value": "52:54:00:00:00:01"}], "name": [{"value": "core\u001b[2J"}],
			"mgmt-ip": [{"value": "192.0.2.9"}, {"value": "2001:db8::9"}],
			"capability": [{"type": "Bridge", "enabled": false}, {"type": "Router", "enabled": true}]}],
		"port": [{"id": [{"type": "ifname", "value": "ge-0/0/1"}], "ttl": [{"value": "120"}]}]}, {"name": "guests"}]}]}`))
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	n := list[0]
	if n.System != "core.[2J" || n.Port != "ge-0/0/1" || n.PortType != "ifname" || n.Seconds != 93784 || n.TTL != 120 ||
		!slices.Equal(n.Addresses, []string{"192.0.2.9", "2001:db8::9"}) || !slices.Equal(n.Capabilities, []string{"Router"}) {
		t.Errorf("%+v", n)
	}
	if list, err := read([]byte(`{"lldp": [{}]}`)); err != nil || list == nil || len(list) != 0 {
		t.Errorf("nobody: %v, %v", list, err)
	}
}

// peer is a namespace with a real lldpd at the other end of a cable to a port of ours.
type peer struct{ netns, dir string }

func newPeer(t *testing.T, port string) peer {
	t.Helper()
	p := peer{netns: fmt.Sprintf("minne-lldp-%d-%s", os.Getpid(), port), dir: shortDir(t)}
	run(t, "ip", "netns", "add", p.netns)
	t.Cleanup(func() { run(t, "ip", "netns", "del", p.netns) })
	run(t, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", p.netns)
	run(t, "ip", "link", "set", port, "up")
	run(t, "ip", "-n", p.netns, "link", "set", "dev", "eth0", "up")
	conf := filepath.Join(p.dir, "conf")
	if err := os.WriteFile(conf, []byte("configure system hostname switch-"+port+"\nconfigure lldp portidsubtype ifname\nconfigure lldp tx-interval 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("ip", "netns", "exec", p.netns, "lldpd", "-d", "-d", "-u", filepath.Join(p.dir, "socket"), "-O", conf, "-I", "eth0")
	c.Stderr = t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait() // it says that it was interrupted
	})
	return p
}

// hears says what the peer knows of its neighbours.
func (p peer) hears() []Neighbor {
	out, err := exec.Command("lldpcli", "-u", filepath.Join(p.dir, "socket"), "-f", "json0", "show", "neighbors", "details").Output()
	if err != nil {
		return nil // it has just been started
	}
	list, _ := read(out)
	return list
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// shortDir is one for sockets, whose paths are short, that lldpd's own user may enter.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "minne-lldp-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if happened() {
			return
		}
	}
	t.Fatal(what, "did not happen")
}

// Neighbours hear each other on the port that is named; on the other nothing is heard and nothing told.
// lldpd outlives the daemon, and a new one finds it.
func TestNeighbors(t *testing.T) {
	lan, wan := newPeer(t, "lan"), newPeer(t, "wan")
	runDir := shortDir(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := &Daemon{program.New(runDir, Name, log)}
	t.Cleanup(func() {
		if err := d.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	desired, err := Render(servicetest.Config(t, "services: {lldp: {interfaces: [lan]}}"), runDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	heard := func() (Observed, bool) {
		o, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o, len(o.Neighbors) > 0
	}
	eventually(t, "a neighbour", func() bool { _, ok := heard(); return ok })
	eventually(t, "the neighbour hears the router", func() bool { return len(lan.hears()) > 0 })
	o, _ := heard()
	if n := o.Neighbors[0]; len(o.Neighbors) != 1 || n.Interface != "lan" || n.System != "switch-lan" || n.Port != "eth0" || n.PortType != "ifname" {
		t.Errorf("heard: %+v", o)
	}
	if n := lan.hears()[0]; n.System != "attic" || n.Port != "lan" || n.Description != "Minne router" {
		t.Errorf("told: %+v", n)
	}
	if told := wan.hears(); len(told) > 0 {
		t.Errorf("told on the WAN, which is not named: %+v", told)
	}

	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	view, err := Service.Views[0].Table(text)
	if err != nil || len(view.Rows) != 1 || !slices.Equal(view.Rows[0][:3], []string{"lan", "switch-lan", "eth0"}) {
		t.Errorf("table: %+v, %v", view, err)
	}

	heir := &Daemon{program.New(runDir, Name, log)}
	if err := heir.Apply(t.Context(), desired); err != nil || heir.State().PID != d.State().PID || heir.State().Starts != 0 {
		t.Errorf("a new daemon: %v, %+v", err, heir.State())
	}
	if err := heir.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if o, err := heir.Observe(t.Context()); err != nil || o.On || o.Running || len(o.Neighbors) != 0 {
		t.Errorf("off: %+v, %v", o, err)
	}
}
