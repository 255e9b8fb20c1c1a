// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
)

const fastVRFs = `
version: 1
system: {hostname: stick, router-id: 10.0.82.1}
fast-path: {mode: MODE}
interfaces:
  red: {vrf: {table: 100, interfaces: [fr0, fr1]}}
  blue: {vrf: {table: 101, interfaces: [fb0, tagged]}}
  fr0: {addresses: [10.0.80.1/24, "2001:db8:80::1/64"]}
  fr1: {addresses: [10.0.81.1/24, "2001:db8:81::1/64"]}
  fb0: {addresses: [10.0.80.1/24, "2001:db8:80::1/64"]}
  fb1: {}
  tagged: {vlan: {parent: fb1, id: 7}, addresses: [10.0.81.1/24, "2001:db8:81::1/64"]}
  fm0: {addresses: [10.0.82.1/24, "2001:db8:82::1/64"]}
routing:
  static:
    - {prefix: 10.0.90.0/24, via: [10.0.81.2], vrf: red}
    - {prefix: "2001:db8:90::/64", via: ["2001:db8:81::2"], vrf: red}
    - {prefix: 10.0.90.0/24, via: [10.0.80.2], vrf: blue}
    - {prefix: 10.0.90.128/25, blackhole: true, vrf: red}
    - {prefix: 0.0.0.0/0, via: [10.0.82.2]}
`

// TestVRFForwards has the kernel forward packets of two VRFs with the same networks and of the main table, and then the fast
// path: each comes out by the same port, the same to the byte, or nowhere. Routes of one VRF lead into the main table.
func TestVRFForwards(t *testing.T) {
	names := []string{"fr0", "fr1", "fb0", "fb1", "fm0"}
	wires, macs := map[string]wire{}, map[string]packet.MAC{}
	for i, name := range names {
		wires[name] = newHost(t, name, "h"+name).wire(t)
		macs[name] = packet.MAC{2, 0, 0, 0, 8, byte(i)}
	}
	on := map[string]string{"fr0": "fr0", "fr1": "fr1", "fb0": "fb0", "fb1": "tagged", "fm0": "fm0"} // the router's interfaces
	net4 := map[string]string{"fr0": "10.0.80", "fr1": "10.0.81", "fb0": "10.0.80", "fb1": "10.0.81", "fm0": "10.0.82"}
	net6 := map[string]string{"fr0": "2001:db8:80", "fr1": "2001:db8:81", "fb0": "2001:db8:80", "fb1": "2001:db8:81", "fm0": "2001:db8:82"}
	r := startRouter(t)
	with := func(mode string) { r.apply(t, strings.Replace(fastVRFs, "MODE", mode, 1)) }
	with("off")
	t.Cleanup(func() { // the next test has other ports
		r.apply(t, "version: 1\nsystem: {hostname: stick}\n")
		for _, name := range names {
			must(t, netlink.LinkDel(linkOf(t, name)))
		}
	})
	for name, l := range on {
		addNeighbour(t, l, net4[name]+".2", macs[name])
		addNeighbour(t, l, net6[name]+"::2", macs[name])
	}
	for prefix, gateway := range map[string]string{"10.0.99.0/24": "10.0.82.2", "2001:db8:99::/64": "2001:db8:82::2"} {
		_, dst, err := net.ParseCIDR(prefix)
		must(t, err)
		must(t, netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(gateway), LinkIndex: indexOf(t, "fm0"), Table: 100, Flags: int(netlink.FLAG_ONLINK)}))
	}

	build := func(name, src, dst, mark string) []byte {
		var tags []packet.Tag
		if name == "fb1" {
			tags = []packet.Tag{{Type: packet.TypeVLAN, TCI: 7}}
		}
		return frame(macs[name], macOfLink(t, on[name]), tags, netip.MustParseAddr(src), netip.MustParseAddr(dst), 64, []byte(mark))
	}
	ways := map[string][]string{ // out by another interface, with nothing that only the kernel decides
		"fr0": {"10.0.81.2", "10.0.90.1", "10.0.99.1", "2001:db8:81::2", "2001:db8:90::1", "2001:db8:99::1"},
		"fr1": {"10.0.80.2", "10.0.99.1", "2001:db8:80::2", "2001:db8:99::1"},
		"fb0": {"10.0.81.2", "2001:db8:81::2"},
		"fb1": {"10.0.80.2", "10.0.90.1", "2001:db8:80::2"},
	}
	var frames []packetIn
	for _, name := range names {
		add := func(fast bool, src, dst string) {
			mark := fmt.Sprintf("packet %03d of the voices", len(frames))
			frames = append(frames, packetIn{name, mark, fmt.Sprintf("%s: %s to %s", name, src, dst), build(name, src, dst, mark), fast})
		}
		four, six := net4[name]+".2", net6[name]+"::2"
		for _, dst := range []string{"10.0.80.2", "10.0.81.2", "10.0.82.2", "10.0.80.1", "10.0.81.255", "10.0.90.1", "10.0.90.200", "10.0.99.1", "10.0.200.1", "224.0.0.5"} {
			add(slices.Contains(ways[name], dst), four, dst)
		}
		for _, dst := range []string{"2001:db8:80::2", "2001:db8:81::2", "2001:db8:82::2", "2001:db8:81::1", "2001:db8:90::1", "2001:db8:99::1", "2001:db8:200::1"} {
			add(slices.Contains(ways[name], dst), six, dst)
		}
		for _, src := range []string{"10.0.80.1", "10.0.80.2", "10.0.80.255", "10.0.81.2", "10.0.82.1", "10.0.82.2", "10.0.90.200", "10.0.200.1", "0.0.0.0"} {
			add(false, src, "10.0.81.2")
			add(false, src, "10.0.80.2")
		}
		for _, src := range []string{"2001:db8:81::2", "2001:db8:82::2", "2001:db8:200::1", "2001:db8:80::1"} {
			add(false, src, "2001:db8:80::2")
			add(false, src, "2001:db8:81::2")
		}
	}
	var last []packetIn // what: the port that it leaves by
	for i, way := range []struct{ from, dst, to string }{
		{"fr0", "10.0.90.1", "fr1"}, {"fr1", "10.0.80.2", "fr0"}, {"fb0", "10.0.81.2", "fb1"}, {"fb1", "10.0.80.2", "fb0"}, {"fr1", "10.0.99.1", "fm0"},
	} {
		mark := fmt.Sprintf("the last by this way: %d", i)
		last = append(last, packetIn{way.from, mark, way.to, build(way.from, net4[way.from]+".2", way.dst, mark), true})
	}
	kernel := passAll(t, wires, frames, last)
	count := 0
	for _, f := range frames {
		if f.fast {
			count++
			if kernel[f.mark] == nil {
				t.Errorf("%s: the kernel does not forward it", f.what)
			}
		}
	}
	if count < 15 {
		t.Fatalf("only %d packets are the fast path's", count)
	}

	with("generic")
	r.waitForPorts(t, names...)
	r.says(t, "show fast-path", "red", "blue")
	before := r.sentByFastPath(t)
	fast := passAll(t, wires, frames, last)
	for _, f := range frames {
		if !slices.EqualFunc(kernel[f.mark], fast[f.mark], bytes.Equal) {
			t.Errorf("%s: the kernel lets\n%x\nout, the router with the fast path\n%x", f.what, kernel[f.mark], fast[f.mark])
		}
	}
	if sent := r.sentByFastPath(t) - before; sent < uint64(count) {
		t.Errorf("the fast path sent %d packets, expected at least %d", sent, count)
	}
	r.says(t, "explain --in fr0 --src 10.0.80.2 --dst 10.0.90.1", "10.0.90.0/24 via 10.0.81.2", "fr1")
	r.says(t, "explain --in fb0 --src 10.0.80.2 --dst 10.0.82.2", "unreachable")

	// A port leaves its VRF, and the router puts it back.
	must(t, netlink.LinkSetNoMaster(linkOf(t, "fr0")))
	until(t, "the port is in its VRF again, with its addresses", func() bool {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: 100, LinkIndex: indexOf(t, "fr0")}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
		return err == nil && linkOf(t, "fr0").Attrs().MasterIndex == indexOf(t, "red") && len(routes) >= 4
	})
	addNeighbour(t, "fr0", "10.0.80.2", macs["fr0"])
	addNeighbour(t, "fr0", "2001:db8:80::2", macs["fr0"])
	// Its routes were in the main table meanwhile. The fast path has heard that they are gone.
	r.says(t, "explain --in fm0 --src 10.0.82.2 --dst 10.0.80.2", "0.0.0.0/0 via 10.0.82.2")
	again := passAll(t, wires, frames, last)
	for _, f := range frames {
		if !slices.EqualFunc(kernel[f.mark], again[f.mark], bytes.Equal) {
			t.Errorf("%s, after a port has left its VRF: the kernel lets\n%x\nout, the router with the fast path\n%x", f.what, kernel[f.mark], again[f.mark])
		}
	}
}

