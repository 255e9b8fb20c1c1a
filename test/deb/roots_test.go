// SPDX-License-Identifier: Apache-2.0

//go:build debian_roots

package deb

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// router is a router between two neighbours with a filter, state and a routing protocol.
const router = `version: 1
system: {hostname: debian, router-id: 192.0.2.1}
interfaces:
  lan: {match: {name: eth0}, addresses: [192.0.2.1/24], zone: lan}
  wan: {match: {name: eth1}, addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {name: all, from: lan, to: wan, default: permit, stateless: true}
routing:
  ospf: {areas: {0: {interfaces: {lan: {passive: true}}}}}
`

func TestBuiltTwice(t *testing.T) {
	if first, second := build(t, "1.2"), build(t, "1.2"); !bytes.Equal(read(t, first), read(t, second)) {
		t.Errorf("two builds of one commit differ:\n%s%s", run(t, "sha256sum", first), run(t, "sha256sum", second))
	}
}

// TestLife is a package's whole life: first installation, use, upgrade, removal, purge.
func TestLife(t *testing.T) {
	first, second := build(t, "1.0"), build(t, "1.1")
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) { life(t, suite, first, second) })
	}
}

func life(t *testing.T, suite, first, second string) {
	m, client, server := between(t, suite)
	rules, files := m.sh("nft list ruleset"), m.files()

	// Where FRR routes by itself, Minne leaves it alone.
	m.sh("sed -i s/^ospfd=no/ospfd=yes/ /etc/frr/daemons; systemctl restart frr")
	m.install(first)
	if got := m.sh("systemctl is-active minne frr || :; systemctl is-enabled minne || :"); got != "inactive\nactive\ndisabled" {
		t.Errorf("beside FRR that routes, minne and frr are %q", got)
	}
	m.sh("dpkg --purge minne; sed -i s/^ospfd=yes/ospfd=no/ /etc/frr/daemons; systemctl restart frr")

	m.install(first)
	m.sh("systemctl is-active minne; systemctl is-enabled minne; systemd-analyze verify --man=no minne.service")
	if got := m.sh("nft list ruleset; sysctl -n net.ipv4.ip_forward"); got != strings.TrimSpace(rules+"\n0") {
		t.Errorf("without a configuration the installation changed the machine:\n%s", got)
	}
	m.route(client, server)

	before := m.sh("systemctl show -P MainPID minne; cat /run/frr/minne/zebra.pid")
	lost, sent := underTraffic(t, client, server, func() { m.install(second) })
	t.Logf("%s: %d of %d packets lost during the upgrade, %d by the fast path so far", suite, lost, sent, fastPackets(m))
	if lost != 0 || sent == 0 {
		t.Errorf("the upgrade lost %d of %d packets", lost, sent)
	}
	after := m.sh("systemctl show -P MainPID minne; cat /run/frr/minne/zebra.pid")
	if daemon, frr := strings.Fields(before), strings.Fields(after); daemon[0] == frr[0] || daemon[1] != frr[1] {
		t.Errorf("pids of daemon and zebra: %q before the upgrade, %q after", before, after)
	}
	if got := m.sh("minne status"); !strings.Contains(got, "version 1.1,") {
		t.Errorf("after the upgrade: %s", got)
	}

	// FRR's own service would fight with our zebra: it stays down.
	m.sh("systemctl restart frr")
	if got := m.sh("systemctl is-active frr || :"); got != "inactive" {
		t.Errorf("frr.service is %s beside Minne", got)
	}
	if exchange(t, client, server, 20) != 20 {
		t.Error("packets are lost after a restart of frr.service")
	}

	// A daemon that the operator stopped stays so through an upgrade.
	m.sh("systemctl stop minne")
	m.install(second)
	if got := m.sh("systemctl is-active minne || :"); got != "inactive" {
		t.Errorf("a stopped daemon is %s after an upgrade", got)
	}
	m.sh("systemctl start minne")

	m.sh("dpkg --remove minne")
	if got := m.sh("ls -d /sys/fs/bpf/minne 2>/dev/null || :; sysctl -n net.ipv4.ip_forward; pgrep -fa '^/usr/lib/frr/.* -N minne' || :; test -e /etc/minne/minne.yaml"); got != "0" {
		t.Errorf("after the removal there are left:\n%s", got)
	}
	m.sh("dpkg --purge minne")
	if got := m.sh("nft list ruleset; getent group minne || :; ls -d /run/minne 2>/dev/null || :"); got != rules {
		t.Errorf("after the purge there are left:\n%s", got)
	}
	if got := m.files(); got != files {
		t.Errorf("files before and after: %s", difference(files, got))
	}
	if got := m.sh("dpkg -l minne 2>&1 | grep '^[a-z][a-z] *minne' || :"); got != "" {
		t.Errorf("dpkg remembers: %s", got)
	}
}

