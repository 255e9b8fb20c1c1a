// SPDX-License-Identifier: Apache-2.0

package login

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// A probe is the kernel's own: an entry of the neighbour table that is put into the state "probe" is asked for, by unicast, up to
// three times; what answers is reachable afterwards, what does not has failed.

// probeNeighbour has the kernel ask for an address, where it has an entry.
func probeNeighbour(ifaces []string, a netip.Addr) {
	for _, name := range ifaces {
		link, err := net.InterfaceByName(name)
		if err != nil {
			continue
		}
		family := unix.AF_INET6
		if a.Is4() {
			family = unix.AF_INET
		}
		list, err := netlink.NeighListExecute(netlink.Ndmsg{Family: uint8(family), Index: uint32(link.Index)})
		if err != nil {
			continue
		}
		for i := range list {
			n := &list[i]
			if have, ok := netip.AddrFromSlice(n.IP); ok && have.Unmap() == a && n.State&(netlink.NUD_STALE|netlink.NUD_REACHABLE|netlink.NUD_DELAY) != 0 {
				n.State, n.Flags = netlink.NUD_PROBE, 0
				_ = netlink.NeighSet(n)
			}
		}
	}
}

// confirmations are the addresses whose hosts have answered lately, with their MAC addresses.
func confirmations() map[netip.Addr]config.MAC {
	all := map[netip.Addr]config.MAC{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, err := netlink.NeighListExecute(netlink.Ndmsg{Family: uint8(family)})
		if err != nil {
			continue
		}
		for _, n := range list {
			a, ok := netip.AddrFromSlice(n.IP)
			if !ok || len(n.HardwareAddr) != 6 || n.State&(netlink.NUD_REACHABLE|netlink.NUD_DELAY|netlink.NUD_STALE|netlink.NUD_PERMANENT) == 0 {
				continue // incomplete, being probed, or failed
			}
			var mac config.MAC
			copy(mac[:], n.HardwareAddr)
			all[a.Unmap()] = mac
		}
	}
	return all
}
