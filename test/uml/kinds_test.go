// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/services/web"
	"minne/internal/testing/testns"
)

// Hosts red and blue have the same addresses twice, in a VRF and outside of it: who answers tells which table was asked.
func TestVRF(t *testing.T) {
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  redleft: {runs: host, ports: {eth0: [10.3.0.2/24]}, gateway: [10.3.0.1]}
  redright: {runs: host, ports: {eth0: [10.4.0.2/24]}, gateway: [10.4.0.1], prepare: ip address add 10.2.0.2/32 dev lo}
  router:
    runs: minne
    machine: uml
    prepare: |
      ip link add red type vrf table 10
      ip link set red up
      ip link set r1 master red
      ip link set r2 master red
      ip route add table 10 10.2.0.0/24 via 10.4.0.2 dev r2 onlink
    config: |
      version: 1
      interfaces:
        m1: {addresses: [10.1.0.1/24]}
        m2: {addresses: [10.2.0.1/24]}
        r1: {addresses: [10.3.0.1/24]}
        r2: {addresses: [10.4.0.1/24]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.m1]}
  - {ends: [right.eth0, router.m2]}
  - {ends: [redleft.eth0, router.r1]}
  - {ends: [redright.eth0, router.r2]}
`)
	b.forwards(t, "m1", "m2", "r1", "r2")
	b.talk(t, "left", "right", "10.2.0.2", fast)
	b.talk(t, "redleft", "redright", "10.2.0.2", kernel) // the rule for local addresses comes before that for VRFs
	b.run(t, "router", "sh", "-c", "for f in -4 -6; do ip $f rule add pref 32765 table local; ip $f rule del pref 0; done")
	b.talk(t, "redleft", "redright", "10.2.0.2", fast)
}

// A bond is a port like any other to the fast path, also when its cable changes.
//
// Its members have no IPv6 of their own. With it, Linux reports multicast groups on every member when forwarding
// is switched on (MLDv2, at a random time within a second), from the bond's MAC: after a report through the
// backup the switch sends there what is for the router, and the bond drops it until the active member sends.
func TestBond(t *testing.T) {
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  switch: {runs: bridge}
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  router:
    runs: minne
    machine: uml
    prepare: |
      ip link add bond0 type bond mode active-backup miimon 50
      for port in b1 b2; do echo 1 >/proc/sys/net/ipv6/conf/$port/disable_ipv6; done
      for port in b1 b2; do ip link set $port down; ip link set $port master bond0; done
    config: |
      version: 1
      interfaces:
        bond0: {addresses: [10.1.0.1/24]}
        b2: {} # not b1, which the router would set up again
        p1: {addresses: [10.2.0.1/24]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, switch.left]}
  - {ends: [switch.one, router.b1]}
  - {ends: [switch.two, router.b2]}
  - {ends: [right.eth0, router.p1]}
`)
	b.forwards(t, "bond0", "p1")
	b.leaves(t, "it belongs to bond bond0", "b2")
	b.talk(t, "left", "right", "10.2.0.2", fast)
	active := b.run(t, "router", "cat", "/sys/class/net/bond0/bonding/active_slave")
	b.run(t, "router", "ip", "link", "set", strings.TrimSpace(active), "down")
	b.talk(t, "left", "right", "10.2.0.2", fast)
	if now := b.run(t, "router", "cat", "/sys/class/net/bond0/bonding/active_slave"); now == active {
		t.Errorf("the bond still uses %s", now)
	}
}

// The router's own port on a bridge is a port to the fast path; its members are the bridge's.
func TestBridge(t *testing.T) {
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  beside: {runs: host, ports: {eth0: [10.1.0.3/24]}, gateway: [10.1.0.1]}
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  router:
    runs: minne
    machine: uml
    prepare: |
      ip link add lan type bridge
      ip link set s1 master lan
      ip link set s2 master lan
    config: |
      version: 1
      interfaces:
        lan: {addresses: [10.1.0.1/24]}
        s1: {}
        s2: {}
        p1: {addresses: [10.2.0.1/24]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.s1]}
  - {ends: [beside.eth0, router.s2]}
  - {ends: [right.eth0, router.p1]}
