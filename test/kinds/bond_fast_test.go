// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
)

// TestBondForwards sends frames between a port and a bond of two ports of which one is a backup, and between the port and a
// VLAN on the bond: in by the port in use and out by it on the fast path, to the byte as the kernel; what comes in by the
// backup goes nowhere, until it is the one in use.
func TestBondForwards(t *testing.T) {
	far, plain := newHost(t, "d0", "e0"), newHost(t, "d2", "e2")
	far.cable(t, "d1", "e1")
	far.do(t, func() { ethtool(t, "e1", 0x2c, 1) }) // ETHTOOL_SGRO, as newHost has it
	r := startRouter(t)
	const config = `
version: 1
system: {hostname: stick}
interfaces:
  d0: {}
  d1: {}
  core: {bond: {ports: [d0, d1], mode: active-backup, primary: d0, miimon: 20ms}, addresses: [10.0.61.1/24]}
  tagged: {vlan: {parent: core, id: 5}, addresses: [10.0.62.1/24]}
  plain: {match: {name: d2}, addresses: [10.0.63.1/24]}
`
	r.apply(t, "version: 1\nsystem: {hostname: stick}\ninterfaces: {d0: {addresses: [10.0.61.1/24]}, d1: {}, plain: {match: {name: d2}}}\n")
	r.waitForPorts(t, "d0", "d1", "plain") // which have the program of their own, until the bond has
	r.apply(t, config)
	t.Cleanup(func() {
		r.apply(t, "version: 1\nsystem: {hostname: stick}\n")
		for _, name := range []string{"d0", "d1", "plain"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkDel(l))
		}
	})
	r.waitForPorts(t, "core", "plain")
	r.says(t, "show interfaces core", "in use: d0")

	type end struct {
		on   string
		wire wire
		mac  packet.MAC
		ip   string
		tags []packet.Tag
	}
	first, second := far.wire(t), host{ns: far.ns, link: "e1"}.wire(t)
	bond := end{"core", first, packet.MAC{2, 0, 0, 0, 8, 1}, "10.0.61.2", nil}
	vlan := end{"tagged", first, packet.MAC{2, 0, 0, 0, 8, 2}, "10.0.62.2", []packet.Tag{{Type: packet.TypeVLAN, TCI: 5}}}
	port := end{"plain", plain.wire(t), packet.MAC{2, 0, 0, 0, 8, 3}, "10.0.63.2", nil}
	for _, e := range []end{bond, vlan, port} {
		addNeighbour(t, e.on, e.ip, e.mac)
	}
	sent := 0
	pass := func(t *testing.T, from, to end, arrives bool) {
		t.Helper()
		sent++
		mark := fmt.Appendf(nil, "frame %d of many", sent)
		src, dst := netip.MustParseAddr(from.ip), netip.MustParseAddr(to.ip)
		in := frame(from.mac, macOfLink(t, from.on), from.tags, src, dst, 64, mark)
		want := frame(macOfLink(t, to.on), to.mac, to.tags, src, dst, 63, mark)
		from.wire.send(t, in)
		switch got := to.wire.receive(t, func(f []byte) bool { return bytes.Contains(f, mark) && !bytes.Equal(f, in) }); {
		case !arrives && got != nil:
			t.Fatalf("the backup is not to be heard, and this came out:\n%x", got)
		case arrives && !bytes.Equal(got, want):
			t.Fatalf("came out:\n%x\nexpected:\n%x", got, want)
		}
	}
	fast := func(t *testing.T, from, to end) {
		t.Helper()
		until(t, "the fast path carries it", func() bool {
			before := r.forwarded(t, to.on)
			pass(t, from, to, true)
			pass(t, from, to, true)
			return r.forwarded(t, to.on) >= before+2
		})
	}
	over := func(wire wire, name string) {
		bond.wire, vlan.wire = wire, wire
		for _, way := range [][2]end{{bond, port}, {port, bond}, {vlan, port}, {port, vlan}, {bond, vlan}, {vlan, bond}} {
			t.Run(fmt.Sprintf("%s, %s to %s", name, way[0].on, way[1].on), func(t *testing.T) { fast(t, way[0], way[1]) })
		}
	}
	over(first, "first port")
	backup := bond
	backup.wire = second
	t.Run("backup", func(t *testing.T) { pass(t, backup, port, false) })

	far.do(t, func() {
		l, err := netlink.LinkByName("e0")
		must(t, err)
		must(t, netlink.LinkSetDown(l))
	})
	r.says(t, "show interfaces core", "in use: d1")
	over(second, "second port")

	// The bond as a port of a bridge: VLAN 5 on it is the bridge's.
	r.apply(t, `
version: 1
system: {hostname: stick}
interfaces:
  d0: {}
  d1: {}
  core: {bond: {ports: [d0, d1], mode: active-backup, primary: d0, miimon: 20ms}}
  site: {bridge: {ports: [core], vlans: {core: {trunk: [5]}}}}
  tagged: {vlan: {parent: site, id: 5}, addresses: [10.0.62.1/24]}
  plain: {match: {name: d2}, addresses: [10.0.63.1/24]}
`)
	addNeighbour(t, vlan.on, vlan.ip, vlan.mac)
	pass(t, vlan, port, true) // the bridge learns
	for _, way := range [][2]end{{vlan, port}, {port, vlan}} {
		t.Run("bridge, "+way[0].on+" to "+way[1].on, func(t *testing.T) { fast(t, way[0], way[1]) })
	}
}
