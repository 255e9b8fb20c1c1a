// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/flows"
)

// What operators look at, and what they let begin anew: a school's router with a host on each side,
// connections that are translated both ways, and a time server that does not answer.
func TestOperating(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: chronyd does not stay root
		t.Fatal(err)
	}
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	b.want(0, "NAT: off", "show", "nat")
	b.want(0, "NTP: off", "show", "ntp")
	b.want(0, "applied", "apply", b.file("school.yaml", schoolConfig+"services: {ntp: {servers: [198.51.100.9]}}\n"))
	lan.echo(":80")
	wan.echo(":90")
	out, in := lan.connect("198.51.100.9:90"), wan.connect("198.51.100.1:8080")
	out.wantEcho(true)
	in.wantEcho(true)

	t.Run("interface", func(t *testing.T) {
		var v show.InterfaceView
		b.json(&v, "show", "interfaces", "lan", "--json")
		if v.Name != "lan" || v.Driver != "veth" || v.Zone != "lan" || v.RX.Packets == 0 || len(v.Offloads) < 5 || v.ReceiveQueues == 0 ||
			v.FastPath == nil || v.FastPath.Mode != "native" || v.Queueing == "" || v.MAC == "" {
			t.Errorf("%+v", v)
		}
		said := b.want(0, "lan: up", "sh", "int", "lan").out
		for _, words := range []string{"zone        lan", "addresses   192.0.2.1/24", "tx-checksumming", "fast path   native", "received", "queues: "} {
			if !strings.Contains(said, words) {
				t.Errorf("no %q in\n%s", words, said)
			}
		}
		b.want(1, `no interface has the name "lna": did you mean lan? There are `, "show", "interfaces", "lna")
	})

	t.Run("neighbours", func(t *testing.T) {
		b.want(0, "192.0.2.10", "show", "arp")
		six := lan.connect("[2001:db8:2::9]:90")
		six.wantEcho(true)
		if said := b.want(0, "2001:db8:1::10", "show", "ipv6", "neighbors").out; strings.Contains(said, "192.0.2.10") {
			t.Errorf("IPv4 among\n%s", said)
		}
		if said := b.want(0, "192.0.2.10", "show", "ip", "neighbors").out; strings.Contains(said, "2001:db8:") {
			t.Errorf("IPv6 among\n%s", said)
		}
		b.want(2, "is no IPv4 address", "clear", "arp", "2001:db8:1::10")
		b.want(1, "no interface has the name", "clear", "arp", "attic")
		b.want(0, "1 neighbours cleared", "clear", "arp", "192.0.2.10")
		if said := b.minne("show", "arp").out; strings.Contains(said, "192.0.2.10 ") || !strings.Contains(said, "198.51.100.9") {
			t.Errorf("after clear arp 192.0.2.10:\n%s", said)
		}
		eventually(t, "no neighbour on wan after clear neighbors wan", func() bool { // one may ask in between, and is one again
			b.want(0, "cleared", "clear", "neighbors", "wan")
			return !strings.Contains(b.minne("show", "neighbors").out, "wan")
		})
		out.wantEcho(true) // they are asked for again
		b.want(0, "192.0.2.10", "show", "arp")
	})

	t.Run("nat", func(t *testing.T) {
		var v show.NATView
		b.json(&v, "show", "nat", "--json")
		if len(v.Rules) != 2 || v.Rules[0].Packets == 0 || v.Rules[1].Packets == 0 || v.Now.Source != 1 || v.Now.Destination != 1 ||
			len(v.Now.Outside) != 1 || v.Now.Outside[0].Address.String() != "198.51.100.1" || v.Now.Outside[0].Hosts != 1 ||
			len(v.Now.Forwarded) != 1 || v.Now.Forwarded[0].Called.String() != "198.51.100.1:8080" || v.Now.Forwarded[0].Target.String() != "192.0.2.10:80" {
			t.Errorf("%+v", v)
		}
		said := b.want(0, "198.51.100.1:8080", "show", "nat").out
		if !strings.Contains(said, "lan to wan, IPv4: masquerade") || !strings.Contains(said, "wan to the router's addresses tcp 8080: forward to 192.0.2.10 port 80") || !strings.Contains(said, "1 with source NAT, 1 with destination NAT") {
			t.Errorf("show nat:\n%s", said)
		}
	})

	t.Run("connections", func(t *testing.T) {
		b.want(2, "expected minne clear connections", "clear", "connections")
		b.want(2, "expected src, dst", "clear", "connections", "everything")
		b.want(0, "0 connections ended", "clear", "connections", "host", "203.0.113.1")
		b.want(0, "1 connections ended", "clear", "connections", "proto", "tcp", "port", "8080")
		var a flows.Answer
		b.json(&a, "show", "flows", "proto", "tcp", "--json")
		for _, f := range a.Flows {
			if f.Source.Address.String() == "198.51.100.9" {
				t.Errorf("still there: %+v", f)
			}
		}
		out.wantEcho(true) // others go on
		b.want(0, "connections ended", "clear", "connections", "all")
		if said := b.want(0, "", "show", "flows", "host", "192.0.2.10").out; !strings.Contains(said, "0 match") && !strings.HasPrefix(said, "0 conn") {
			t.Errorf("after clear connections all:\n%s", said)
		}
	})

	t.Run("counters", func(t *testing.T) {
		b.want(1, "no interface has the name", "clear", "counters", "attic")
		b.want(0, "reset to 0", "clear", "counters", "lan")
		var v show.InterfaceView
		b.json(&v, "show", "interfaces", "lan", "--json")
		before, err := b.links.LinkByName("lan")
		if err != nil {
			t.Fatal(err)
		}
		if real := before.Attrs().Statistics.RxPackets; v.RX.Packets >= real || v.Since.IsZero() {
			t.Errorf("%d packets received, %d by the kernel, since %s", v.RX.Packets, real, v.Since)
		}
		var other show.InterfaceView
		b.json(&other, "show", "interfaces", "wan", "--json")
		if other.RX.Packets == 0 || !other.Since.IsZero() {
			t.Errorf("wan was cleared, too: %+v", other)
		}
		b.want(0, "reset to 0", "clear", "counters")
		b.want(1, `no reason has the name "spoofd": did you mean spoofed?`, "show", "drops", "spoofd")
		if said := b.want(0, "spoofed", "show", "drops", "spoofed").out; strings.Contains(said, "Punted to the kernel") {
			t.Errorf("show drops spoofed:\n%s", said)
		}
		if said := b.want(0, "Counted since", "show", "drops").out; !strings.Contains(said, "Dropped by the fast path") {
			t.Errorf("show drops:\n%s", said)
		}
		again := lan.connect("198.51.100.9:90")
		again.wantEcho(true)
		var nat show.NATView
		b.json(&nat, "show", "nat", "--json")
		if nat.Rules[0].Packets != 1 || nat.Rules[1].Packets != 0 {
			t.Errorf("rules after clear counters and one connection: %+v", nat.Rules)
		}
	})

	t.Run("ntp", func(t *testing.T) {
		eventually(t, "chronyd tells of its server", func() bool {
			a := b.minne("show", "ntp")
			return a.code == 0 && strings.Contains(a.out, "not synchronised yet") && strings.Contains(a.out, "198.51.100.9") && strings.Contains(a.out, "unusable")
		})
	})

	t.Run("version", func(t *testing.T) {
		var v show.VersionView
		b.json(&v, "show", "version", "--json")
		if v.Daemon != v.Minne || v.Daemon == "" || !strings.HasPrefix(b.want(0, "", "show", "version").out, "Part") {
			t.Errorf("%+v", v)
		}
		onAPI, err := router.Version.Ask(t.Context(), api.NewClient(b.socket()), router.Nothing{})
		if err != nil || onAPI.Daemon != v.Daemon || onAPI.Kernel != v.Kernel || len(onAPI.Programs) != len(v.Programs) {
			t.Errorf("/v1/show/version: %+v, %v", onAPI, err)
		}
		drivers, err := router.Drivers.Ask(t.Context(), api.NewClient(b.socket()), router.Nothing{})
		if err != nil || !slices.ContainsFunc(drivers.Ports, func(p show.DriverPort) bool { return p.Port == "lan" }) || len(drivers.Drivers) == 0 {
			t.Errorf("/v1/show/fast-path/drivers: %+v, %v", drivers, err)
		}
		for _, p := range v.Programs {
			if p.Version == "" || p.Version == "unknown" || !strings.Contains("0123456789", p.Version[:1]) {
				t.Errorf("%+v", p)
			}
		}
	})

	t.Run("ping", func(t *testing.T) {
		b.want(0, "from 192.0.2.1", "ping", "--from", "lan", "192.0.2.10", "--", "-c", "1", "-W", "20")
		b.want(0, "from 2001:db8:2::1", "ping", "--from", "wan", "2001:db8:2::9", "--", "-c", "1", "-W", "20")
		b.want(0, "1 received", "ping", "198.51.100.9", "--", "-c", "1", "-W", "20")
		b.want(0, "192.0.2.10", "traceroute", "--from", "lan", "192.0.2.10", "--", "-n", "-m", "2")
		b.want(1, `no interface or zone has the name "attic"`, "ping", "--from", "attic", "192.0.2.10")
		b.want(2, "other address family", "ping", "-4", "2001:db8:2::9")
		b.want(2, "expected one destination", "ping")
	})

	t.Run("log", func(t *testing.T) { followLog(t, b) })
}

