// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/fastpath/label"
	"minne/internal/subsystem/flows"
)

// Hosts behind a router that masquerades: a connection that speaks BitTorrent is labelled, one that does not is not, and a
// commit that drops the label ends it, and it alone.
func TestLabelledTraffic(t *testing.T) {
	t.Parallel()
	const section = `labels:
  sets:
    bittorrent:
      patterns: ['/^\x13BitTorrent protocol/', '/^d1:ad2:id20:/']
      LIMIT
`
	with := func(limit string) string { return schoolConfig + strings.Replace(section, "LIMIT", limit, 1) }
	b := newBox(t)
	b.start()
	b.want(0, "No patterns", "show", "labels")
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1"})
	b.want(0, "applied", "apply", b.file("school.yaml", with("rate: 1Gbit")))
	wan.echo(":90")
	peer, web := lan.connect("198.51.100.9:90"), lan.connect("198.51.100.9:90")
	hello := "\x13BitTorrent protocol\x00\x00\x00\x00\x00\x10\x00\x05"
	for _, part := range []string{hello[:5], hello[5:9], hello[9:]} { // over three segments
		peer.says(part)
	}
	web.says("GET /BitTorrent HTTP/1.1\r\n")

	var a flows.Answer
	eventually(t, "the flow has its label", func() bool {
		b.json(&a, "show", "flows", "label", "bittorrent", "--json")
		return a.Matched > 0
	})
	if opener := peer.LocalAddr().String(); a.Matched != 1 || len(a.Flows) != 1 || a.Flows[0].Source.String() != opener || a.Flows[0].Label != "bittorrent" {
		t.Fatalf("labelled: %+v, expected what %s opened", a, opener)
	}
	b.want(0, "Label", "show", "flows")
	var o label.Observed
	b.json(&o, "show", "labels", "--json")
	if s := o.Sets[0]; s.Flows != 1 || s.Packets < 2 || s.Dropped != 0 || s.Patterns[0].Flows != 1 || s.Patterns[1].Flows != 0 || o.Searched < 4 {
		t.Errorf("show labels: %+v", o)
	}
	from, to := netip.MustParseAddrPort(peer.LocalAddr().String()), netip.MustParseAddrPort(peer.RemoteAddr().String())
	b.want(0, "has the label bittorrent", "explain", "--in", "lan", "--src", from.Addr().String(), "--sport", strconv.Itoa(int(from.Port())), "--dst", to.Addr().String(), "--dport", strconv.Itoa(int(to.Port())), "--proto", "tcp")

	b.want(0, "limit of flows labelled bittorrent: at most 1Gbit/s → dropped", "apply", b.file("school.yaml", with("drop: true")))
	web.says("another line\r\n")
	if err := peer.SetDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if n, err := peer.Read(make([]byte, 10)); err == nil {
		t.Errorf("%d bytes came back where all is dropped", n)
	}
	b.want(0, "label-limit", "show", "drops")
	b.want(0, "dropped", "show", "labels")
	b.want(0, "labels and their limits end", "apply", "--dry-run", b.file("plain.yaml", schoolConfig))
}

// says sends a text and waits until all of it has come back.
func (c connection) says(text string) {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(c, back); err != nil || string(back) != text {
		c.t.Fatalf("%q came back for %q: %v", back, text, err)
	}
}
