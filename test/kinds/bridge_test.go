// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

const bridged = `
version: 1
system: {hostname: stick, router-id: 10.0.70.1}
interfaces:
  desk: {match: {name: s0}}
  guest1: {match: {name: s1}}
  guest2: {match: {name: s2}}
  uplink: {match: {name: s3}}
  lan:
    bridge:
      ports: [desk, guest1, guest2, uplink]
      isolated: [guest1, guest2]
      vlans:
        desk: {access: 10}
        guest1: {access: 20}
        guest2: {access: 20}
        uplink: {trunk: [10, 20-29], native: 5}
  staff: {vlan: {parent: lan, id: 10}, addresses: [10.0.70.1/24]}
  guests: {vlan: {parent: lan, id: 20}, addresses: [10.0.71.1/24]}
`

// TestBridge has hosts on access ports and a trunk: switched inside a VLAN, routed between two, apart where they are isolated.
func TestBridge(t *testing.T) {
	desk, guest1, guest2, uplink := newHost(t, "s0", "e0"), newHost(t, "s1", "e1"), newHost(t, "s2", "e2"), newHost(t, "s3", "e3")
	live := func(h host, name, address string) {
		h.do(t, func() {
			up(t, name)
			addAddress(t, name, address+"/24")
			if strings.HasPrefix(address, "10.0.70.") {
				addRoute(t, "10.0.71.0/24", "10.0.70.1")
			} else {
				addRoute(t, "10.0.70.0/24", "10.0.71.1")
			}
		})
	}
	live(desk, "e0", "10.0.70.2")
	live(guest1, "e1", "10.0.71.2")
	live(guest2, "e2", "10.0.71.3")
	uplink.do(t, func() {
		a := netlink.NewLinkAttrs()
		a.Name, a.ParentIndex = "e3.10", indexOf(t, "e3")
		must(t, netlink.LinkAdd(&netlink.Vlan{LinkAttrs: a, VlanId: 10}))
	})
	live(uplink, "e3.10", "10.0.70.9")

	r, here := startRouter(t), router(t)
	r.apply(t, bridged)
	echo(t, here, desk, "10.0.70.1:7", 3)   // the router on the VLAN of an access port
	echo(t, here, uplink, "10.0.70.1:7", 3) // and by the trunk
	echo(t, uplink, desk, "10.0.70.9:7", 3) // switched
	echo(t, guest1, desk, "10.0.71.2:7", 3) // routed between two VLANs of one bridge
	echo(t, here, guest2, "10.0.71.1:7", 3)
	if reaches(t, guest1, guest2, "10.0.71.2:8") {
		t.Error("isolated ports reach each other")
	}
	r.says(t, "show interfaces lan", "bridge", "ports desk, guest1, guest2, uplink")
	r.says(t, "show interfaces uplink", "port of lan", "forwarding")
	r.says(t, "show bridge", "desk learned", "uplink learned", "lan own")

	mac := func() string {
		l, err := netlink.LinkByName("lan")
		must(t, err)
		return l.Attrs().HardwareAddr.String()
	}
	before := mac()
	r.apply(t, strings.NewReplacer("[desk, guest1, guest2, uplink]", "[guest1, guest2, uplink]", "        desk: {access: 10}\n", "",
		"isolated: [guest1, guest2]", "stp: on", "native: 5", "native: 10").Replace(bridged))
	if mac() != before {
		t.Errorf("the bridge's MAC address was %s and is %s without its first port", before, mac())
	}
	if text, err := os.ReadFile("/sys/class/net/lan/bridge/stp_state"); err != nil || string(text) != "1\n" {
		t.Errorf("spanning tree: %q, %v", text, err)
	}
	if masterOf(t, "desk") != "" {
		t.Error("desk is still a port of the bridge")
	}
	vlans, err := netlink.BridgeVlanList()
	must(t, err)
	untagged := 0
	for _, v := range vlans[int32(indexOf(t, "uplink"))] {
		if v.EngressUntag() && v.PortVID() {
			untagged = int(v.Vid)
		}
	}
	if untagged != 10 || len(vlans[int32(indexOf(t, "uplink"))]) != 11 {
		t.Errorf("VLANs of the trunk: %v, native %d", vlans[int32(indexOf(t, "uplink"))], untagged)
	}
	guest, err := netlink.LinkByName("guest1")
	must(t, err)
	must(t, netlink.BridgeVlanDel(guest, 20, true, true, false, true))
	must(t, netlink.BridgeVlanAdd(guest, 10, true, true, false, true))
	until(t, "the router puts the VLANs right", func() bool {
		vlans, err := netlink.BridgeVlanList()
		must(t, err)
		of := vlans[int32(indexOf(t, "guest1"))]
		return len(of) == 1 && of[0].Vid == 20
	})
	r.apply(t, "version: 1\nsystem: {hostname: stick}\ninterfaces: {desk: {match: {name: s0}, addresses: [10.0.70.1/24]}}\n")
	if _, err := netlink.LinkByName("lan"); err == nil {
		t.Error("the bridge is still there after its configuration went")
	}
	echo(t, here, desk, "10.0.70.1:7", 3)
}
