// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const tunnelled = `
version: 1
system: {hostname: stick, router-id: 10.0.70.1}
interfaces:
  wan: {match: {name: u0}, addresses: [10.0.70.1/24, "2001:db8:70::1/64"]}
  lan: {match: {name: k0}, addresses: [10.0.71.1/24, "2001:db8:71::1/64"]}
  by-gre:
    tunnel: {type: gre, local: 10.0.70.1, remote: 10.0.70.2, key: 7}
    addresses: [10.1.1.1/30, "2001:db8:101::1/64"]
  by-ipip: {tunnel: {type: ipip, remote: 10.0.70.2, interfaces: [wan]}, addresses: [10.1.2.1/30]}
  by-6in4: {tunnel: {type: 6in4, local: 10.0.70.1, remote: 10.0.70.2}, addresses: ["2001:db8:103::1/64"]}
  by-vxlan: {tunnel: {type: vxlan, id: 100, remote: 10.0.70.2}, addresses: [10.1.4.1/24, "2001:db8:104::1/64"]}
  over-6: {tunnel: {type: vxlan, id: 300, local: "2001:db8:70::1", remote: "2001:db8:70::2"}, addresses: [10.1.5.1/24]}
  k1: {}
  wire: {tunnel: {type: vxlan, id: 200, local: 10.0.70.1, remotes: [10.0.70.9, 10.0.70.2]}}
  site: {bridge: {ports: [k1, wire]}}
