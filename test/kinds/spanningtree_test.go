// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
)

const treed = `
version: 1
system: {hostname: stick, router-id: 10.0.75.1}
interfaces:
  first: {match: {name: w0}}
  second: {match: {name: w1}}
  lan:
    bridge: {ports: [first, second], stp: on, stp-ports: {second: {cost: 200, priority: 64}}}
    addresses: [10.0.75.1/24]
  edge: {match: {name: w2}, addresses: [10.0.40.1/24]}
`

// TestSpanningTree has two cables to one bridge of the kernel, which is the root: the router blocks the dearer one, in the kernel
// and on the fast path, and opens it when the other cable is gone.
func TestSpanningTree(t *testing.T) {
	far, plain := newHost(t, "w0", "x0"), newHost(t, "w2", "x2")
	far.cable(t, "w1", "x1")
	root := ""
	far.do(t, func() {
		ethtool(t, "x1", 0x2c, 1) // ETHTOOL_SGRO, as newHost has it
		b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		must(t, netlink.LinkAdd(b))
		for _, name := range []string{"x0", "x1"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetMaster(l, b))
		}
		speakSTP(t, "br0")
		up(t, "br0")
		addAddress(t, "br0", "10.0.75.2/24")
		l, err := netlink.LinkByName("br0")
		must(t, err)
		root = "0." + l.Attrs().HardwareAddr.String()
	})
	r, here := startRouter(t), router(t)
	r.apply(t, treed)
	r.says(t, "show spanning-tree", "lan: 32768.", "root: "+root+", by port first", "hello 1 s, max age 6 s, forward delay 2 s",
		"first root forwarding", "second alternate blocking 200 64 "+root)
	echo(t, here, far, "10.0.75.1:7", 3)
	r.waitForPorts(t, "first", "second", "edge")

	addNeighbour(t, "edge", "10.0.40.9", plainMAC)
	out := plain.wire(t)
	cables := map[string]wire{}
	for _, name := range []string{"x0", "x1"} {
		h := far
		h.link = name
		cables[name] = h.wire(t)
	}
	// The far side's stations, one behind each cable. Somebody wrote the second into the bridge's table: the port is right for it,
	// were it open.
	sender := map[string]packet.MAC{"x0": {2, 0, 0, 0, 7, 0x50}, "x1": {2, 0, 0, 0, 7, 0x51}}
	second := sender["x1"]
	must(t, netlink.NeighAppend(&netlink.Neigh{LinkIndex: indexOf(t, "second"), Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, State: netlink.NUD_NOARP, HardwareAddr: second[:]}))
	addNeighbour(t, "lan", "10.0.75.8", second)
	sent := 0
	// passes says whether a frame that the far side sends into a cable is routed to plain.
	passes := func(cable string) bool {
		sent++
		mark := fmt.Appendf(nil, "frame %d by %s", sent, cable)
		cables[cable].send(t, frame(sender[cable], macOfLink(t, "lan"), nil, netip.MustParseAddr("10.0.75.9"), netip.MustParseAddr("10.0.40.9"), 64, mark))
		return out.receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }) != nil
	}
	fast := func(cable string) bool {
		before := r.forwarded(t, "edge")
		if !passes(cable) { // the bridge learns its sender
			return false
		}
		return passes(cable) && r.forwarded(t, "edge") > before
	}
	until(t, "the fast path forwards what comes by the open cable", func() bool { return fast("x0") })
	if passes("x1") {
		t.Error("a frame from the blocked cable was routed")
	}
	// leaves says whether a packet for the station behind the second cable leaves by it.
	leaves := func() bool {
		mark := fmt.Appendf(nil, "to the second cable, %d", sent)
		sent++
		out.send(t, frame(plainMAC, macOfLink(t, "edge"), nil, netip.MustParseAddr("10.0.40.9"), netip.MustParseAddr("10.0.75.8"), 64, mark))
		return cables["x1"].receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }) != nil
	}
	if leaves() {
		t.Error("a packet leaves by the blocked cable")
	}
	// A broadcast leaves by one cable: there is no loop.
	mark := []byte("who is there?")
	lan := host{ns: here.ns, link: "lan"}.wire(t)
	lan.send(t, frame(macOfLink(t, "lan"), packet.MAC{255, 255, 255, 255, 255, 255}, nil, netip.MustParseAddr("10.0.75.1"), netip.MustParseAddr("10.0.75.255"), 64, mark))
	if cables["x0"].receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }) == nil {
		t.Error("a broadcast does not leave by the open cable")
	}
	if cables["x1"].receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }) != nil {
		t.Error("a broadcast leaves by the blocked cable, too")
	}

	far.do(t, func() {
		l, err := netlink.LinkByName("x0")
		must(t, err)
		must(t, netlink.LinkSetDown(l))
	})
	r.says(t, "show spanning-tree", "by port second, cost 200", "first - disabled", "second root forwarding")
	until(t, "the fast path forwards what comes by the other cable", func() bool { return fast("x1") })
	until(t, "the fast path sends by the other cable", func() bool {
		before := r.forwarded(t, "lan")
		return leaves() && r.forwarded(t, "lan") > before
	})
	echo(t, here, far, "10.0.75.1:7", 3)
	r.apply(t, "version: 1\nsystem: {hostname: stick}\n")
}

// speakSTP switches the spanning tree of a bridge on, with the best priority and the shortest times that the kernel takes.
func speakSTP(t *testing.T, name string) {
	t.Helper()
	request := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	about := nl.NewIfInfomsg(unix.AF_UNSPEC)
	about.Index = int32(indexOf(t, name))
	request.AddData(about)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_BR_PRIORITY, nl.Uint16Attr(0))
	data.AddRtAttr(nl.IFLA_BR_HELLO_TIME, nl.Uint32Attr(100)) // hundredths of a second
	data.AddRtAttr(nl.IFLA_BR_MAX_AGE, nl.Uint32Attr(600))
	data.AddRtAttr(nl.IFLA_BR_FORWARD_DELAY, nl.Uint32Attr(200))
	data.AddRtAttr(nl.IFLA_BR_STP_STATE, nl.Uint32Attr(1))
	request.AddData(info)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	must(t, err)
}
