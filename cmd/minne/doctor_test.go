// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"strings"
	"testing"

	"minne/internal/base/diagnosis"
	"minne/internal/daemon/show"
)

// find returns an outcome by the names that lead to it.
func find(list []diagnosis.Outcome, path ...string) (found diagnosis.Outcome) {
	for _, name := range path {
		found = diagnosis.Outcome{}
		for _, o := range list {
			if o.Name == name {
				found = o
			}
		}
		list = found.Then
	}
	return found
}

// answersDNS runs a server in the namespace that answers every question, with nothing.
func (n *neighbour) answersDNS(at string) {
	n.t.Helper()
	var conn net.PacketConn
	if err := n.inside(func() (err error) {
		conn, err = net.ListenPacket("udp", at)
		return err
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			b[2] |= 0x80                        // an answer
			_, _ = conn.WriteTo(b[:size], from) // who asked may be gone
		}
	}()
}

// The doctor finds what is wrong with a line to the Internet, one thing after the other as it is put right, and does not
// speak of what follows from it.
func TestDoctor(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.want(0, "daemon: failed; the daemon is not running", "doctor")
	b.want(exitDegraded, "router: skipped; not checked: daemon failed", "doctor", "--check")
	isp := b.newNeighbour("wan")
	b.start()
	b.want(0, "configuration: failed; none is in force", "doctor")
	text := func(nat string) string {
		return b.file("home.yaml", `version: 1
interfaces:
  lan: {addresses: [192.168.7.1/24], zone: lan}
  wan: {addresses: [198.51.100.2/24, "2001:db8::2/64"], zone: wan}
routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.9]}]}
firewall: {policies: [{from: lan, to: wan, default: permit}]}
services: {dns: {interfaces: [lan], upstream: [203.0.113.53]}}
`+nat)
	}
	b.want(0, "applied", "apply", text(""))
	examine := func() (v show.DoctorView) {
		t.Helper()
		b.json(&v, "doctor", "--json")
		return v
	}
	want := func(result diagnosis.Result, words string, path ...string) {
		t.Helper()
		v := examine()
		if o := find(v.Checks, path...); o.Result != result || !strings.Contains(o.Text, words) {
			t.Errorf("%q: %+v, want %s with %q; all: %+v", path, o, result, words, v.Checks)
		}
	}
	gateway := []string{"wan", "address", "gateway"}
	below := func(name string) []string { return append(gateway[:len(gateway):len(gateway)], name) }

	// Nobody answers: one failure, and what depends on it is skipped.
	v := examine()
	if o := find(v.Checks, gateway...); o.Result != diagnosis.Failed || !strings.Contains(o.Text, "198.51.100.9 does not answer ARP") || o.Fix == "" {
		t.Errorf("gateway: %+v", o)
	}
	if o := find(v.Checks, below("DNS")...); v.Failed != 1 || o.Result != diagnosis.Skipped || o.Text != "not checked: gateway failed" {
		t.Errorf("%d failed; DNS: %+v", v.Failed, o)
	}
	b.want(exitDegraded, "failed: 1 of ", "doctor", "--check")

	// The gateway is there, the DNS server not; private addresses are not translated.
	isp.run("ip addr add 198.51.100.9/24 dev eth0 && ip addr add 203.0.113.53/32 dev lo")
	v = examine()
	if o := find(v.Checks, gateway...); o.Result != diagnosis.OK || !strings.Contains(o.Text, "198.51.100.9 answers (") {
		t.Errorf("gateway: %+v", o)
	}
	if o := find(v.Checks, below("DNS")...); o.Result != diagnosis.Failed {
		t.Errorf("DNS: %+v", o)
	}
	if o := find(v.Checks, below("default route")...); o.Result != diagnosis.OK || !strings.Contains(o.Text, "IPv4 by static") {
		t.Errorf("default route: %+v", o)
	}
	if o := find(v.Checks, below("NAT")...); o.Result != diagnosis.Failed || !strings.Contains(o.Fix, "from: lan, to: wan, masquerade: on") {
		t.Errorf("NAT: %+v", o)
	}

	// All is well, but larger packets vanish behind the gateway.
	isp.answersDNS("203.0.113.53:53")
	b.want(0, "applied", "apply", text("nat: [{from: lan, to: wan, masquerade: on}]\n"))
	eventually(t, "DNS answers", func() bool { return find(examine().Checks, below("DNS")...).Result == diagnosis.OK })
	isp.run("nft 'add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in ip length > 1460 drop'")
	v = examine()
	if o := find(v.Checks, below("path MTU")...); o.Result != diagnosis.Warning || !strings.Contains(o.Text, "1460 bytes pass to 203.0.113.53, larger packets vanish") {
		t.Errorf("path MTU: %+v", o)
	}
	if v.Failed != 0 || v.Warnings != 1 {
		t.Errorf("%d failed, %d warnings: %+v", v.Failed, v.Warnings, v.Checks)
	}
	isp.run("nft delete table ip t")
	want(diagnosis.OK, "1500 bytes to 203.0.113.53", below("path MTU")...)

	// A cable is pulled; a fault of the book of health stands in its place.
	b.inside("ip rule add priority 100 to 203.0.113.0/24 lookup main")
	isp.run("ip link set eth0 down")
	v = examine()
	if o := find(v.Checks, "wan"); o.Result != diagnosis.Failed || !strings.Contains(o.Text, "no carrier") {
		t.Errorf("wan: %+v", o)
	}
	if o := find(v.Checks, below("NAT")...); o.Result != diagnosis.Skipped || o.Text != "not checked: wan failed" {
		t.Errorf("NAT: %+v", o)
	}
	if o := find(v.Checks, "other faults", "policy routing"); o.Result != diagnosis.Failed {
		t.Errorf("policy routing: %+v", v.Checks)
	}
}
