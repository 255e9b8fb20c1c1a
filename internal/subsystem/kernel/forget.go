// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
)

// ForgetNeighbours takes what was learned out of the ARP and ND tables, so that it is asked for
// again: of a family (unix.AF_INET or unix.AF_INET6; 0 for both), and if they are given, only on
// one interface and for one address. Entries that are written down (permanent, proxies) stay.
func (k *Kernel) ForgetNeighbours(_ context.Context, family int, name string, address netip.Addr) (forgotten int, err error) {
	index := 0
	if name != "" {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return 0, fmt.Errorf("interface %s: %w", name, err)
		}
		index = link.Attrs().Index
	}
	list, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family) })
	if err != nil {
		return 0, fmt.Errorf("read neighbours: %w", err)
	}
	for i := range list {
		n := &list[i]
		of, _ := netip.AddrFromSlice(n.IP)
		if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 || address.IsValid() && of.Unmap() != address {
			continue
		}
		switch err := netlink.NeighDel(n); {
		case err == nil:
			forgotten++
		case !errors.Is(err, unix.ENOENT): // it went by itself
			return forgotten, fmt.Errorf("delete neighbour %s: %w", of, err)
		}
	}
	return forgotten, nil
}