`)
	b.forwards(t, "s1", "s2", "p1") // the bridge itself is no port
	b.talk(t, "left", "right", "10.2.0.2", fast)
	b.talk(t, "beside", "right", "10.2.0.2", fast)
	b.run(t, "left", "ping", "-c", "2", "-i", "0.2", "-W", "5", "10.1.0.3") // switched, not routed

	// A person looks into the machine as into every node.
	out, err := exec.Command(built, "lab", "exec", b.Run+"/router", "sh", "-c", "uname -n; minne show interfaces; exit 7").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.HasPrefix(string(out), "router\n") || !strings.Contains(string(out), "10.1.0.1/24") {
		t.Errorf("minne lab exec: %v\n%s", err, out)
	}
}

// WireGuard's interface has no Ethernet: the kernel carries what goes through it. Debian's User-Mode Linux has no WireGuard
// of its own, so both ends run the program wireguard-go.
func TestWireGuard(t *testing.T) {
	router, far := newKeys(t), newKeys(t)
	b := build(t, fmt.Sprintf(`
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  far:
    runs: host
    ports: {eth0: [192.0.2.2/24], lo: [10.9.0.2/32]}
  router:
    runs: minne
    machine: uml
    prepare: |
      wireguard-go wg0
      umask 77; echo %s >/run/key
      wg set wg0 private-key /run/key listen-port 51820 peer %s endpoint 192.0.2.2:51820 allowed-ips 10.9.0.0/24
    config: |
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        p2: {addresses: [192.0.2.1/24]}
        wg0: {addresses: [10.8.0.1/24], mtu: 1420}
      routing:
        static:
          - {prefix: 10.9.0.0/24, via: [wg0]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.p1]}
  - {ends: [far.eth0, router.p2]}
`, router.private, far.public))
	far.speakIn(t, b, "far", router.public)
	b.forwards(t, "p1", "p2")
	b.leaves(t, "no Ethernet", "wg0")
	b.talk(t, "left", "far", "10.9.0.2", kernel)
}

// keys are one end's of WireGuard.
type keys struct{ private, public string }

func newKeys(t *testing.T) (k keys) {
	t.Helper()
	private, err := exec.Command("wg", "genkey").Output()
	if err != nil {
		t.Fatalf("wg genkey: %v (package wireguard-tools)", err)
	}
	public := exec.Command("wg", "pubkey")
	public.Stdin = strings.NewReader(string(private))
	out, err := public.Output()
	if err != nil {
		t.Fatal(err)
	}
	return keys{strings.TrimSpace(string(private)), strings.TrimSpace(string(out))}
}

// speakIn makes a node of this host's kernel the far end. The names of wireguard-go's devices are the host's.
func (k keys) speakIn(t *testing.T, b bed, node, peer string) {
	t.Helper()
	device := "wg" + strings.ReplaceAll(b.Run, "-", "x")
	if _, err := b.Node(node).Start("wireguard", "env", "LOG_LEVEL=error", "wireguard-go", "-f", device); err != nil {
		t.Fatal(err)
	}
	b.until(t, "wireguard-go has its device", func() error { return testns.WireGuardListens(device) })
	b.run(t, node, "sh", "-ec", fmt.Sprintf(`f=$(mktemp); echo '%s' >$f
