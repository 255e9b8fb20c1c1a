// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
	"minne/internal/subsystem/flows"
)

// TestWhatEndsInConntrackEndsHere: whatever makes the kernel forget connections, their flows go at once, without a packet
// of them.
func TestWhatEndsInConntrackEndsHere(t *testing.T) {
	u := newUplinks(t, translating("masquerade", "masquerade"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	ends := flows.NewEnds(u.fast, nil, slog.New(slog.DiscardHandler))
	go func() { defer close(done); _ = ends.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-ends.Ready()
	live := func() (n int) {
		for _, f := range u.flows() {
			if !f.Stale {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		name string
		do   func()
		undo func()
	}{
		{"conntrack -D", func() {
			conntrack(t, "-D", "-p", "tcp")
			conntrack(t, "-D", "-p", "udp")
			conntrack(t, "-D", "-p", "icmp")
			conntrack(t, "-D", "-p", "icmpv6")
		}, func() {}},
		{"conntrack -F", func() { conntrack(t, "-F") }, func() {}},
		{"an address that goes", func() {
			must(t, netlink.AddrDel(u.out, address(t, "198.51.100.1/24")))
			must(t, netlink.AddrDel(u.out, address(t, "2001:db8:b::1/64")))
		}, func() {
			addAddress(t, u.out, "198.51.100.1/24")
			addAddress(t, u.out, "2001:db8:b::1/64")
		}},
		{"the uplink goes down", func() { must(t, netlink.LinkSetDown(u.out)) }, func() {
			must(t, netlink.LinkSetUp(u.out))
			addAddress(t, u.out, "2001:db8:b::1/64") // which went with the link
		}},
	} {
		u.restored()
		if i == 0 {
			u.many()
		} else { // without UDP, which conntrack assures after two seconds
			u.open(parcel{from: "192.0.2.2:4400", to: "203.0.113.9:80", protocol: packet.ProtoTCP}).carried()
			u.open(parcel{from: "[2001:db8:a::2]:4401", to: "[2001:db8:f::9]:80", protocol: packet.ProtoTCP}).carried()
		}
		if n := live(); n == 0 {
			t.Fatalf("%s: no flows before", c.name)
		}
		start := time.Now()
		c.do()
		eventually(t, c.name+": all flows are gone", func() bool { return live() == 0 })
		t.Logf("%s: all flows gone after %v", c.name, time.Since(start))
		c.undo()
	}
}

func address(t testing.TB, text string) *netlink.Addr {
	t.Helper()
	a, err := netlink.ParseAddr(text)
	must(t, err)
	return a
}

// restored makes routes and neighbours what they were, and waits until the fast path knows.
func (u *uplinks) restored() {
	u.t.Helper()
	addNeighbour(u.t, u.out, "198.51.100.2", macB, netlink.NUD_PERMANENT)
	addNeighbour(u.t, u.out, "2001:db8:b::2", macB, netlink.NUD_PERMANENT)
	u.route("198.51.100.2", "2001:db8:b::2")
	u.awaitForwarding()
}
