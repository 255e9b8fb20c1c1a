// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/bridges"
)

var (
	macLAN = net.HardwareAddr{2, 0, 0, 0, 0, 3}
	macCC  = net.HardwareAddr{2, 0, 0, 0, 0, 0xc}
	macDD  = net.HardwareAddr{2, 0, 0, 0, 0, 0xd}
)

// bridgeBench is a bench with a bridge that has two ports. Hosts c and d are behind them.
//
//	host a ── in … router … lan 203.0.113.1, 2001:db8:c::1 ─┬─ s1 ── c 203.0.113.2
//	                                                        └─ s2 ── d 203.0.113.3
type bridgeBench struct {
	*bench
	lan, s1, s2 netlink.Link
	c, d        netlink.Link
}

func newBridgeBench(t testing.TB) *bridgeBench {
	t.Helper()
	for _, name := range []string{"iptables", "ip6tables", "arptables"} {
		sysctl(t, "bridge/bridge-nf-call-"+name, "0")
	}
	b := &bridgeBench{bench: newBench(t)}
	must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan", HardwareAddr: macLAN}}))
	var err error
	b.lan, err = netlink.LinkByName("lan")
	must(t, err)
	t.Cleanup(func() { netlink.LinkDel(b.lan) })
	b.s1, b.c = addVeth(t, "s1", "c", net.HardwareAddr{2, 0, 0, 0, 1, 1})
	b.s2, b.d = addVeth(t, "s2", "d", net.HardwareAddr{2, 0, 0, 0, 1, 2})
	for _, port := range []netlink.Link{b.s1, b.s2} {
		sysctl(t, "ipv6/conf/"+port.Attrs().Name+"/disable_ipv6", "1")
		must(t, netlink.LinkSetMaster(port, b.lan))
	}
	must(t, netlink.LinkSetUp(b.lan))
	for _, name := range []string{"lan"} {
		sysctl(t, "ipv4/conf/"+name+"/rp_filter", "0")
		sysctl(t, "ipv4/conf/"+name+"/send_redirects", "0")
	}
	addAddress(t, b.lan, "203.0.113.1/24")
	addAddress(t, b.lan, "2001:db8:c::1/64")
	for mac, addresses := range map[string][]string{macCC.String(): {"203.0.113.2", "2001:db8:c::2"}, macDD.String(): {"203.0.113.3", "2001:db8:c::3"}} {
		for _, address := range addresses {
			m, err := net.ParseMAC(mac)
			must(t, err)
			addNeighbour(t, b.lan, address, m, unix.NUD_PERMANENT)
		}
	}
	d := b.desired()
	for _, name := range []string{"lan", "s1", "s2"} {
		d.Interfaces[name] = DesiredPort{FastPath: true}
	}
	must(t, b.fast.Apply(t.Context(), d))
	b.hears()
	eventually(t, "the ports forward", func() bool { return b.forwards(b.s1) && b.forwards(b.s2) })
	return b
}

// hears waits until the fast path has heard all that the kernel said of links until now: what is older than a change
// comes before it.
func (b *bridgeBench) hears() {
	b.t.Helper()
	const mtu = 1499
	must(b.t, netlink.LinkSetMTU(b.c, mtu)) // of the far end: it changes nothing else
	changed := time.Now()
	eventually(b.t, "the last change of a link", func() (heard bool) {
		b.fast.locked(func() {
			l := b.fast.tables.links[b.c.Attrs().Index]
			heard = l != nil && l.MTU == mtu && b.fast.tables.bridging.state.Began.After(changed)
		})
		return heard
	})
}

// forwards says whether a port of the bridge is in use, as far as the fast path knows.
func (b *bridgeBench) forwards(port netlink.Link) (is bool) {
	b.fast.locked(func() {
		p := b.fast.tables.bridging.state.Ports[port.Attrs().Index]
		is = p != nil && p.Forwards && b.fast.tables.transmits[port.Attrs().Index]
	})
	return is
}

// station makes the bridge know a MAC on a port, as a frame from there would.
func (b *bridgeBench) station(mac net.HardwareAddr, port netlink.Link) {
	b.t.Helper()
	b.learn(mac, port)
	b.awaits(mac, port)
}

func (b *bridgeBench) learn(mac net.HardwareAddr, port netlink.Link) {
	b.t.Helper()
	must(b.t, netlink.NeighSet(&netlink.Neigh{LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE, HardwareAddr: mac,
		State: unix.NUD_REACHABLE, Flags: unix.NTF_MASTER}))
}

