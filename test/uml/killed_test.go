// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// paths are the ways through the router of TestKilledWithEveryKind: from a host to an address of the far end.
// Where WireGuard is a program on one emulated CPU, it now and then misses a packet while the daemon starts beside it.
var paths = []struct {
	over, from, to string
	mayLose        int
}{
	{"bond", "left", "10.2.0.2", 0},
	{"VLAN on a bond", "left", "10.3.0.2", 0},
	{"bridge", "left", "10.4.0.2", 0},
	{"VRF", "red-left", "10.7.0.2", 0},
	{"GRE tunnel", "left", "10.8.0.2", 0},
	{"WireGuard", "left", "10.9.0.2", 3},
	{"PPPoE", "left", "10.64.0.1", 0},
}

// TestKilledWithEveryKind kills the daemon of a router that has every kind of link, while pings go over each, and starts it again:
// none is lost, no link is made anew, and no session begins anew. (LACP is left out: ports of User-Mode Linux have no speed.)
func TestKilledWithEveryKind(t *testing.T) {
	own, far := newKeys(t), newKeys(t)
	b := build(t, fmt.Sprintf(`
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  red-left: {runs: host, ports: {eth0: [10.21.0.2/24]}, gateway: [10.21.0.1]}
  far:
    runs: kernel
    machine: uml
    ports: {c0: [], c1: [], line: [], sw: [10.4.0.2/24]}
    prepare: |
      set -e
      ip link add bond0 type bond mode balance-xor xmit_hash_policy layer3+4 miimon 50
      for port in c0 c1; do ip link set $port down; ip link set $port master bond0; done
      for id in 5 7; do ip link add link bond0 name bond0.$id type vlan id $id; done
      ip link add tunnel type gre local 10.2.0.2 remote 10.2.0.1
      wireguard-go wg0
      umask 77; echo %[1]s >/run/key; umask 22
      wg set wg0 private-key /run/key listen-port 51820 peer %[2]s allowed-ips 0.0.0.0/0
      # Answers take the way that the question took.
      way() {
        ip link set $2 up; ip address replace 10.$1.0.2/24 dev $2
        ip rule add from 10.$1.0.2 lookup 10$1; ip route add default via 10.$1.0.1 dev $2 table 10$1
      }
      way 2 bond0; way 3 bond0.5; way 4 sw; way 7 bond0.7; way 8 tunnel; way 9 wg0
      mkdir -p /etc/ppp
      echo '"line@isp" * "secret" *' >/etc/ppp/chap-secrets
      printf 'require-chap\nlcp-echo-interval 0\nnodefaultroute\n' >/etc/ppp/pppoe-server-options
      printf '#!/bin/sh\nip route replace 10.1.0.0/24 dev $1\n' >/etc/ppp/ip-up
      chmod 755 /etc/ppp/ip-up
      pppoe-server -I line -L 10.64.0.1 -R 10.64.0.100 -N 9
  router:
    runs: minne
    machine: uml
    secrets: |
      isp: secret
      own: %[3]s
    config: |
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        r1: {addresses: [10.21.0.1/24]}
        b0: {}
        b1: {}
        core: {bond: {ports: [b0, b1], mode: balance-xor, hash: layer3+4}, addresses: [10.2.0.1/24]}
        tagged: {vlan: {parent: core, id: 5}, addresses: [10.3.0.1/24]}
        customer: {vlan: {parent: core, id: 7}, addresses: [10.7.0.1/24]}
        red: {vrf: {table: 100, interfaces: [r1, customer]}}
        s0: {}
        house: {bridge: {ports: [s0]}, addresses: [10.4.0.1/24]}
        line: {}
        isp: {pppoe: {parent: line, user: line@isp, secret: isp, default-route: off}}
        wg: {wireguard: {private-key: own, peers: {far: {public-key: "%[4]s", allowed: [10.9.0.0/24], endpoint: "10.4.0.2:51820"}}}, addresses: [10.9.0.1/24]}
        gre: {tunnel: {type: gre, local: 10.2.0.1, remote: 10.2.0.2}, addresses: [10.8.0.1/24]}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.p1]}
  - {ends: [red-left.eth0, router.r1]}
  - {ends: [router.b0, far.c0]}
  - {ends: [router.b1, far.c1]}
  - {ends: [router.s0, far.sw]}
  - {ends: [router.line, far.line]}
`, far.private, own.public, own.private, far.public))
	t.Cleanup(func() {
		if t.Failed() {
			for _, node := range []string{"router", "far"} {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				out, err := b.Node(node).Run(ctx, "sh", "-c", "ip address; ip rule; ip route show table all; wg show")
				cancel()
				t.Logf("%s: %v\n%s", node, err, out)
			}
		}
	})
	for _, p := range paths {
		b.until(t, p.from+" reaches "+p.to+" over "+p.over, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			out, err := b.Node(p.from).Run(ctx, "ping", "-c", "2", "-i", "0.2", "-W", "2", p.to)
			if err == nil && strings.Contains(out, "1 received") {
				err = fmt.Errorf("%s", out)
			}
			return err
		})
	}
	before := b.held(t)

	stop, count := b.pings(t)
	b.until(t, "pings go over each", func() error { return count(2) })
	t.Logf("killed at %d", time.Now().Unix())
	b.router.KillDaemon()
	b.until(t, "pings go on without a daemon", func() error { return count(4) })
	t.Logf("started at %d", time.Now().Unix())
	if err := b.router.StartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the daemon has its fast path again", func() error {
		if o := b.observe(t); !o.Ready {
			return fmt.Errorf("not ready")
		}
		return nil
	})
	b.until(t, "pings go on with the daemon", func() error { return count(2) })
	stop()
	if log := b.router.Log(60); strings.Contains(log, "can't send") {
		t.Error("the daemon that came back took ports for ones that cannot send")
	}
	if after := b.held(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// received reads what ping says at its end.
var received = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)

