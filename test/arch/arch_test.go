// SPDX-License-Identifier: Apache-2.0

//go:build arch

package arch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/subsystem/fastpath"
)

// modules that every machine may need; what a kernel has built in is not among its modules.
var modules = []string{"virtio_pci", "virtio_net", "virtio_console", "ipv6", "failover"}

const routerConfig = `version: 1
system: {hostname: router}
interfaces:
  eth0: {addresses: [10.1.0.1/24, "2001:db8:1::1/64"]}
  eth1: {addresses: [10.2.0.1/24, "2001:db8:2::1/64"]}
routing:
  static:
    - {prefix: 203.0.113.0/24, via: [10.2.0.2]}
    - {prefix: "2001:db8:9::/48", via: ["2001:db8:2::2"]}
fast-path: {mode: %s}
`

// TestForwards boots every machine in turn: one emulator at a time.
func TestForwards(t *testing.T) {
	for _, e := range emulators {
		t.Run(e.debian, func(t *testing.T) {
			kernel := kernelOf(t, e.debian)
			dir := t.TempDir()
			image := filepath.Join(dir, "initramfs")
			initramfs(t, image, kernel, e.minne(t, dir), "", "exec", modules)
			began := time.Now()
			m := start(t, e.boot(filepath.Join(kernel, "kernel"), image, 512))
			t.Logf("%.0f s: booted %s", time.Since(began).Seconds(), strings.TrimSpace(m.run(t, "uname", "-rm")))
			m.startDaemon(t)
			t.Logf("%.0f s: the daemon answers", time.Since(began).Seconds())
			mode, why := "native", ""
			m.apply(t, fmt.Sprintf(routerConfig, "auto"))
			if e.tooOld != "" {
				m.forwardsAlone(t, e.tooOld)
				return
			}
			if why = m.refusal(t); why != "" {
				t.Logf("no native fast path: %s", why)
				mode = "generic"
				m.apply(t, fmt.Sprintf(routerConfig, "generic"))
				if why := m.refusal(t); why != "" {
					t.Fatalf("nor a generic one: %s", why)
				}
			}
			t.Logf("%.0f s: the %s fast path sends on both ports", time.Since(began).Seconds(), mode)
			m.ping(t, "203.0.113.7", mode)
			if !e.noIPv6 {
				m.ping(t, "2001:db8:9::7", mode)
			}
		})
	}
}

// machine is a router that has booted, between the hosts left and right.
type machine struct {
	*lab.Lab
	node *lab.Running
}

func start(t *testing.T, boot lab.Boot) machine {
	t.Helper()
	port := func(node, name string, addresses ...string) lab.Port {
		p := lab.Port{Node: node, Name: name}
		for _, a := range addresses {
			p.Addresses = append(p.Addresses, netip.MustParsePrefix(a))
		}
		return p
	}
	routes := func(v4, v6 string) []lab.Route {
		return []lab.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(v4)}, {To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr(v6)}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootTime+time.Minute)
	defer cancel()
	l, err := lab.Start(ctx, lab.Topology{
		Nodes: []lab.Node{
			{Name: "left", Routes: routes("10.1.0.1", "2001:db8:1::1")},
			{Name: "right", Routes: routes("10.2.0.1", "2001:db8:2::1"),
				Loopback: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("2001:db8:9::7/128")}},
			{Name: "router", Boot: boot},
		},
		Links: []lab.Link{
			{A: port("left", "eth0", "10.1.0.2/24", "2001:db8:1::2/64"), B: port("router", "left")},
			{A: port("right", "eth0", "10.2.0.2/24", "2001:db8:2::2/64"), B: port("router", "right")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := machine{l, l.Node("router")}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := m.node.Run(context.Background(), "sh", "-c", "tail -n 20 /run/daemon.log; dmesg | tail -n 20; free")
			t.Logf("%v\n%s", err, out)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// run runs a command in the machine.
func (m machine) run(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := m.node.Run(ctx, argv...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (m machine) startDaemon(t *testing.T) {
	t.Helper()
	p, err := m.node.Start("daemon", "sh", "-c", "exec minne daemon >/run/daemon.log 2>&1")
	if err != nil {
		t.Fatal(err)
	}
	m.until(t, "the daemon answers", func() error {
		if err := p.Failed(); err != nil {
			return lab.Hopeless{Err: err}
		}
		_, err := m.node.Run(t.Context(), "minne", "show", "interfaces", "--json")
		return err
	})
}

func (m machine) apply(t *testing.T, config string) {
	t.Helper()
	m.run(t, "sh", "-ec", "mkdir -p /etc/minne; cat >/run/new.yaml <<'end'\n"+config+"end\nminne apply /run/new.yaml")
}

func (m machine) observe(t *testing.T) (o fastpath.Observed) {
	t.Helper()
	if err := json.Unmarshal([]byte(m.run(t, "minne", "show", "fast-path", "--json")), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// refusal returns why the fast path does not send on all ports, "" when it does.
func (m machine) refusal(t *testing.T) (why string) {
	t.Helper()
	m.until(t, "the fast path has decided about its ports", func() error {
		why = ""
		o := m.observe(t)
		if !o.Ready || len(o.Ports) < 2 {
			return fmt.Errorf("ready %v, %d ports", o.Ready, len(o.Ports))
		}
		for _, p := range o.Ports {
			if !p.Transmits {
				why = fmt.Sprintf("%s: %s", p.Name, p.Why)
			}
		}
		if strings.Contains(why, "not attached yet") {
			return fmt.Errorf("%s", why)
		}
		return nil
	})
	return why
}

// ping pings through the machine and wants that the fast path carried it.
func (m machine) ping(t *testing.T, to, mode string) {
	t.Helper()
	m.until(t, "the fast path carries pings to "+to, func() error {
		before := m.observe(t)
		if _, err := m.Node("left").Run(t.Context(), "ping", "-q", "-c", "10", "-i", "0.1", "-W", "5", to); err != nil {
			return err
		}
		after := m.observe(t)
		var carried uint64
		for i, traffic := range after.Traffic {
			carried += traffic.TxPackets - before.Traffic[i].TxPackets
		}
		if carried < 18 { // there and back; a first packet may ask for a neighbour
			return fmt.Errorf("of 20 packets the fast path forwarded %d", carried)
		}
		t.Logf("ping %s: the %s fast path forwarded %d of 20 packets", to, mode, carried)
		return nil
	})
}

// forwardsAlone wants that the daemon says why there is no fast path, and that pings pass all the same.
func (m machine) forwardsAlone(t *testing.T, why string) {
	t.Helper()
	if log := m.run(t, "cat", "/run/daemon.log"); !strings.Contains(log, "no fast path, the kernel forwards everything") || !strings.Contains(log, why) {
		t.Errorf("the daemon does not say that the fast path is missing because %s:\n%s", why, log)
	}
	for _, to := range []string{"203.0.113.7", "2001:db8:9::7"} {
		m.until(t, "the kernel forwards pings to "+to, func() error {
			_, err := m.Node("left").Run(t.Context(), "ping", "-q", "-c", "10", "-i", "0.1", "-W", "5", to)
			return err
		})
		t.Logf("ping %s: forwarded by the kernel alone", to)
	}
	m.run(t, "minne", "show", "interfaces") // the daemon still runs
}

func (m machine) until(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := lab.Until(t.Context(), 3*time.Minute, what, ok); err != nil {
		t.Fatal(err)
	}
}