// packetIn is a packet that arrives, told by its mark.
type packetIn struct {
	on, mark, what string
	bytes          []byte
	fast           bool // the kernel forwards it, and nothing in it is the kernel's alone to decide
}

// passAll sends packets one after another, then some that are known to come out of each port, and returns what came out of each
// before these: a name of the port in front of the frame.
func passAll(t *testing.T, wires map[string]wire, frames, last []packetIn) map[string][][]byte {
	t.Helper()
	out := map[string][][]byte{}
	for _, f := range slices.Concat(frames, last) {
		wires[f.on].send(t, f.bytes)
	}
	for name, w := range wires {
		ended := func(got []byte) bool {
			for _, f := range frames {
				if bytes.Contains(got, []byte(f.mark)) && packet.Summarize(got).Protocol == packet.ProtoUDP {
					out[f.mark] = append(out[f.mark], append([]byte(name+" "), got...))
				}
			}
			return slices.ContainsFunc(last, func(f packetIn) bool { return f.what == name && bytes.Contains(got, []byte(f.mark)) })
		}
		for end := time.Now().Add(time.Minute); w.receive(t, ended) == nil; {
			if time.Now().After(end) {
				t.Fatalf("%s: the last packet did not come out", name)
			}
		}
	}
	return out
}

func linkOf(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// sentByFastPath is how many packets the fast path has sent out of all interfaces.
func (r running) sentByFastPath(t *testing.T) (sent uint64) {
	for _, traffic := range r.observe(t).Traffic {
		sent += traffic.TxPackets
	}
	return sent
}