// awaits waits until the fast path knows a station there.
func (b *bridgeBench) awaits(mac net.HardwareAddr, port netlink.Link) {
	b.t.Helper()
	eventually(b.t, mac.String()+" on "+port.Attrs().Name, func() bool {
		s, known := b.known(mac)
		return known && s.Port == port.Attrs().Index
	})
}

func (b *bridgeBench) known(mac net.HardwareAddr) (s bridges.Station, known bool) {
	b.fast.locked(func() { s, known = b.fast.tables.bridging.stations[stationKey{b.lan.Attrs().Index, 0, [6]byte(mac)}] })
	return s, known
}

// TestBridge: the program routes what comes in by a port of a bridge for its MAC, and sends to the port that the bridge
// names for the neighbour's MAC. Everything else goes up.
func TestBridge(t *testing.T) {
	b := newBridgeBench(t)
	to4, to6 := udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 64, 18), udp6(macIn, macA, "2001:db8:a::2", "2001:db8:c::2", 64, 18)
	floods, bridged, learns := Reason(routerReasonREASON_BRIDGE_FLOODS), Reason(routerReasonREASON_BRIDGED), Reason(routerReasonREASON_BRIDGE_LEARNS)
	eventually(t, "the routes", func() bool { return b.run(to4, b.in).Reason == floods && b.run(to6, b.in).Reason == floods })

	b.station(macCC, b.s1)
	for _, c := range []struct{ in, out []byte }{
		{to4, udp4(macCC, macLAN, "192.0.2.2", "203.0.113.2", 63, 18)},
		{to6, udp6(macCC, macLAN, "2001:db8:a::2", "2001:db8:c::2", 63, 18)},
	} {
		v := b.expect(c.in, b.in, Forwarded)
		if v.Egress != b.lan.Attrs().Index || v.Port != b.s1.Attrs().Index || !bytes.Equal(v.Packet, c.out) {
			t.Errorf("out of %d by port %d\n%x\nexpected\n%x", v.Egress, v.Port, v.Packet, c.out)
		}
	}
	b.station(macCC, b.s2) // it moves
	eventually(t, "output follows", func() bool { return b.run(to4, b.in).Port == b.s2.Attrs().Index })
	must(t, netlink.NeighDel(&netlink.Neigh{LinkIndex: b.s2.Attrs().Index, Family: unix.AF_BRIDGE, HardwareAddr: macCC, Flags: unix.NTF_MASTER}))
	eventually(t, "the bridge has forgotten it", func() bool { return b.run(to4, b.in).Reason == floods })

	from := udp4(macLAN, macCC, "203.0.113.2", "198.51.100.2", 64, 18)
	b.expect(from, b.s1, learns)
	b.station(macCC, b.s1)
	b.expect(from, b.s1, Reason(routerReasonREASON_REFRESH)) // the bridge has to see it before anything else
	b.expect(from, b.s2, learns)                             // it may have moved
	b.expect(udp4(macDD, macCC, "203.0.113.2", "203.0.113.3", 64, 0), b.s1, bridged)
	b.expect(edit(from, 0, 1), b.s1, bridged) // a group's
	b.expect(tagged(from, vlanTag{0x8100, 5}), b.s1, bridged)
	b.expect(tagged(from, vlanTag{0x8100, 5})[:16], b.s1, bridged)
	b.expect(udp4(net.HardwareAddr{2, 0, 0, 0, 1, 1}, macCC, "203.0.113.2", "198.51.100.2", 64, 0), b.s1, bridged) // the port's own MAC
	b.expect(udp4(macLAN, macLAN, "203.0.113.2", "198.51.100.2", 64, 0), b.s1, learns)                             // from the bridge's own

	// On the wire the program keeps the bridge's knowledge fresh, and forwards the rest.
	wireC, wireB := newWire(t, b.c), newWire(t, b.b)
	before := b.fastPackets(b.out)
	const packets = 40
	for range packets {
		wireC.send(from)
		got := wireB.next(5*time.Second, addressed(macB))
		if want := udp4(macB, macOut, "203.0.113.2", "198.51.100.2", 63, 18); !bytes.Equal(got, want) {
			t.Fatalf("came out\n%x\nexpected\n%x", got, want)
		}
	}
	if by := b.fastPackets(b.out) - before; by < packets/2 || by == packets {
		t.Errorf("the fast path carried %d of %d packets, expected nearly all, and not the first", by, packets)
	}
	v := b.run(from, b.s1)
	if v.Reason == Forwarded && v.Ingress != b.lan.Attrs().Index {
		t.Errorf("came in by %d, expected the bridge", v.Ingress)
	}

	// A port that may not forward: nothing is routed, nothing sent there.
	again := func(stp string) {
		ip(t, "link", "set", "lan", "type", "bridge", "stp_state", stp)
		ip(t, "link", "set", "s1", "down")
		ip(t, "link", "set", "s1", "up")
	}
	again("1")
	eventually(t, "spanning tree holds the port", func() bool { return !b.forwards(b.s1) })
	b.expect(to4, b.in, floods)
	b.expect(from, b.s1, bridged)
	again("0")
	eventually(t, "the port forwards", func() bool { return b.forwards(b.s1) })
	eventually(t, "it carries packets again", func() bool { // the bridge forgets once more when the cable is announced
		b.learn(macCC, b.s1)
		return b.run(to4, b.in).Reason == Forwarded && b.run(from, b.s1).Reason != bridged
	})

	// A port that leaves the bridge is a port like any other.
	ip(t, "link", "set", "s1", "nomaster")
	eventually(t, "s1 is no port of a bridge", func() bool {
		why := b.run(from, b.s1).Reason
		return why != bridged && b.run(to4, b.in).Reason == floods
	})
}

