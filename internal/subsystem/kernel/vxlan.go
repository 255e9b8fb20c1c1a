// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/base/plan"
)

// The far ends of VXLAN: entries of its forwarding table under the MAC address of zeros, to each of which goes what is
// for all, and what is for a MAC that was not heard of yet (head-end replication).

// anyMAC is the MAC address of those entries.
var anyMAC = net.HardwareAddr{0, 0, 0, 0, 0, 0}

// farEnds compares them.
func (r *round) farEnds() error {
	var now map[int][]netip.Addr
	for _, b := range r.bound {
		if b.missing || !b.isVXLAN() {
			continue
		}
		if now == nil {
			var err error
			if now, err = r.system.farEnds(); err != nil {
				return err
			}
		}
		var is []netip.Addr
		if b.link != nil {
			is = now[b.link.Index]
		}
		if want := sortedAddrs(b.Made.Tunnel.Ends()); !slices.Equal(is, want) {
			r.add(plan.Change{Action: plan.Modify, Object: "far ends of " + b.Name, From: addrWords(is), To: addrWords(want)},
				r.on(b, func(index int) error { return r.changeFarEnds(index, is, want) })).
				of(b.Name, fmt.Sprintf("far ends of %s were changed to %s", b.Name, addrWords(is)))
		}
	}
	return nil
}

func (i *DesiredInterface) isVXLAN() bool {
	return i.Made != nil && i.Made.Tunnel != nil && i.Made.Tunnel.Type == "vxlan"
}

func (r *round) changeFarEnds(index int, is, want []netip.Addr) error {
	for _, a := range want {
		if !slices.Contains(is, a) {
			if err := r.system.setFarEnd(index, a, true); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
	}
	for _, a := range is {
		if !slices.Contains(want, a) {
			if err := r.system.setFarEnd(index, a, false); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
	}
	return nil
}

// farEndsDrifted says whether somebody changed the far ends.
func (k *Kernel) farEndsDrifted() bool {
	if !slices.ContainsFunc(k.last.Interfaces, func(i DesiredInterface) bool { return i.isVXLAN() }) {
		return false
	}
	now, err := k.system.farEnds()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(k.last.Interfaces, func(i DesiredInterface) bool {
		index := k.seen.at[i.Name]
		return i.isVXLAN() && index != 0 && !k.seen.held(i.Name) && !slices.Equal(now[index], sortedAddrs(i.Made.Tunnel.Ends()))
	})
}

func sortedAddrs(list []netip.Addr) []netip.Addr {
	list = slices.Clone(list)
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func addrWords(list []netip.Addr) string {
	if len(list) == 0 {
		return "none"
	}
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

// farEnds reads them, by the index of a link, in order.
func (live) farEnds() (map[int][]netip.Addr, error) {
	list, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("list far ends of VXLAN: %w", err)
	}
	all := map[int][]netip.Addr{}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok && n.Flags&unix.NTF_SELF != 0 && slices.Equal(n.HardwareAddr, anyMAC) {
			all[n.LinkIndex] = append(all[n.LinkIndex], a.Unmap())
		}
	}
	for index := range all {
		all[index] = sortedAddrs(all[index])
	}
	return all, nil
}

func (live) setFarEnd(index int, a netip.Addr, there bool) error {
	n := &netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: unix.NTF_SELF, State: unix.NUD_PERMANENT | unix.NUD_NOARP,
		HardwareAddr: anyMAC, IP: a.AsSlice()}
	if there {
		return netlink.NeighAppend(n)
	}
	return netlink.NeighDel(n)
}
