// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"minne/internal/flows"
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
		if fastPathJudges && (f.Path != flows.PathFast || f.FastPath < 1000) {
			t.Errorf("%s: forwarded by %s, %d packets by the fast path", to.address, f.Path, f.FastPath)
		}
		if f.From != "lan" || f.To != "wan" || f.TranslatedSource == nil || f.State != "assured" {
			t.Errorf("%s: %+v", to.address, f)
		}
	}
}