`

// TestTunnel carries packets of hosts through each type of tunnel to the kernel's own at the far end, and makes one
// network of a port and a VXLAN.
func TestTunnel(t *testing.T) {
	far, lan, site := newHost(t, "u0", "f0"), newHost(t, "k0", "h0"), newHost(t, "k1", "h1")
	local, remote := net.IPv4(10, 0, 70, 2).To4(), net.IPv4(10, 0, 70, 1).To4()
	far.do(t, func() {
		addAddress(t, "f0", "10.0.70.2/24")
		addAddress(t, "f0", "2001:db8:70::2/64")
		for name, l := range map[string]netlink.Link{
			"by-gre":   &netlink.Gretun{Local: local, Remote: remote, IKey: 7, OKey: 7, PMtuDisc: 1},
			"by-ipip":  &netlink.Iptun{Local: local, Remote: remote, PMtuDisc: 1},
			"by-6in4":  &netlink.Sittun{Local: local, Remote: remote, Proto: unix.IPPROTO_IPV6, PMtuDisc: 1},
			"by-vxlan": &netlink.Vxlan{VxlanId: 100, Group: remote, Port: 4789, Learning: true},
			"wire":     &netlink.Vxlan{VxlanId: 200, Group: remote, Port: 4789, Learning: true},
			"over-6":   &netlink.Vxlan{VxlanId: 300, Group: net.ParseIP("2001:db8:70::1"), SrcAddr: net.ParseIP("2001:db8:70::2"), Port: 4789, Learning: true},
		} {
			a := netlink.NewLinkAttrs()
			a.Name = name
			*l.Attrs() = a
			must(t, netlink.LinkAdd(l))
			up(t, name)
		}
		for name, addresses := range map[string][]string{
			"by-gre": {"10.1.1.2/30", "2001:db8:101::2/64"}, "by-ipip": {"10.1.2.2/30"}, "by-6in4": {"2001:db8:103::2/64"},
			"by-vxlan": {"10.1.4.2/24", "2001:db8:104::2/64"}, "over-6": {"10.1.5.2/24"}, "wire": {"10.0.72.2/24"},
		} {
			for _, a := range addresses {
				addAddress(t, name, a)
			}
		}
		// The answer comes by the tunnel that the question came by: each has a host of its own behind the router.
		for via, host := range map[string]string{"10.1.1.1": "10.0.71.11/32", "10.1.2.1": "10.0.71.12/32", "10.1.4.1": "10.0.71.14/32", "10.1.5.1": "10.0.71.15/32",
			"2001:db8:101::1": "2001:db8:71::11/128", "2001:db8:103::1": "2001:db8:71::13/128", "2001:db8:104::1": "2001:db8:71::14/128"} {
			addRoute(t, host, via)
		}
	})
	lan.do(t, func() {
		for _, a := range []string{"11", "12", "13", "14", "15"} {
			addAddress(t, "h0", "10.0.71."+a+"/24")
			addAddress(t, "h0", "2001:db8:71::"+a+"/64")
		}
		addRoute(t, "10.0.0.0/8", "10.0.71.1")
		addRoute(t, "2001:db8::/32", "2001:db8:71::1")
	})
	site.do(t, func() { addAddress(t, "h1", "10.0.72.3/24") })
	r, here := startRouter(t), router(t)
	r.apply(t, tunnelled)
	for name, mtu := range map[string]int{"by-gre": 1472, "by-ipip": 1480, "by-6in4": 1480, "by-vxlan": 1450, "over-6": 1430} {
		if l, err := netlink.LinkByName(name); err != nil || l.Attrs().MTU != mtu {
			t.Errorf("%s: %v, want MTU %d: %v", name, l, mtu, err)
		}
	}
	through := func() {
		t.Helper()
		for from, to := range map[string][]string{"11": {"10.1.1.2", "2001:db8:101::2"}, "12": {"10.1.2.2"}, "13": {"2001:db8:103::2"}, "14": {"10.1.4.2", "2001:db8:104::2"}, "15": {"10.1.5.2"}} {
			for _, address := range to {
				source := "10.0.71." + from
				if strings.Contains(address, ":") {
					source = "2001:db8:71::" + from
				}
				echoFrom(t, far, lan, source, net.JoinHostPort(address, "7"), 3)
			}
		}
	}
	through()
	echo(t, far, site, "10.0.72.2:7", 3)
	r.says(t, "show interfaces by-gre", "GRE tunnel with key 7 to 10.0.70.2")
	r.says(t, "show interfaces wire", "VXLAN 200 on UDP port 4789", "port of site")
	r.says(t, "show fast-path", "by-gre off no", "wire off no", "the kernel carries what goes through tunnels")

	// What another hand changes is put back, in place.
	gre, err := netlink.LinkByName("by-gre")
	must(t, err)
	changed := &netlink.Gretun{LinkAttrs: netlink.NewLinkAttrs(), Local: remote, Remote: net.IPv4(10, 0, 70, 77).To4(), IKey: 7, OKey: 7, PMtuDisc: 1}
	changed.Name, changed.Index = "by-gre", gre.Attrs().Index
	must(t, netlink.LinkModify(changed))
	until(t, "the router puts the far end of by-gre back", func() bool {
		l, err := netlink.LinkByName("by-gre")
		return err == nil && l.Attrs().Index == gre.Attrs().Index && l.(*netlink.Gretun).Remote.Equal(local)
	})
	wire, err := netlink.LinkByName("wire")
	must(t, err)
	must(t, netlink.NeighDel(&netlink.Neigh{LinkIndex: wire.Attrs().Index, Family: unix.AF_BRIDGE, Flags: unix.NTF_SELF,
		State: unix.NUD_PERMANENT, HardwareAddr: make(net.HardwareAddr, 6), IP: local}))
	until(t, "the router puts the far end of wire back", func() bool { return slices.Contains(farEnds(t, wire), "10.0.70.2") })
	through()

	// Another far end is a change in place; another key is another link.
	text := strings.NewReplacer("[10.0.70.9, 10.0.70.2]", "[10.0.70.2]", "remote: 10.0.70.2, interfaces", "ttl: 9, remote: 10.0.70.2, interfaces", "key: 7", "key: 8").Replace(tunnelled)
	ipip, err := netlink.LinkByName("by-ipip")
	must(t, err)
	r.apply(t, text)
	if ends := farEnds(t, wire); len(ends) != 1 || ends[0] != "10.0.70.2" {
		t.Errorf("far ends of wire: %q", ends)
	}
	if l, err := netlink.LinkByName("by-ipip"); err != nil || l.Attrs().Index != ipip.Attrs().Index || l.(*netlink.Iptun).Ttl != 9 {
		t.Errorf("by-ipip: %+v, %v", l, err)
	}
	if l, err := netlink.LinkByName("by-gre"); err != nil || l.(*netlink.Gretun).OKey != 8 {
		t.Errorf("by-gre: %+v, %v", l, err)
	}
	if reaches(t, far, here, "10.1.1.2:7") {
		t.Error("keys differ, and packets pass")
	}
	echo(t, far, site, "10.0.72.2:7", 3)

	// They go with their sections; what the kernel made by itself stays.
	r.apply(t, "version: 1\nsystem: {hostname: stick}\ninterfaces: {wan: {match: {name: u0}}}\n")
	for _, name := range []string{"by-gre", "by-ipip", "by-6in4", "by-vxlan", "over-6", "wire"} {
		if _, err := netlink.LinkByName(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// farEnds are those of a VXLAN in the kernel.
func farEnds(t *testing.T, l netlink.Link) (list []string) {
	t.Helper()
	all, err := netlink.NeighList(l.Attrs().Index, unix.AF_BRIDGE)
	must(t, err)
	for _, n := range all {
		if n.HardwareAddr.String() == "00:00:00:00:00:00" {
			list = append(list, n.IP.String())
		}
	}
	return list
}
