// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"minne/internal/subsystem/flows"
)

// Connections of two hosts through a router that masquerades and forwards a port.
func TestShowFlows(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "Connections: 0 of", "show", "flows", "summary")
	b.want(0, "0 connections", "show", "flows")
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	b.want(0, "applied", "apply", b.file("school.yaml", schoolConfig))
	lan.echo(":80")
	wan.echo(":90")
	out, six, in := lan.connect("198.51.100.9:90"), lan.connect("[2001:db8:2::9]:90"), wan.connect("198.51.100.1:8080")
	for _, c := range []connection{out, six, in} {
		c.wantEcho(true)
		c.wantEcho(true)
	}

	opener := out.LocalAddr().(*net.TCPAddr).AddrPort()
	var a flows.Answer
	b.json(&a, "show", "flows", "src", "192.0.2.0/24", "proto", "tcp", "--json")
	if a.Matched != 1 || len(a.Flows) != 1 {
		t.Fatalf("%+v", a)
	}
	f := a.Flows[0]
	if f.Source.String() != opener.String() || f.Destination.String() != "198.51.100.9:90" || f.State != "established" ||
		f.TranslatedSource == nil || f.TranslatedSource.Address.String() != "198.51.100.1" || f.TranslatedDestination != nil ||
		f.From != "lan" || f.To != "wan" || a.Uncounted != 0 {
		t.Errorf("%+v", f)
	}
	// SYN, ACK, two bytes with their acknowledgements at least; 40 bytes of headers in each.
	if f.Packets[0] < 4 || f.Bytes[0] < 4*40+2 || f.Packets[1] < 3 || f.Bytes[1] < 3*40+2 {
		t.Errorf("counted: %+v", f.Totals)
	}
	b.want(0, "destination 198.51.100.1:8080", "show", "flows", "dst", "192.0.2.10", "port", "8080")
	b.want(0, "[2001:db8:2::9]:90", "show", "flows", "host", "2001:db8:1::/64", "state", "established")
	b.want(0, "192.0.2.10", "show", "flows", "zone", "lan", "--by", "host", "--sort", "connections")
	b.want(0, "Rate", "show", "flows", "--by", "zone", "--sort", "rate")
	if said := b.want(0, "lan", "show", "flows", "summary").out; !strings.Contains(said, "source NAT 1, destination NAT 1") || !strings.Contains(said, "established 3") {
		t.Errorf("summary:\n%s", said)
	}
	b.want(1, `zone "attic": expected one of lan, wan, self`, "show", "flows", "zone", "attic")
	b.want(2, "expected src, dst", "show", "flows", "sauce", "192.0.2.1")
	b.want(2, "from 1 to 10000", "show", "flows", "--top", "0")
}

// json runs a command and reads what it prints.
func (b *box) json(value any, args ...string) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.want(0, "", args...).out), value); err != nil {
		b.t.Fatal(err)
	}
}
