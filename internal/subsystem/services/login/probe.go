// SPDX-License-Identifier: Apache-2.0

package login

import (
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// A probe is the kernel's own: an entry of the neighbour table that is put into the state "probe" is asked for, by unicast, up to
// three times; what answers is reachable afterwards, what does not has failed. The kernel tells of both (hosts.watch).

// answers says whether a host has answered lately: an address of it is neither being probed nor has it failed.
func (h *hosts) answers(mac config.MAC, ifaces []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.by[mac] {
		if slices.Contains(ifaces, n.iface) && h.macs[n].state != netlink.NUD_PROBE {
			return true
		}
	}
	return false
}

// toProbe are the addresses by which a host is asked: one that it has, or where the kernel has forgotten it, one that it had. None for
// a host whose entry somebody has made permanent: that one always answers.
func (h *hosts) toProbe(mac config.MAC, ifaces []string, had netip.Addr) []neighbour {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first *neighbour
	for n := range h.by[mac] {
		switch {
		case !slices.Contains(ifaces, n.iface):
		case h.macs[n].state == netlink.NUD_PERMANENT:
			return nil
		case first == nil || n.address.Less(first.address): // IPv4 before IPv6
			first = &n
		}
	}
	if first != nil {
		return []neighbour{*first}
	}
	var list []neighbour
	for _, i := range ifaces {
		if _, other := h.macs[neighbour{i, had}]; !other {
			list = append(list, neighbour{i, had})
		}
	}
	return list
}

// probeNeighbour has the kernel ask for a neighbour. links are the indexes of interfaces that are known already.
func probeNeighbour(links map[string]int, n neighbour, mac config.MAC) {
	if links[n.iface] == 0 {
		link, err := net.InterfaceByName(n.iface)
		if err != nil {
			return
		}
		links[n.iface] = link.Index
	}
	family := unix.AF_INET6
	if n.address.Is4() {
		family = unix.AF_INET
	}
	_ = netlink.NeighSet(&netlink.Neigh{LinkIndex: links[n.iface], Family: family, State: netlink.NUD_PROBE, IP: n.address.AsSlice(), HardwareAddr: mac[:]})
}