// followLog reads the log as it is written, until the daemon is told to stop.
func followLog(t *testing.T, b *box) {
	follow := b.command("show", "log", "--follow", "-n", "1")
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	follow.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = follow.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() {
		t.Fatal("no line that was there before")
	}
	b.want(0, "neighbours cleared", "clear", "arp")
	for found := false; !found; {
		if !lines.Scan() {
			t.Fatal("the log ended before what was done")
		}
		found = strings.Contains(lines.Text(), "neighbours cleared")
	}
	b.want(0, "", "stop")
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if err := follow.Wait(); err != nil || !strings.Contains(last, "stopping") {
		t.Errorf("the end of the log: %v, %q", err, last)
	}
	b.end(0)
}

// Who follows the log may go by Ctrl-C, which is no fault.
func TestFollowLogEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	follow := b.command("show", "log", "-f", "--json")
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(pipe); !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"line":"`) {
		t.Errorf("first line: %q", lines.Text())
	}
	if err := follow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// A program that is not there is no riddle: its package is named.
func TestProbersAreNamed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	c := b.command("mtr", "192.0.2.1")
	c.Env = append(c.Env, "PATH="+b.root)
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "mtr is not installed: apt install mtr-tiny") {
		t.Errorf("%v: %s", err, out)
	}
	for _, p := range probers[:2] {
		if _, err := exec.LookPath(p.name); err != nil {
			t.Errorf("these tests need %s: apt install %s", p.name, p.install)
		}
	}
}
