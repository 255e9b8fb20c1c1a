// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/flows"
)

// Show flows has every packet of a connection once, whoever forwarded it, and
// every byte: those of IP packets, as conntrack counts.
func TestOneBook(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, to := range []struct {
		address string
		headers uint64 // of IP and UDP
	}{{ispV4, 28}, {ispV6, 48}} {
		address := net.JoinHostPort(to.address, "5001")
		server, client := n.isp.packets(address), n.client.dial("udp", address)
		var sent uint64
		payload := make([]byte, 100)
		talk := func() {
			_, err := client.Write(payload)
			must(t, err)
			must(t, server.SetReadDeadline(time.Now().Add(5*time.Second)))
			_, from, err := server.ReadFrom(payload)
			must(t, err)
			_, err = server.WriteTo(payload[:50], from)
			must(t, err)
			must(t, client.SetReadDeadline(time.Now().Add(5*time.Second)))
			_, err = client.Read(payload)
			must(t, err)
			sent++
		}
		for range 10 { // UDP is a connection that the fast path takes after two seconds
			talk()
			time.Sleep(250 * time.Millisecond)
		}
		for range 500 {
			talk()
		}
		var a flows.Answer
		out := n.must("show", "flows", "proto", "udp", "dst", to.address, "port", "5001", "--json")
		must(t, json.Unmarshal([]byte(out), &a))
		if len(a.Flows) != 1 {
			t.Fatalf("%s: %s", to.address, out)
		}
		f := a.Flows[0]
		if f.Packets != [2]uint64{sent, sent} || f.Bytes != [2]uint64{sent * (to.headers + 100), sent * (to.headers + 50)} {
			t.Errorf("%s: %d packets were sent and answered, the book has %v packets and %v bytes, %d packets of them by the fast path",
				to.address, sent, f.Packets, f.Bytes, f.FastPath)
		}
		if fastPathEvaluates && (f.Path != flows.PathFast || f.FastPath < 1000) {
			t.Errorf("%s: forwarded by %s, %d packets by the fast path", to.address, f.Path, f.FastPath)
		}
		if f.From != "lan" || f.To != "wan" || f.TranslatedSource == nil || f.State != "assured" {
			t.Errorf("%s: %+v", to.address, f)
		}
	}
}

// A connection's totals are what its ends have sent, to the packet, while it is
// forwarded by the fast path, over a commit, over an exchange of the program, and
// after its end.
func TestTotalsOutliveFlows(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, address := range []string{ispV4, ispV6} {
		l := ledger{n: n, address: address, sides: []*namespace{n.client, n.isp}}
		l.open()
		c := n.talk(n.isp, net.JoinHostPort(address, ledgerPort))
		talk := func() {
			for range 100 {
				must(t, saidAndHeard(c))
			}
		}
		talk()
		l.agrees("established", flows.PathFast, 190)
		n.apply(forbidding("deny tcp any any 7"))
		l.agrees("established", "", 190)
		talk()
		l.agrees("established", flows.PathFast, 380)
		n.apply(networkConfig + "fast-path: {flows: 5000}\n") // needs another program
		if o := n.observe(); fastPathEvaluates && (o.Firewall == nil || o.Firewall.Flows != 5000) {
			t.Errorf("the program was not exchanged: %+v", o.Firewall)
		}
		l.agrees("established", "", 380)
		talk()
		l.agrees("established", flows.PathFast, 570)
		n.apply(networkConfig)
		must(t, c.Close())
		l.agrees("time-wait", flows.PathKernel, 570)
	}
}

const ledgerPort = "5003"

// ledger counts what both ends of TCP connections to a port send.
type ledger struct {
	n       *network
	address string
	sides   []*namespace
}

func (l *ledger) open() {
	for i, side := range l.sides {
		side.run(fmt.Sprintf(`table inet minne_ledger
			delete table inet minne_ledger
			table inet minne_ledger {
				counter sent { }
				chain sent {
					type filter hook output priority 0
					tcp %s %s counter name sent
				}
			}
			`, []string{"dport", "sport"}[i], ledgerPort), "nft", "-f", "-")
	}
}

// sent is what the ends have sent by now.
func (l *ledger) sent() (t flows.Totals) {
	for i, side := range l.sides {
		out := side.run("", "nft", "list", "counter", "inet", "minne_ledger", "sent")
		at := max(strings.Index(out, "packets"), 0)
		if _, err := fmt.Sscanf(out[at:], "packets %d bytes %d", &t.Packets[i], &t.Bytes[i]); err != nil {
			l.n.t.Fatalf("%v: %s", err, out)
		}
	}
	return t
}

// agrees wants the book to say the same, when all is quiet: an acknowledgement may come late. path "" is any.
func (l *ledger) agrees(state, path string, fastPath uint64) {
	l.n.t.Helper()
	var f flows.Flow
	var sent flows.Totals
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var a flows.Answer
		out := l.n.must("show", "flows", "proto", "tcp", "dst", l.address, "port", ledgerPort, "--json")
		must(l.n.t, json.Unmarshal([]byte(out), &a))
		if sent = l.sent(); len(a.Flows) != 1 {
			l.n.t.Fatalf("%s: %s", l.address, out)
		}
		if f = a.Flows[0]; f.Packets == sent.Packets && f.Bytes == sent.Bytes && f.State == state {
			break
		}
	}
	if f.Packets != sent.Packets || f.Bytes != sent.Bytes || f.State != state {
		l.n.t.Errorf("%s: %s, the book has %v packets and %v bytes, %d packets by the fast path; %v packets and %v bytes were sent, expected it %s",
			l.address, f.State, f.Packets, f.Bytes, f.FastPath, sent.Packets, sent.Bytes, state)
	}
	if fastPathEvaluates && (path != "" && f.Path != path || f.FastPath < fastPath) {
		l.n.t.Errorf("%s: forwarded by %s, %d packets by the fast path; expected by %s and at least %d", l.address, f.Path, f.FastPath, path, fastPath)
	}
}
