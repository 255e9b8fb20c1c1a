// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// A VLAN on a parent, found by its tag, whatever its name: one that someone else made is used and
// renamed, and never removed. A VLAN whose parent, id or protocol change is another link to the kernel.
var vlan = linkKind{
	name:  "vlan",
	title: "VLAN",
	// The kernel loads the module by itself where there is one.
	lacking: "this kernel has no VLANs, its module 8021q is missing; for the reason run modprobe 8021q; on Debian it comes with the package of the kernel, but not with a kernel made for containers or another one than the modules of /lib/modules/$(uname -r)",

	want: func(i *config.Interface) netlink.Link {
		yes, no := true, false
		v := &netlink.Vlan{VlanId: i.VLAN.ID, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q,
			ReorderHdr: &yes, Gvrp: &no, LooseBinding: &no, Mvrp: &no, BridgeBinding: &no}
		if i.VLAN.Protocol == "802.1ad" {
			v.VlanProtocol = netlink.VLAN_PROTOCOL_8021AD
		}
		return v
	},
	same: func(want, now netlink.Link) bool {
		w, n := want.(*netlink.Vlan), now.(*netlink.Vlan)
		return w.ParentIndex == n.ParentIndex && w.VlanId == n.VlanId && w.VlanProtocol == n.VlanProtocol
	},
	change: func(want, now netlink.Link) string {
		if vlanFlags(want) == vlanFlags(now) {
			return ""
		}
		return "VLAN flags"
	},
	words: func(l netlink.Link) string {
		v := l.(*netlink.Vlan)
		if v.VlanProtocol == netlink.VLAN_PROTOCOL_8021AD {
			return fmt.Sprintf("VLAN %d (802.1ad)", v.VlanId)
		}
		return fmt.Sprintf("VLAN %d", v.VlanId)
	},
	describe: func(l netlink.Link, to *rib.Link) {
		v := l.(*netlink.Vlan)
		to.VLANID, to.VLANProto, to.Settings = uint16(v.VlanId), uint16(v.VlanProtocol), fmt.Sprint(vlanFlags(v))
		if v.NetNsID < 0 { // else the parent is in another namespace
			to.Parent = v.ParentIndex
		}
	},
}

// vlanFlags are the switches of `ip link set … type vlan`: with the header put in order, without
// the announcements of GVRP and MVRP, and up only while the parent is.
func vlanFlags(l netlink.Link) (flags [5]bool) {
	v := l.(*netlink.Vlan)
	for n, flag := range []*bool{v.ReorderHdr, v.Gvrp, v.LooseBinding, v.Mvrp, v.BridgeBinding} {
		flags[n] = flag != nil && *flag
	}
	return flags
}
