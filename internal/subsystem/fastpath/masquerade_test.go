// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/flows"
)

// Connections whose source address is that of the uplink they began on, when their route changes. Linux ends them
// (nf_nat_oif_changed), because no answer would come back by the other uplink.

var (
	macAlt = net.HardwareAddr{2, 0, 0, 0, 0, 3}
	macC   = net.HardwareAddr{2, 0, 0, 0, 0, 0xc}
)

// uplinks is a bench with a second uplink, "alt", beside "out". What is beyond both are 203.0.113.0/24 and 2001:db8:f::/48.
type uplinks struct {
	*flowBench
	alt, c netlink.Link
	wireC  *wire
}

// translating is the ruleset of an uplink bench: what it does with packets that leave by either uplink.
func translating(out, alt string) string {
	return `table inet minne_policy {
	chain forward { type filter hook forward priority 0; ct state invalid drop; ct state established accept; iifname { "out", "alt" } drop; }
	chain postrouting { type nat hook postrouting priority srcnat;
		oifname "out" ` + out + `
		oifname "alt" ` + alt + `
	}
}`
}

func newUplinks(t testing.TB, ruleset string) *uplinks {
	t.Helper()
	u := &uplinks{}
	u.alt, u.c = addVeth(t, "alt", "c", macAlt)
	sysctl(t, "ipv4/conf/alt/rp_filter", "0")
	sysctl(t, "ipv4/conf/alt/send_redirects", "0")
	addAddress(t, u.alt, "100.64.0.1/24")
	addAddress(t, u.alt, "2001:db8:c::1/64")
	addNeighbour(t, u.alt, "100.64.0.2", macC, unix.NUD_PERMANENT)
	addNeighbour(t, u.alt, "2001:db8:c::2", macC, unix.NUD_PERMANENT)
	p := stateful(true)
	p.Zones["alt"] = 2
	p.Pairs[filter.ZonePair{From: 2, To: 2}] = filter.Pair{ID: wayBack}
	u.flowBench = newFlowBench(t, ruleset, p)
	u.wireC = newWire(t, u.c)
	must(t, u.fast.withTables(func() error {
		u.fast.conntrack = func() Conntrack { return new(flows.Asker) }
		return u.fast.prog.follow(u.fast.conntrack, u.fast.log)
	}))
	d := u.desired()
	d.Interfaces["alt"] = DesiredPort{FastPath: true}
	must(t, u.fast.Apply(context.Background(), d))
	u.route("198.51.100.2", "2001:db8:b::2")
	return u
}

// route leads what is beyond the uplinks to a neighbour.
func (u *uplinks) route(via4, via6 string) {
	u.t.Helper()
	ip(u.t, "route", "replace", "203.0.113.0/24", "via", via4)
	ip(u.t, "-6", "route", "replace", "2001:db8:f::/48", "via", via6)
}

