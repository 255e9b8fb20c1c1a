// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"

	"minne/internal/model/rib"
)

// forwardingEverywhere stands for the kernel's settings of links that exist on paper only.
type forwardingEverywhere struct{}

func (forwardingEverywhere) of(int, string) settings {
	return settings{forwarding4: true, forwarding6: true}
}
func (forwardingEverywhere) all() (v4, v6 settings) {
	return settings{forwarding4: true}, settings{forwarding6: true}
}
func (forwardingEverywhere) hashSeed() uint32    { return 7 }
func (forwardingEverywhere) sessions() []session { return nil }

// TestVLANs: tags come off, go on, and are exchanged, one or two of them, of both kinds. The VLAN
// links are told but don't exist: kernels without the 8021q module have the same program.
func TestVLANs(t *testing.T) {
	b := newBench(t)
	b.watch()
	<-b.watched
	b.fast.tables.read = forwardingEverywhere{}
	d := b.desired()
	const vlanIn, customer, service, qinq, third = 1001, 1002, 1003, 1004, 1005
	macs := map[int]net.HardwareAddr{vlanIn: macIn, customer: {2, 0, 0, 0, 2, 2}, service: macOut, qinq: {2, 0, 0, 0, 2, 4}, third: macOut}
	links := []rib.Link{
		{Index: vlanIn, Name: "in.10", Parent: b.in.Attrs().Index, VLANID: 10, VLANProto: 0x8100},
		{Index: customer, Name: "out.20", Parent: b.out.Attrs().Index, VLANID: 20, VLANProto: 0x8100},
		{Index: service, Name: "out.30", Parent: b.out.Attrs().Index, VLANID: 30, VLANProto: 0x88a8},
		{Index: qinq, Name: "out.30.40", Parent: service, VLANID: 40, VLANProto: 0x8100},
		{Index: third, Name: "three", Parent: qinq, VLANID: 50, VLANProto: 0x8100},
	}
	var addresses []rib.LinkAddress
	var neighbours []rib.Neighbour
	var routes []rib.RouteChange
	for i := range links {
		l := &links[i]
		l.Up, l.Running, l.MTU, l.MAC = true, true, 1500, macs[l.Index]
		d.Interfaces[l.Name] = DesiredPort{FastPath: true, Carried: true}
		net4 := netip.AddrFrom4([4]byte{10, 0, byte(l.Index - 1000), 0})
		addresses = append(addresses, rib.LinkAddress{Interface: l.Index, Address: netip.PrefixFrom(net4.Next(), 24)})
		neighbours = append(neighbours, rib.Neighbour{Interface: l.Index, Address: net4.Next().Next(), State: rib.NeighReachable, MAC: macB})
		routes = append(routes,
			rib.RouteChange{Route: rib.Route{Prefix: netip.PrefixFrom(net4, 24), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{{Interface: l.Index, Weight: 1}}}},
			rib.RouteChange{Route: rib.Route{Prefix: netip.PrefixFrom(net4.Next(), 32), Table: rib.TableLocal, Type: rib.Local}})
	}
	must(t, b.fast.Apply(context.Background(), d))
	b.fast.Links(links)
	b.fast.Addresses(addresses)
	b.fast.Neighbours(neighbours)
	b.fast.Routes(routes)

	c20, s30, c40, c10 := vlanTag{0x8100, 20}, vlanTag{0x88a8, 30}, vlanTag{0x8100, 40}, vlanTag{0x8100, 10}
	type vlans = []vlanTag
	for _, c := range []struct {
		name   string
		tags   vlans // as it comes
		to     string
		out    vlans // as it leaves
		egress int
	}{
		{"none to one", nil, "10.0.2.2", vlans{c20}, customer},
		{"none to service", nil, "10.0.3.2", vlans{s30}, service},
		{"none to two", nil, "10.0.4.2", vlans{s30, c40}, qinq},
		{"one to one", vlans{c10}, "10.0.2.2", vlans{c20}, customer},
		{"one to two", vlans{c10}, "10.0.4.2", vlans{s30, c40}, qinq},
		{"one to none", vlans{c10}, "198.51.100.2", nil, b.out.Attrs().Index},
		{"back to the port it came by", nil, "10.0.1.2", vlans{c10}, vlanIn},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := tagged(udp4(macIn, macA, "192.0.2.2", c.to, 64, 18), c.tags...)
			mac := macs[c.egress]
			if mac == nil {
				mac = macOut
			}
			want := tagged(udp4(macB, mac, "192.0.2.2", c.to, 63, 18), c.out...)
			v := b.expect(in, b.in, Forwarded)
			if v.Egress != c.egress || !bytes.Equal(v.Packet, want) {
				t.Errorf("out of %d\n%x\nexpected %d\n%x", v.Egress, v.Packet, c.egress, want)
			}
		})
	}
	for _, c := range []struct {
		name   string
		tags   vlans
		from   string
		reason routerReason
	}{
		{"two come off", vlans{s30, c40}, "out", routerReasonREASON_NONE},
		{"outer tag alone is another interface", vlans{s30}, "out", routerReasonREASON_OTHER_MAC},
		{"unknown inner tag", vlans{s30, c20}, "out", routerReasonREASON_UNKNOWN_INTERFACE},
		{"same id, other kind", vlans{{0x8100, 30}}, "out", routerReasonREASON_UNKNOWN_INTERFACE},
		{"priority bits don't count", vlans{{0x88a8, 0xe000 | 30}, c40}, "out", routerReasonREASON_NONE},
		{"three tags", vlans{s30, c40, {0x8100, 50}}, "out", routerReasonREASON_ETHERTYPE},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.expect(tagged(udp6(macs[qinq], macB, "2001:db8:b::2", "2001:db8:a::2", 64, 0), c.tags...), b.out, Reason(c.reason))
		})
	}
	t.Run("a lone outer header", func(t *testing.T) {
		b.expect(tagged(udp4(macIn, macA, "192.0.2.2", "10.0.2.2", 64, 0), c10)[:16], b.in, Reason(routerReasonREASON_ETHERTYPE))
	})
	b.watched = make(chan struct{})
	close(b.watched)
}
