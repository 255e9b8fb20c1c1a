// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listener hears the router advertisements of a network.
type listener struct {
	t      *testing.T
	socket *net.IPConn
}

// listens opens a socket for ICMP in the namespace.
func (n *neighbour) listens() *listener {
	n.t.Helper()
	l := &listener{t: n.t}
	if err := n.inside(func() (err error) {
		l.socket, err = net.ListenIP("ip4:icmp", nil)
		return err
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.socket.Close() })
	return l
}

// asks sends a router solicitation to all routers.
func (l *listener) asks() {
	l.t.Helper()
	if _, err := l.socket.WriteToIP([]byte{10, 0, 0xf5, 0xff, 0, 0, 0, 0}, &net.IPAddr{IP: net.IPv4(224, 0, 0, 2)}); err != nil {
		l.t.Fatal(err)
	}
}

// hears waits for the next advertisement, "" when there is none within a time.
func (l *listener) hears(within time.Duration) string {
	l.t.Helper()
	if err := l.socket.SetReadDeadline(time.Now().Add(within)); err != nil {
		l.t.Fatal(err)
	}
	b := make([]byte, 1500)
	for {
		n, from, err := l.socket.ReadFromIP(b)
		if err != nil {
			return ""
		}
		if b[0] == 9 {
			return from.String() + " " + hex.EncodeToString(b[:n])
		}
	}
}

// Hosts that ask for a router hear its address, preference and lifetime, through a firewall that lets nothing else in or out, with
// the fast path; without asking they hear it now and then, and when it is switched off that it is no router any more. Other
// interfaces hear nothing.
func TestRouterDiscovery(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	hosts, isp := b.newNeighbour("lan"), b.newNeighbour("wan")
	hosts.run("ip addr add 192.0.2.9/24 dev eth0 && ip route add default dev eth0")
	isp.run("ip addr add 198.51.100.9/24 dev eth0 && ip route add default dev eth0")
	lan, wan := hosts.listens(), isp.listens()
	text := func(services string) string {
		return b.file("irdp.yaml", `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, 203.0.113.1/24], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {from: self, to: any, default: deny}
fast-path: {mode: generic}
`+services)
	}
	b.start()
	rare := text("services: {irdp: {lan: {preference: 5, interval: 30m}}}\n")
	b.want(0, "router discovery on lan", "apply", "--dry-run", rare)
	b.want(0, "applied", "apply", rare)
	b.want(0, "nothing to change", "apply", rare)
	b.want(0, "IRDP on lan: preference 5, lifetime 90m", "show", "services")
	// By itself it advertises three times in the first 22 minutes; it does more often when it is asked.
	const head, addresses = "192.0.2.1 0900", "c000020100000005cb00710100000005"
	heard := func(lifetime string, ask func()) bool {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			ask()
			text, ours := strings.CutPrefix(lan.hears(time.Second), head)
			if ours && text[4:] == "0202"+lifetime+addresses { // behind the checksum
				return true
			}
		}
		return false
	}
	for n := range 4 {
		if !heard("1518", func() { lan.asks(); wan.asks() }) {
			t.Fatalf("no advertisement after %d", n)
		}
	}
	silent := func() {}
	b.want(0, "applied", "apply", text("services: {irdp: {lan: {preference: 5, interval: 4s}}}\n"))
	for range 2 {
		if !heard("000c", silent) {
			t.Fatal("no advertisement without asking")
		}
	}
	b.end(syscall.SIGKILL)
	b.start()
	if !heard("000c", silent) {
		t.Error("no advertisement by the next daemon")
	}
	b.want(0, "applied", "apply", text(""))
	if !heard("0000", silent) {
		t.Error("hosts were not told that it is no router any more")
	}
	if text := wan.hears(time.Millisecond); text != "" {
		t.Errorf("the WAN heard %s", text)
	}
}