// reroute leads it to the second uplink, and waits until the fast path knows.
func (u *uplinks) reroute() {
	u.t.Helper()
	u.route("100.64.0.2", "2001:db8:c::2")
	eventually(u.t, "the fast path knows the other route", func() bool {
		four := u.run(udp4(macIn, macA, "192.0.2.2", "203.0.113.200", 64, 18), u.in)
		six := u.run(udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::200", 64, 18), u.in)
		return four.trace.Adjacency == u.adjacencyTo(u.alt, false) && six.trace.Adjacency == u.adjacencyTo(u.alt, true)
	})
}

// adjacencyTo is the adjacency of the neighbour behind an uplink.
func (u *uplinks) adjacencyTo(l netlink.Link, six bool) uint32 {
	to := udp4(macIn, macA, "192.0.2.2", "100.64.0.2", 64, 18)
	if six {
		to = udp6(macIn, macA, "2001:db8:a::2", "2001:db8:c::2", 64, 18)
	}
	return u.run(to, u.in).trace.Adjacency
}

// many opens connections of both families, with and without ports.
func (u *uplinks) many() (list []*talk) {
	u.t.Helper()
	for i := range 8 {
		list = append(list, u.open(parcel{from: fmt.Sprintf("192.0.2.2:%d", 4100+i), to: "203.0.113.9:80", protocol: packet.ProtoTCP}),
			u.open(parcel{from: fmt.Sprintf("[2001:db8:a::2]:%d", 4200+i), to: "[2001:db8:f::9]:80", protocol: packet.ProtoTCP}))
	}
	list = append(list, u.open(parcel{from: "192.0.2.2:4300", to: "203.0.113.9:53", protocol: packet.ProtoUDP}),
		u.open(parcel{from: "[2001:db8:a::2]:4301", to: "[2001:db8:f::9]:53", protocol: packet.ProtoUDP}),
		u.openEcho("192.0.2.2:0", "203.0.113.9:0", packet.ProtoICMP, packet.ICMPEcho, packet.ICMPEchoReply),
		u.openEcho("[2001:db8:a::2]:0", "[2001:db8:f::9]:0", packet.ProtoICMPv6, packet.ICMPv6Echo, packet.ICMPv6EchoReply))
	for _, k := range list {
		k.carried()
	}
	return list
}

// openEcho makes conntrack know of an echo and its answer.
func (u *uplinks) openEcho(from, to string, protocol, asks, answers uint8) *talk {
	u.t.Helper()
	out := parcel{from: from, to: to, protocol: protocol, kind: asks}
	arrived := u.there(out.toB())
	if arrived == nil {
		u.t.Fatal("an echo does not arrive")
	}
	as := packet.Summarize(arrived).Source
	in := parcel{from: to, to: netip.AddrPortFrom(as, 0).String(), protocol: protocol, kind: answers}
	at := len(arrived) - 18 - 8
	reply := in.toA()
	copy(reply[len(reply)-18-4:], arrived[at+4:at+6]) // the id may be another one
	if u.back(reply) == nil {
		u.t.Fatal("the answer to an echo does not arrive")
	}
	return &talk{flowBench: u.flowBench, out: out, in: in}
}

// arrives sends a packet of a connection, and says which source it has behind the second uplink; not valid for none.
func (u *uplinks) arrives(k *talk, wait time.Duration) netip.Addr {
	u.t.Helper()
	u.wireA.send(k.out.toB())
	f := u.wireC.next(wait, addressed(macC))
	if f == nil {
		return netip.Addr{}
	}
	return packet.Summarize(f).Source
}

var ownOnAlt = map[bool]netip.Addr{true: netip.MustParseAddr("100.64.0.1"), false: netip.MustParseAddr("2001:db8:c::1")}

// TestMasqueradedFlowsFollowTheRoute: when the route of masqueraded connections changes to another uplink, no packet leaves by
// it with the address of the former, and the second packet of each connection begins a new one: as in the kernel alone.
func TestMasqueradedFlowsFollowTheRoute(t *testing.T) {
	u := newUplinks(t, translating("masquerade", "masquerade"))
	list := u.many()
	sent := u.fastPackets(u.alt)
	u.reroute()
	started := time.Now()
	for _, k := range list {
		want := ownOnAlt[netip.MustParseAddrPort(k.out.from).Addr().Is4()]
		if got := u.arrives(k, 50*time.Millisecond); got.IsValid() {
			t.Errorf("%s > %s: the packet that ends the connection leaves with source %s", k.out.from, k.out.to, got)
		}
		if got := u.arrives(k, time.Second); got != want {
			t.Errorf("%s > %s: leaves with source %v, expected %v", k.out.from, k.out.to, got, want)
		}
	}
	t.Logf("%d connections took the other uplink in %v", len(list), time.Since(started))
	if got := u.fastPackets(u.alt); got != sent {
		t.Errorf("the fast path sent %d packets itself before the kernel had a connection", got-sent)
	}
}

// TestStaticTranslationsOutliveTheRoute: Linux ends masqueraded connections only. Those with a configured address go on by the
// other uplink, by the fast path, and nothing is lost.
func TestStaticTranslationsOutliveTheRoute(t *testing.T) {
	static := "meta nfproto ipv4 snat ip to 198.51.100.77\n\t\toifname \"%s\" meta nfproto ipv6 snat ip6 to 2001:db8:b::77"
	u := newUplinks(t, translating(fmt.Sprintf(static, "out"), fmt.Sprintf(static, "alt")))
	list := u.many()
	u.reroute()
	for _, k := range list {
		want := netip.MustParseAddrPort(k.in.to).Addr()
		for range 3 {
			if got := u.arrives(k, time.Second); got != want {
				t.Errorf("%s > %s: leaves with source %v, expected %v", k.out.from, k.out.to, got, want)
			}
		}
		eventually(t, "the fast path carries the connection by the other uplink", func() bool {
			if got := u.arrives(k, time.Second); got != want {
				t.Fatalf("%s > %s: leaves with source %v, expected %v", k.out.from, k.out.to, got, want)
			}
			return u.run(k.out.toB(), u.in).Reason == Forwarded
		})
	}
}