// TestHungDaemon has systemd find out that the daemon hangs, end it and start another, while packets pass.
func TestHungDaemon(t *testing.T) {
	m, client, server := between(t, "bookworm")
	m.install(build(t, "1.0"))
	m.route(client, server)
	hung := m.sh("systemctl show -P MainPID minne")
	begin := time.Now()
	lost, sent := underTraffic(t, client, server, func() {
		m.sh("kill -STOP " + hung)
		m.await("another daemon", func() bool {
			now := m.sh("systemctl show -P MainPID minne")
			return now != hung && now != "0" && m.command("systemctl is-active minne").Run() == nil
		})
		t.Logf("another daemon after %s", time.Since(begin).Round(time.Second))
	})
	t.Logf("%d of %d packets lost, %d by the fast path so far", lost, sent, fastPackets(m))
	if lost != 0 || sent == 0 {
		t.Errorf("a daemon that hung lost %d of %d packets", lost, sent)
	}
	if got := m.sh("systemctl show -P NRestarts minne; journalctl -u minne --no-pager -o cat"); !strings.HasPrefix(got, "1\n") || !strings.Contains(got, "Watchdog timeout") {
		t.Errorf("systemd did not restart it once for its watchdog: %s", got)
	}
	if got := m.sh("minne status --json"); strings.Contains(got, "degraded") {
		t.Errorf("after it, something is missing: %s", got)
	}
	if got := m.sh("nft insert rule inet minne_policy forward accept 2>&1 || :"); !strings.Contains(got, "not permitted") {
		t.Errorf("after it, anybody may change the rules: %q", got)
	}
	before := fastPackets(m)
	if exchange(t, client, server, 20) != 20 || fastPackets(m) == before {
		t.Error("after it, packets are lost, or the fast path forwards nothing")
	}
}

// between boots a machine that stands between two neighbours.
func between(t *testing.T, suite string) (m *machine, client, server *neighbour) {
	t.Helper()
	m = start(t, suite)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.command("systemctl status --no-pager -n 0 minne; journalctl -u minne --no-pager | tail -n 20; minne fast-path status; nft list ruleset; ip neigh").CombinedOutput()
			t.Logf("the machine says:\n%s", out)
		}
	})
	return m, m.link("eth0", "192.0.2.2/24", "192.0.2.1"), m.link("eth1", "198.51.100.2/24", "198.51.100.1")
}

// route has the machine be a router, and waits until packets pass, by the fast path.
func (m *machine) route(client, server *neighbour) {
	m.t.Helper()
	m.put("/etc/minne/minne.yaml", []byte(router))
	m.t.Log(m.sh("minne apply"))
	if got := m.sh("minne status --json"); strings.Contains(got, "degraded") {
		m.t.Errorf("something is missing: %s", got)
	}
	m.await("packets pass", func() bool { return exchange(m.t, client, server, 1) == 1 })
	m.await("the fast path", func() bool {
		before := fastPackets(m)
		return exchange(m.t, client, server, 20) == 20 && fastPackets(m) > before
	})
}

// difference names the lines that only one of two texts has.
func difference(a, b string) string {
	var out strings.Builder
	for _, one := range []struct{ sign, has, lacks string }{{"-", a, b}, {"+", b, a}} {
		for line := range strings.Lines(one.has) {
			if line = strings.TrimSpace(line); !strings.Contains("\n"+one.lacks+"\n", "\n"+line+"\n") {
				fmt.Fprintf(&out, "\n%s %s", one.sign, line)
			}
		}
	}
	return out.String()
}

// fastPackets is how many packets the fast path has forwarded.
func fastPackets(m *machine) uint64 {
	m.t.Helper()
	var status struct {
		Traffic []struct {
			Packets uint64 `json:"rx_packets"`
		} `json:"traffic"`
	}
	text := m.sh("minne fast-path status --json")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		m.t.Fatalf("%v\n%s", err, text)
	}
	sum := uint64(0)
	for _, port := range status.Traffic {
		sum += port.Packets
	}
	return sum
}

// path is a pair of sockets, one on each side of the router.
type path struct {
	from *net.UDPConn
	to   *net.UDPConn
}

func open(t *testing.T, client, server *neighbour) path {
	t.Helper()
	var p path
	server.within(func() (err error) {
		p.to, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(198, 51, 100, 2), Port: 9})
		return err
	})
	client.within(func() (err error) {
		p.from, err = net.DialUDP("udp4", nil, p.to.LocalAddr().(*net.UDPAddr))
		return err
	})
	return p
}

func (p path) close() {
	p.from.Close()
	p.to.Close()
}

func (p path) send(number uint32) error {
	_, err := p.from.Write(binary.BigEndian.AppendUint32(nil, number))
	return err
}

// drain counts different packets until none has come for a while.
func (p path) drain(quiet func() time.Duration) int {
	seen := make(map[uint32]bool)
	buffer := make([]byte, 64)
	for {
		_ = p.to.SetReadDeadline(time.Now().Add(quiet()))
		n, err := p.to.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) || n < 4 {
			return len(seen)
		}
		seen[binary.BigEndian.Uint32(buffer)] = true
	}
}

// exchange sends packets through the router and returns how many arrive.
func exchange(t *testing.T, client, server *neighbour, count int) int {
	t.Helper()
	p := open(t, client, server)
	defer p.close()
	for i := range count {
		if err := p.send(uint32(i)); err != nil {
			return 0
		}
	}
	return p.drain(func() time.Duration { return 300 * time.Millisecond })
}

// underTraffic sends a thousand packets a second through the router while work goes on,
// and for a second before and after it, and returns how many did not arrive.
func underTraffic(t *testing.T, client, server *neighbour, work func()) (lost, sent int) {
	t.Helper()
	p := open(t, client, server)
	defer p.close()
	var stopping atomic.Bool
	count := make(chan int)
	go func() {
		number := 0
		for end := time.Now().Add(5 * time.Minute); !stopping.Load() && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if p.send(uint32(number)) == nil {
				number++
			}
		}
		count <- number
	}()
	arrived := make(chan int)
	var ended atomic.Bool
	go func() {
		arrived <- p.drain(func() time.Duration {
			if ended.Load() {
				return 2 * time.Second
			}
			return 5 * time.Minute
		})
	}()
	time.Sleep(time.Second)
	work()
	time.Sleep(time.Second)
	ended.Store(true) // while packets still come, so that the last wait is a short one
	time.Sleep(100 * time.Millisecond)
	stopping.Store(true)
	sent = <-count
	return sent - <-arrived, sent
}