wg set %[2]s private-key $f listen-port 51820 peer '%[3]s' endpoint 192.0.2.1:51820 allowed-ips 0.0.0.0/0
rm $f; ip link set %[2]s mtu 1420 up; ip route add 10.1.0.0/24 dev %[2]s; ip route add 10.8.0.0/24 dev %[2]s`, k.private, device, peer))
}

// PPPoE has no Ethernet either. The access concentrator is a second User-Mode Linux, because this host's kernel may have no PPP.
func TestPPPoE(t *testing.T) {
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  provider:
    runs: kernel
    machine: uml
    ports: {line: [], core: [10.2.0.1/24]}
    prepare: |
      mkdir -p /etc/ppp
      printf 'noauth\nlcp-echo-interval 0\nnodefaultroute\n' >/etc/ppp/pppoe-server-options
      printf '#!/bin/sh\nip route replace 10.1.0.0/24 dev $1\n' >/etc/ppp/ip-up
      chmod 755 /etc/ppp/ip-up
      pppoe-server -I line -L 10.64.0.1 -R 10.64.0.100 -N 1
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  router:
    runs: minne
    machine: uml
    prepare: |
      ip link set wan up
      pppd plugin pppoe.so nic-wan noauth user minne password minne noipdefault nodefaultroute \
        ifname isp updetach maxfail 5 linkname isp </dev/null
    config: |
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        wan: {}
        isp: {addresses: [10.64.0.100/32], mtu: 1492}
      routing:
        static:
          - {prefix: 10.2.0.0/24, via: [isp]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.p1]}
  - {ends: [router.wan, provider.line]}
  - {ends: [provider.core, right.eth0]}
`)
	b.forwards(t, "p1", "wan")
	b.leaves(t, "no Ethernet", "isp")
	b.talk(t, "left", "right", "10.2.0.2", kernel)
}

// A management VRF from the configuration: SSH and the API answer in it and nowhere else, and nothing passes into it or out of it.
func TestManagementVRF(t *testing.T) {
	token, kept := web.NewToken()
	b := build(t, fmt.Sprintf(`
version: 1
nodes:
  admin: {runs: host, ports: {eth0: [10.9.0.2/24]}, gateway: [10.9.0.1]}
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  router:
    runs: minne
    machine: uml
    prepare: |
      echo 'admin:x:0:0:admin:/root:/bin/sh' >>/etc/passwd
      grep -q '^sshd:' /etc/passwd || echo 'sshd:x:108:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
    secrets: |
      web-token-watch: "%s"
    config: |
      version: 1
      system:
        admin: {ssh-keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop]}
      interfaces:
        mgmt: {vrf: {table: 100, interfaces: [m1]}}
        m1: {addresses: [10.9.0.1/24]}
        p1: {addresses: [10.1.0.1/24]}
        p2: {addresses: [10.2.0.1/24]}
      services:
        ssh: {interfaces: [m1]}
        web: {interfaces: [m1], tokens: {watch: {role: read, secret: web-token-watch}}}
      fast-path: {mode: generic}
links:
  - {ends: [admin.eth0, router.m1]}
  - {ends: [left.eth0, router.p1]}
  - {ends: [right.eth0, router.p2]}
`, kept))
	status := func(node, address string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return b.Node(node).Run(ctx, "curl", "-skS", "--max-time", "10", "-H", "Authorization: Bearer "+token, "https://"+address+"/v1/status")
	}
	banner := func(node, address string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return b.Node(node).Run(ctx, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+address+"/22; head -c 7 <&3")
	}
	b.until(t, "SSH answers in the VRF", func() error {
		out, err := banner("admin", "10.9.0.1")
		if err == nil && out != "SSH-2.0" {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	b.until(t, "the API answers in the VRF", func() error {
		out, err := status("admin", "10.9.0.1")
		if err == nil && !strings.Contains(out, `"version"`) {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	b.talk(t, "left", "right", "10.2.0.2", fast)
	for _, closed := range []struct{ from, to string }{{"left", "10.1.0.1"}, {"left", "10.9.0.1"}} {
		if out, err := status(closed.from, closed.to); err == nil {
			t.Errorf("%s finds the API at %s: %q", closed.from, closed.to, out)
		}
		if out, err := banner(closed.from, closed.to); err == nil {
			t.Errorf("%s finds something at port 22 of %s: %q", closed.from, closed.to, out)
		}
	}
	for from, to := range map[string]string{"admin": "10.1.0.2", "right": "10.9.0.2"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if out, err := b.Node(from).Run(ctx, "ping", "-c", "1", "-W", "1", to); err == nil {
			t.Errorf("%s reaches %s across the VRF: %s", from, to, out)
		}
		cancel()
	}
}