// TestOlderBridges: what was read of bridges before a commit and comes after it changes nothing.
func TestOlderBridges(t *testing.T) {
	b := newBridgeBench(t)
	b.fast.locked(func() {
		older := bridges.State{Bridges: b.fast.tables.bridging.state.Bridges, Began: b.fast.tables.bridging.state.Began.Add(-time.Millisecond)}
		b.fast.takeBridges(older)
	})
	if !b.forwards(b.s1) || !b.forwards(b.s2) {
		t.Error("the ports are forgotten")
	}
}

// TestBridgedFramesPass: what is not for the router goes through the bridge as it came, both ways, however many they are.
func TestBridgedFramesPass(t *testing.T) {
	b := newBridgeBench(t)
	wireC, wireD := newWire(t, b.c), newWire(t, b.d)
	for i := range 200 {
		frame := udp4(macDD, macCC, "203.0.113.2", "203.0.113.3", 64, 18+i)
		if i%2 == 1 {
			frame = edit(edit(frame, 0, 0xff), 5, 0xff) // for a group
		}
		wireC.send(frame)
		got := wireD.next(5*time.Second, func(f []byte) bool { return bytes.Equal(f[:12], frame[:12]) })
		if !bytes.Equal(got, frame) {
			t.Fatalf("frame %d came out as\n%x\nexpected\n%x", i, got, frame)
		}
	}
}

// TestBridgeBypassed: what else the kernel does to packets on a bridge takes them from the fast path, until it is gone.
func TestBridgeBypassed(t *testing.T) {
	b := newBridgeBench(t)
	b.station(macCC, b.s1)
	to := udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 64, 18)
	reason := func(want routerReason) {
		t.Helper()
		eventually(t, Reason(want).String(), func() bool {
			b.fast.Look(t.Context())
			return b.run(to, b.in).Reason == Reason(want)
		})
	}
	nft := func(text string) {
		t.Helper()
		if out, err := exec.Command("nft", text).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v: %s", text, err, out)
		}
	}
	reason(routerReasonREASON_NONE)
	sysctl(t, "bridge/bridge-nf-call-iptables", "1")
	reason(routerReasonREASON_FOREIGN_FILTER)
	sysctl(t, "bridge/bridge-nf-call-iptables", "0")
	reason(routerReasonREASON_NONE)
	for _, hook := range []string{"prerouting", "input", "output", "postrouting"} {
		nft("add table bridge other { chain one { type filter hook " + hook + " priority 0; policy accept; counter; }; }")
		reason(routerReasonREASON_FOREIGN_FILTER)
		nft("delete table bridge other")
		reason(routerReasonREASON_NONE)
	}
	nft("add table bridge other { chain one { type filter hook forward priority 0; policy drop; }; }") // bridged frames only
	t.Cleanup(func() { nft("delete table bridge other") })
	ip(t, "link", "set", "lan", "type", "bridge", "ageing_time", "500")
	reason(routerReasonREASON_KERNEL_ONLY)
	ip(t, "link", "set", "lan", "type", "bridge", "ageing_time", "30000")
	reason(routerReasonREASON_NONE)
	ip(t, "link", "set", "s1", "type", "bridge_slave", "neigh_suppress", "on")
	reason(routerReasonREASON_KERNEL_ONLY)
	ip(t, "link", "set", "s1", "type", "bridge_slave", "neigh_suppress", "off")
	reason(routerReasonREASON_NONE)
}
