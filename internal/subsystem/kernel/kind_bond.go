// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// A bond, found by its name. The kernel takes another mode or LACP rate only while it is down and without
// ports: that is another link.
var bond = linkKind{
	name:    "bond",
	title:   "bond",
	lacking: "this kernel has no bonds, its module bonding is missing; for the reason run modprobe bonding",
	adopts:  true,

	want: func(i *config.Interface) netlink.Link {
		b := netlink.NewLinkBond(netlink.NewLinkAttrs())
		b.Mode, b.Miimon = bondModes[i.Bond.Mode], int(i.Bond.MIIMon.Std().Milliseconds())
		if i.Bond.Mode == "802.3ad" {
			b.LacpRate, b.MinLinks = netlink.BOND_LACP_RATE_FAST, i.Bond.MinLinks
			if i.Bond.LACPRate == "slow" {
				b.LacpRate = netlink.BOND_LACP_RATE_SLOW
			}
		}
		if i.Bond.Mode != "active-backup" {
			b.XmitHashPolicy = bondHashes[i.Bond.Hash]
		}
		return b
	},
	refer: func(want netlink.Link, b *bound) {
		w := want.(*netlink.Bond)
		if b.Made.Bond.Mode != "active-backup" {
			return
		}
		w.Primary = 0
		for _, m := range b.members {
			if m.Name != b.Made.Bond.Primary {
				continue
			}
			if w.Primary = -1; m.link != nil { // of one that is not there, nothing can be said
				w.Primary = m.link.Index
			}
		}
	},
	same: func(want, now netlink.Link) bool {
		w, n := want.(*netlink.Bond), now.(*netlink.Bond)
		return want.Attrs().Name == now.Attrs().Name && w.Mode == n.Mode && (w.Mode != netlink.BOND_MODE_802_3AD || w.LacpRate == n.LacpRate)
	},
	change: func(want, now netlink.Link) string {
		w, n := want.(*netlink.Bond), now.(*netlink.Bond)
		w.Mode, w.LacpRate = -1, -1 // they are as wanted, and the kernel refuses even to be told so
		switch {
		case w.Miimon != n.Miimon:
			return "miimon"
		case w.MinLinks >= 0 && w.MinLinks != n.MinLinks:
			return "min-links"
		case w.XmitHashPolicy >= 0 && w.XmitHashPolicy != n.XmitHashPolicy:
			return "hash"
		case w.Primary >= 0 && w.Primary != n.Primary:
			return "primary port"
		}
		return ""
	},
	words: func(l netlink.Link) string {
		b := l.(*netlink.Bond)
		return "bond (" + b.Mode.String() + ")"
	},
	describe: func(l netlink.Link, to *rib.Link) {
		b := l.(*netlink.Bond)
		to.Settings = fmt.Sprint(b.Mode, b.LacpRate, b.Miimon, b.MinLinks, b.XmitHashPolicy, b.Primary)
	},
}

var bondModes = map[config.BondMode]netlink.BondMode{
	"802.3ad": netlink.BOND_MODE_802_3AD, "active-backup": netlink.BOND_MODE_ACTIVE_BACKUP, "balance-xor": netlink.BOND_MODE_BALANCE_XOR,
}

var bondHashes = map[config.BondHash]netlink.BondXmitHashPolicy{
	"layer2": netlink.BOND_XMIT_HASH_POLICY_LAYER2, "layer2+3": netlink.BOND_XMIT_HASH_POLICY_LAYER2_3, "layer3+4": netlink.BOND_XMIT_HASH_POLICY_LAYER3_4,
}