// pings sends ten numbered pings after ten others over each path, until stop. count(n) is nil once n more such tens have come back over each
// since it last was; stop fails the test for every one that has not.
func (b bed) pings(t *testing.T) (stop func(), count func(n int) error) {
	t.Helper()
	var (
		mu        sync.Mutex
		wait      sync.WaitGroup
		tens      = make([]int, len(paths))
		from      = make([]int, len(paths))
		sent, got = make([]int, len(paths)), make([]int, len(paths))
		failures  []string
	)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for n, p := range paths {
		wait.Go(func() {
			for ctx.Err() == nil {
				// Not of ctx: tens that have begun come to an end.
				out, _ := b.Node(p.from).Run(t.Context(), "ping", "-D", "-c", "10", "-i", "0.1", "-W", "20", p.to)
				mu.Lock()
				tens[n]++
				var of [2]int
				if m := received.FindStringSubmatch(out); m == nil {
					failures = append(failures, p.over+": "+out)
					sent[n] += 10
				} else {
					fmt.Sscan(m[1], &of[0]) //nolint:errcheck // digits
					fmt.Sscan(m[2], &of[1]) //nolint:errcheck // digits
				}
				if of[0] != of[1] { // when it was, beside the daemon's log
					failures = append(failures, p.over+": "+out)
				}
				sent[n], got[n] = sent[n]+of[0], got[n]+of[1]
				mu.Unlock()
			}
		})
	}
	count = func(more int) error {
		mu.Lock()
		defer mu.Unlock()
		for n, p := range paths {
			if tens[n] < from[n]+more {
				return fmt.Errorf("%s: %d of %d", p.over, tens[n]-from[n], more)
			}
		}
		copy(from, tens)
		return nil
	}
	return func() {
		cancel()
		wait.Wait()
		for n, p := range paths {
			t.Logf("%s: %d of %d came back", p.over, got[n], sent[n])
			if sent[n] == 0 || sent[n]-got[n] > p.mayLose {
				t.Errorf("%s: %d of %d pings were lost", p.over, sent[n]-got[n], sent[n])
			}
		}
		for _, f := range failures {
			t.Log(f)
		}
	}, count
}

// held is what must not change while the daemon does: the links with their indexes, and who holds the sessions over them.
func (b bed) held(t *testing.T) string {
	t.Helper()
	return b.run(t, "router", "sh", "-c", `
ip -o link | cut -d: -f1,2 | cut -d@ -f1
cat /proc/[0-9]*/stat | grep -E '\((pppd|wireguard-go)\)' | awk '{print $2, $1, $22}' | sort
grep -E 'MII Status|Link Failure Count|Slave Interface' /proc/net/bonding/core
cat /proc/net/pppoe
cat /sys/class/net/s0/brport/state`)
}
