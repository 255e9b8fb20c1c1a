// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// A VRF, found by its name. Its table can't be changed: with another one, it is another link.
var vrf = linkKind{
	name:    "vrf",
	title:   "VRF",
	lacking: "this kernel has no VRFs, its module vrf is missing; for the reason run modprobe vrf",
	adopts:  true,

	want: func(i *config.Interface) netlink.Link { return &netlink.Vrf{Table: uint32(i.VRF.Table)} },
	same: func(want, now netlink.Link) bool {
		return want.Attrs().Name == now.Attrs().Name && want.(*netlink.Vrf).Table == now.(*netlink.Vrf).Table
	},
	words:    func(l netlink.Link) string { return fmt.Sprintf("VRF (table %d)", l.(*netlink.Vrf).Table) },
	describe: func(l netlink.Link, to *rib.Link) { to.Table = l.(*netlink.Vrf).Table },
}
