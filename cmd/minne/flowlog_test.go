// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/flows"
)

// logged waits until a question of the flow log has so many answers.
func (b *box) logged(n int, args ...string) (a show.FlowLogAnswer) {
	b.t.Helper()
	for until := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		b.json(&a, append([]string{"flows", "log", "--json"}, args...)...)
		if len(a.Records) >= n || time.Now().After(until) {
			break
		}
	}
	if len(a.Records) != n {
		b.t.Fatalf("%v: %d records, expected %d: %+v", args, len(a.Records), n, a)
	}
	return a
}

// Each connection's end is in the log, with the kernel's and the fast path's packets once, whatever happens to the daemon; and
// it is found by who had the public address and port.
func TestFlowLog(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	for port, h := range map[string]*host{"lan": lan, "wan": wan} { // the fast path sends to ends of a veth that have GRO
		err := h.inside(func() error { return exec.Command("ethtool", "-K", port+"-far", "gro", "on", "tx", "off").Run() })
		if err != nil {
			t.Fatal(err)
		}
	}
	b.want(0, "applied", "apply", b.file("none.yaml", schoolConfig))
	b.want(1, "the flow log is not running", "flows", "log")
	b.want(0, "~ flow log", "apply", "--dry-run", b.file("log.yaml", schoolConfig+"flow-log: {interval: 1h}\n"))
	b.want(0, "applied", "apply", b.file("log.yaml", schoolConfig+"flow-log: {interval: 1h}\n"))
	lan.echo(":80")
	wan.echo(":90")
	out, six, in := lan.connect("198.51.100.9:90"), lan.connect("[2001:db8:2::9]:90"), wan.connect("198.51.100.1:8080")
	in.wantEcho(true)
	b.carried(out, "src", "192.0.2.10", "proto", "tcp")
	opener := out.LocalAddr().(*net.TCPAddr)
	before := b.counted("src", "192.0.2.10", "proto", "tcp")
	b.want(0, "", "clear", "connections", "src", "192.0.2.10")

	a := b.logged(1, "--host", "192.0.2.10", "--port", "90")
	r := a.Records[0]
	if r.Packets != before.Packets || r.Bytes != before.Bytes {
		t.Errorf("logged %v packets %v bytes, shown before %v %v", r.Packets, r.Bytes, before.Packets, before.Bytes)
	}
	if r.Source.String() != opener.String() || r.Destination.String() != "198.51.100.9:90" || r.TranslatedSource == nil ||
		r.TranslatedSource.Address.String() != "198.51.100.1" || r.Reason != "deleted" || !r.Answered ||
		r.In != "lan" || r.Out != "wan" || r.FromZone != "lan" || r.ToZone != "wan" || r.Began == nil || r.Began.After(r.To) {
		t.Errorf("%+v", r)
	}
	public := r.TranslatedSource.String()
	middle := r.From.Add(r.To.Sub(r.From) / 2).Format(time.RFC3339Nano)
	b.logged(1, "--nat", public+"@"+middle)
	b.logged(0, "--nat", public+"@"+r.From.Add(-time.Hour).Format(time.RFC3339))
	b.logged(0, "--nat", "198.51.100.1:1@"+middle)
	b.want(0, opener.String(), "flows", "log", "--nat", public)
	b.want(2, "expected an address with a port", "flows", "log", "--nat", "here")
	b.want(2, "is not a time", "show", "flows", "log", "--from", "yesterday")

	// A daemon that is killed loses no record, and counts nothing twice of connections that last.
	b.end(syscall.SIGKILL)
	six.wantEcho(true)
	b.start()
	b.logged(1, "--port", "90")
	inside := b.counted("dst", "192.0.2.10", "proto", "tcp")
	b.want(0, "", "clear", "connections", "dst", "192.0.2.10")
	r = b.logged(1, "--nat", "198.51.100.1:8080").Records[0]
	if r.TranslatedDestination == nil || r.Destination.String() != "192.0.2.10:80" || r.Packets != inside.Packets {
		t.Errorf("%+v, shown before %+v", r, inside)
	}
	// A daemon that ends in good order writes what the fast path has counted of connections that last.
	b.carried(six, "src", "2001:db8:1::10", "proto", "tcp")
	b.end(syscall.SIGTERM)
	b.start()
	a = b.logged(1, "--host", "2001:db8:1::10")
	if a.Records[0].Reason != "lasts" {
		t.Errorf("%+v", a.Records[0])
	}
	six.wantEcho(true)
	whole := b.counted("src", "2001:db8:1::10", "proto", "tcp")
	b.want(0, "", "clear", "connections", "src", "2001:db8:1::10")
	var sum [2]uint64
	for _, r := range b.logged(2, "--host", "2001:db8:1::10").Records {
		for d := range 2 {
			sum[d] += r.Packets[d]
		}
	}
	if sum != whole.Packets {
		t.Errorf("%v packets in two records, shown before %v", sum, whole.Packets)
	}
	if !strings.Contains(b.want(0, "", "show", "flows", "log").out, "deleted") {
		t.Error("the table has no reason")
	}
	b.want(0, "applied", "apply", b.file("none.yaml", schoolConfig))
	b.want(1, "the flow log is not running", "flows", "log")
}

// carried speaks on a connection until the fast path has forwarded some of its packets.
func (b *box) carried(c connection, filter ...string) {
	b.t.Helper()
	for until := time.Now().Add(60 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		for range 5 {
			c.wantEcho(true)
		}
		if b.counted(filter...).FastPath > 0 {
			return
		}
	}
	b.t.Fatalf("%v: no packet took the fast path", filter)
}

// counted is the one connection that a filter chooses, when its last packets have been counted.
func (b *box) counted(filter ...string) flows.Flow {
	b.t.Helper()
	var last string
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var a flows.Answer
		b.json(&a, append(append([]string{"show", "flows"}, filter...), "--json")...)
		if len(a.Flows) != 1 {
			b.t.Fatalf("%v: %+v", filter, a)
		}
		if now := fmt.Sprint(a.Flows[0].Totals); now == last || time.Now().After(until) {
			return a.Flows[0]
		} else {
			last = now
		}
	}
}
