// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/services/pppoe"
)

// TestPPPoEDialed has the router dial: a session with CHAP, kept by the same pppd while the daemon is killed and
// comes back, and dialed anew when the provider ends it; a wrong password is said.
func TestPPPoEDialed(t *testing.T) {
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
      echo '"line@isp" * "se cret#1" *' >/etc/ppp/chap-secrets
      printf 'require-chap\nlcp-echo-interval 0\nnodefaultroute\nms-dns 10.64.0.53\n' >/etc/ppp/pppoe-server-options
      printf '#!/bin/sh\nip route replace 10.1.0.0/24 dev $1\n' >/etc/ppp/ip-up
      chmod 755 /etc/ppp/ip-up
      pppoe-server -I line -L 10.64.0.1 -R 10.64.0.100 -N 9 # it keeps the place of a session that has ended for up to a minute
  right: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  router:
    runs: minne
    machine: uml
    secrets: |
      isp: "se cret#1"
      typo: wrong
    config: |
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        wan: {}
        isp: {pppoe: {parent: wan, user: line@isp, secret: isp}}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.p1]}
  - {ends: [router.wan, provider.line]}
  - {ends: [provider.core, right.eth0]}
`)
	session := func() (s pppoe.Session) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var o pppoe.Observed
		if err := b.router.JSON(ctx, &o, "show", "pppoe"); err == nil && len(o.Sessions) == 1 {
			s = o.Sessions[0]
		}
		return s
	}
	isUp := func() error {
		if s := session(); !s.Up || !strings.HasPrefix(s.Address, "10.64.0.10") || s.Peer != "10.64.0.1" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}
	b.until(t, "the session", isUp)
	b.talk(t, "left", "right", "10.2.0.2", fast)
	first := session()
	if mac := strings.TrimSpace(b.run(t, "provider", "cat", "/sys/class/net/line/address")); first.ID == 0 || !strings.EqualFold(first.Concentrator, mac) {
		t.Errorf("session %d with %s, expected %s", first.ID, first.Concentrator, mac)
	}
	if want := netip.MustParseAddr("10.64.0.53"); !slices.Equal(first.DNS, []netip.Addr{want}) {
		t.Errorf("DNS servers %v, expected %s", first.DNS, want)
	}
	if out := b.run(t, "router", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "cret") || !strings.Contains(out, "pppd file") {
		t.Errorf("commands: %s", out)
	}

	b.router.KillDaemon()
	b.run(t, "left", "ping", "-c", "3", "-i", "0.2", "-W", "5", "10.2.0.2")
	if err := b.router.StartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the daemon knows the session", isUp)
	if s := session(); s.Client.PID != first.Client.PID || !s.Since.Equal(first.Since) {
		t.Errorf("another session: %+v, before %+v", s, first)
	}

	// The provider ends the session.
	ended := time.Now()
	b.run(t, "provider", "sh", "-c", `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = pppd ]; then kill ${p#/proc/}; fi; done`)
	b.until(t, "another session", func() error {
		if s := session(); !s.Up || s.Since.Equal(first.Since) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	there := time.Since(ended)
	b.until(t, "a packet goes through", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := b.Node("left").Run(ctx, "ping", "-c", "1", "-W", "1", "10.2.0.2")
		return err
	})
	t.Logf("redialed: the session was there again %v after its end, and the first packet was answered %v after it", there, time.Since(ended))
	b.talk(t, "left", "right", "10.2.0.2", fast)

	b.apply(t, `
version: 1
interfaces:
  p1: {addresses: [10.1.0.1/24]}
  wan: {}
  isp: {pppoe: {parent: wan, user: line@isp, secret: typo}}
fast-path: {mode: generic}
`)
	b.until(t, "the wrong password is said", func() error {
		if s := session(); s.Up || !strings.Contains(s.Error, "authentication failed") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// apply gives the router another configuration.
func (b bed) apply(t *testing.T, text string) {
	t.Helper()
	path, err := b.router.Write(t.Context(), "next.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := b.router.Command(t.Context(), "apply", path); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestPPPoEWholePackets: with frames of 1508 bytes a session, here on a VLAN, carries packets of 1500 bytes (RFC 4638), and with
// ordinary ones 1492. Both ends are in the router's machine: the cables between machines carry no larger frames.
func TestPPPoEWholePackets(t *testing.T) {
	const config = `
version: 1
interfaces:
  p1: {addresses: [10.1.0.1/24]}
  line: {mtu: 1512}
  tagged: {mtu: %d, vlan: {parent: line, id: 7}}
  isp: {mtu: %d, pppoe: {parent: tagged, user: line@isp, secret: isp}}
fast-path: {mode: generic}
`
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  router:
    runs: minne
    machine: uml
    prepare: |
      mkdir -p /etc/ppp
      echo '"line@isp" * "anything" *' >/etc/ppp/chap-secrets
      printf 'require-chap\nlcp-echo-interval 0\nnodefaultroute\nmtu 1500\nmru 1500\n' >/etc/ppp/pppoe-server-options
      ip netns add provider
      ip link add line type veth peer name isp0
      ip link set isp0 netns provider
      ip -n provider link set isp0 mtu 1512 up
      ip -n provider link add link isp0 name isp7 mtu 1508 type vlan id 7
      ip -n provider link set isp7 up
      ip netns exec provider pppoe-server -k -I isp7 -L 10.64.0.1 -R 10.64.0.100 -N 2
    secrets: |
      isp: anything
    config: |`+strings.ReplaceAll(fmt.Sprintf(config, 1508, 1500), "\n", "\n      ")+`
links:
  - {ends: [left.eth0, router.p1]}
`)
	carries := func(mtu int) {
		t.Helper()
		ping := func(size int) (string, error) {
			return b.Node("router").Run(t.Context(), "ping", "-c", "1", "-W", "2", "-M", "do", "-s", fmt.Sprint(size-28), "10.64.0.1") // 28 bytes of IPv4 and ICMP
		}
		b.until(t, fmt.Sprintf("packets of %d bytes", mtu), func() error {
			if out, err := ping(mtu); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			if _, err := ping(mtu + 1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("mtu=%d", mtu)) {
				return fmt.Errorf("one byte more: %v", err)
			}
			return nil
		})
	}
	carries(1500)
	// The provider begins anew with ordinary frames: both ends agree on less than the configuration has.
	b.run(t, "router", "sh", "-ec", `ip -n provider link set isp7 mtu 1500; sed -i s/1500/1492/ /etc/ppp/pppoe-server-options
kill $(ip netns pids provider) 2>/dev/null || true
while [ "$(ip netns pids provider)" ]; do sleep 0.1; done
ip netns exec provider pppoe-server -k -I isp7 -L 10.64.0.1 -R 10.64.0.100 -N 2`)
	carries(1492)
	b.apply(t, fmt.Sprintf(config, 1500, 1492))
	carries(1492)
}
