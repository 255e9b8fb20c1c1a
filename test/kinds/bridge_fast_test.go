// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
)

// TestBridgeForwards sends frames between two VLANs of a bridge, of access ports and of a trunk, and between one of them and
// a port: first past the fast path, while the bridge learns who is where, and then by it. Every one is the same to the byte.
func TestBridgeForwards(t *testing.T) {
	desk, guest1, guest2, uplink := newHost(t, "u0", "v0"), newHost(t, "u1", "v1"), newHost(t, "u2", "v2"), newHost(t, "u3", "v3")
	plain := newHost(t, "u4", "v4")
	r := startRouter(t)
	r.apply(t, strings.ReplaceAll(bridged, "name: s", "name: u")+"  plain: {match: {name: u4}, addresses: [10.0.40.1/24]}\n")
	r.waitForPorts(t, "desk", "guest1", "guest2", "uplink", "plain")

	type end struct {
		on   string // the router's interface
		wire wire
		mac  packet.MAC
		ip   string
		tags []packet.Tag
	}
	ends := map[string]end{
		"desk":     {"staff", desk.wire(t), packet.MAC{2, 0, 0, 0, 7, 1}, "10.0.70.2", nil},
		"guest1":   {"guests", guest1.wire(t), packet.MAC{2, 0, 0, 0, 7, 2}, "10.0.71.2", nil},
		"guest2":   {"guests", guest2.wire(t), packet.MAC{2, 0, 0, 0, 7, 3}, "10.0.71.3", nil},
		"trunk 10": {"staff", uplink.wire(t), packet.MAC{2, 0, 0, 0, 7, 4}, "10.0.70.9", []packet.Tag{{Type: packet.TypeVLAN, TCI: 10}}},
		"plain":    {"plain", plain.wire(t), plainMAC, "10.0.40.9", nil},
	}
	trunk := ends["trunk 10"]
	trunk.wire = uplink.wire(t)
	trunk.mac, trunk.ip, trunk.on, trunk.tags = packet.MAC{2, 0, 0, 0, 7, 5}, "10.0.71.9", "guests", []packet.Tag{{Type: packet.TypeVLAN, TCI: 20}}
	ends["trunk 20"] = trunk
	own := func(e end) packet.MAC { return macOfLink(t, e.on) }
	for _, e := range ends {
		addNeighbour(t, e.on, e.ip, e.mac)
	}
	t.Cleanup(func() { // the next test has ports with these names
		r.apply(t, "version: 1\nsystem: {hostname: stick}\n")
		for _, name := range []string{"desk", "guest1", "guest2", "uplink", "plain"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkDel(l))
		}
	})
	sent := 0
	pass := func(t *testing.T, from, to end) {
		t.Helper()
		sent++
		mark := fmt.Appendf(nil, "frame %d of many", sent)
		src, dst := netip.MustParseAddr(from.ip), netip.MustParseAddr(to.ip)
		in := frame(from.mac, own(from), from.tags, src, dst, 64, mark)
		want := frame(own(to), to.mac, to.tags, src, dst, 63, mark)
		from.wire.send(t, in)
		got := to.wire.receive(t, func(f []byte) bool { return bytes.Contains(f, mark) && !bytes.Equal(f, in) })
		if !bytes.Equal(got, want) {
			t.Fatalf("came out:\n%x\nexpected:\n%x", got, want)
		}
	}
	for _, way := range [][2]string{
		{"desk", "plain"}, {"plain", "desk"}, {"guest1", "desk"}, {"desk", "guest2"}, {"trunk 10", "guest1"}, {"guest1", "trunk 10"},
		{"trunk 20", "trunk 10"}, {"trunk 10", "trunk 20"}, {"plain", "trunk 20"},
	} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := ends[way[0]], ends[way[1]]
			pass(t, from, to) // the bridge learns
			until(t, "the fast path carries it", func() bool {
				before := r.forwarded(t, to.on)
				pass(t, to, from) // which the bridge learns as well
				pass(t, from, to)
				pass(t, from, to)
				return r.forwarded(t, to.on) > before
			})
		})
	}
	t.Run("no member", func(t *testing.T) {
		mark := []byte("not a VLAN of this port")
		from, to := ends["desk"], ends["plain"]
		from.wire.send(t, frame(from.mac, macOfLink(t, "guests"), []packet.Tag{{Type: packet.TypeVLAN, TCI: 20}}, netip.MustParseAddr(from.ip), netip.MustParseAddr(to.ip), 64, mark))
		if got := to.wire.receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }); got != nil {
			t.Errorf("a frame of a VLAN that its port does not carry was forwarded:\n%x", got)
		}
	})
}

func macOfLink(t *testing.T, name string) packet.MAC {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return packet.MAC(l.Attrs().HardwareAddr)
}
