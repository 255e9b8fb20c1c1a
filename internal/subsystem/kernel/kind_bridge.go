// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"crypto/rand"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// A bridge, found by its name. What its ports do is in bridging.go.
var bridge = linkKind{
	name:    "bridge",
	title:   "bridge",
	lacking: "this kernel has no bridges, or none with VLANs; where its module bridge is missing, modprobe bridge says why",
	adopts:  true,

	want: func(i *config.Interface) netlink.Link {
		snooping := i.Bridge.Snooping.On()
		w := &netlink.Bridge{MulticastSnooping: &snooping}
		if len(i.Bridge.VLANs) > 0 {
			// A port that comes is in no VLAN until it is put in one, not in VLAN 1 (default_pvid).
			filtering, none := true, uint16(0)
			w.VlanFiltering, w.VlanDefaultPVID = &filtering, &none
		}
		return w
	},
	refer: func(want netlink.Link, b *bound) {
		if b.link == nil {
			want.Attrs().HardwareAddr = b.hardwareAddress()
			return
		}
		// Only a bridge with a VLAN filter is told to have none: a kernel that has no filter refuses the word.
		w := want.(*netlink.Bridge)
		if now, ok := b.link.as.(*netlink.Bridge); ok && w.VlanFiltering == nil && differ(now.VlanFiltering, nil) {
			w.VlanFiltering = new(bool)
		}
	},
	same: func(want, now netlink.Link) bool { return want.Attrs().Name == now.Attrs().Name },
	change: func(want, now netlink.Link) string {
		w, n := want.(*netlink.Bridge), now.(*netlink.Bridge)
		switch {
		case differ(w.VlanFiltering, n.VlanFiltering):
			return "VLAN filter"
		case differ(w.MulticastSnooping, n.MulticastSnooping):
			return "multicast snooping"
		case w.VlanDefaultPVID != nil && differ(w.VlanDefaultPVID, n.VlanDefaultPVID):
			return "default VLAN"
		}
		return ""
	},
	words: func(netlink.Link) string { return "bridge" },
	describe: func(l netlink.Link, to *rib.Link) {
		b := l.(*netlink.Bridge)
		to.Settings = fmt.Sprint(differ(b.VlanFiltering, nil), differ(b.MulticastSnooping, nil), differ(b.VlanDefaultPVID, nil))
	},
}

// differ says whether two values are not the same; none is the zero value.
func differ[T comparable](a, b *T) bool {
	var x, y T
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return x != y
}

// hardwareAddress is the MAC address of an interface's first port. Written into a bridge it stays; left alone,
// the bridge would take the lowest of its ports and change it with them, under the hosts that know it.
func (b *bound) hardwareAddress() net.HardwareAddr {
	for _, m := range b.members {
		if m.Kind.Bundles && m.link == nil {
			return m.hardwareAddress()
		}
		if m.link == nil || m.link.MAC == [6]byte{} {
			continue
		}
		if m.link.PermMAC != [6]byte{} {
			return m.link.PermMAC[:]
		}
		return m.link.MAC[:]
	}
	own := make([]byte, 6)
	_, _ = rand.Read(own)  // never fails
	own[0] = own[0]&^1 | 2 // of one host, given locally
	return own
}
